// Rows beside those of /matrix/: a table of their own in the file, one order for a run, the same
// resume, workers, merge and checks.
#include "sample_run.hpp"

#include "report/export/export.hpp"
#include "report/spectra/spectra_view.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include "tests/support/expect_error.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace vindex::results::testing::derived_rows_test {
namespace {

using model::ResultTable;

std::int64_t count_of(const RunDescription& run) {
  return static_cast<std::int64_t>(run.matrices.size());
}

using vindex::testing::error_of;

std::vector<double> sigma_of(ResultsReader& reader, const StoredRow& row) {
  std::vector<double> sigma(static_cast<std::size_t>(row.sigma_count));
  reader.spectra().read_sigma(row.bulk.row, sigma);
  return sigma;
}

/// Every row of every table with its spectrum and vectors, as text.
std::vector<std::string> content_of(const std::string& path) {
  ResultsReader reader(path);
  std::vector<std::string> lines;
  for (const StoredRow& row : reader.all_rows(0)) {
    std::ostringstream line;
    line.precision(17);
    line << model::table_name(row.table) << ' ' << row_key(row) << ' ' << row.bulk.row << ' '
         << static_cast<int>(row.status) << ' ' << row.of_matrix << ' '
         << commands::var_at_k_of(row, 0) << ' ' << commands::spectrum_numbers(row.cells).moments[6]
         << ' ' << row.error_class;
    if (row.sigma_count > 0) {
      for (const double sigma : sigma_of(reader, row)) {
        line << ' ' << sigma;
      }
    }
    if (row.vector_count > 0) {
      for (const float value : reader.spectra().read_vectors(row.bulk.row).right) {
        line << ' ' << value;
      }
    }
    lines.push_back(line.str());
  }
  return lines;
}

TEST(DerivedRows, LieInATableOfTheirOwn) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  SampleOptions options;
  options.vectors = 3;
  const RunDescription run = weighted_run(options);
  write_sample(path, run);
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  ResultsReader reader(path);
  const std::vector<StoredRow> matrices = reader.rows(0);
  const std::vector<StoredRow> weighted = reader.rows(0, ResultTable::kImatrix);
  EXPECT_EQ(matrices.size(), 14U);
  ASSERT_EQ(weighted.size(), 6U);
  EXPECT_TRUE(reader.rows(0, ResultTable::kProduct).empty());
  for (std::size_t i = 0; i < weighted.size(); ++i) {
    const std::int64_t number = 14 + static_cast<std::int64_t>(i);
    const ResultRow wanted = sample_row(run, number);
    const auto of = static_cast<std::size_t>(weighted[i].of_matrix);
    ASSERT_LT(of, matrices.size());
    EXPECT_EQ(row_key(matrices[of]), row_key(weighted[i]));
    EXPECT_EQ(weighted[i].bulk.row, number);
    EXPECT_EQ(commands::spectrum_numbers(weighted[i].cells).values.var_at_k,
              sample_numbers(run, number).values.var_at_k);
    EXPECT_EQ(sigma_of(reader, weighted[i]), wanted.sigma);
    EXPECT_EQ(reader.spectra().read_vectors(number).right, wanted.vectors->right);
    EXPECT_NE(sigma_of(reader, weighted[i]), sigma_of(reader, matrices[of]));
  }
  EXPECT_TRUE(reader.file().exists("/imatrix/spectra/p16/sigma"));
  EXPECT_TRUE(reader.file().has_scale(reader.file().open_dataset("/imatrix/var_at_k"), 0,
                                      "/imatrix/matrix"));
  // The sign flip is the null of a weighted matrix, though nobody asked for it in /matrix/.
  EXPECT_TRUE(reader.file().exists("/imatrix/var_at_k_signflip"));
  EXPECT_FALSE(reader.file().exists("/matrix/var_at_k_signflip"));
}

TEST(DerivedRows, LeaveEverythingOfMatrixAsItIsWithoutThem) {
  const TestFolder folder;
  write_sample(folder / "plain.h5", sample_run());
  write_sample(folder / "both.h5", weighted_run());
  ResultsReader plain(folder / "plain.h5");
  ResultsReader both(folder / "both.h5");
  EXPECT_FALSE(plain.file().exists("/imatrix"));
  EXPECT_FALSE(plain.file().exists("/resume/imatrix"));
  for (const char* group : {"/matrix", "/tensor", "/layer", "/spectra", "/spectra/p16"}) {
    EXPECT_EQ(plain.file().list(group), both.file().list(group)) << group;
  }
  for (const char* name : {"matrices_total", "matrices_measured", "matrices_escalated"}) {
    EXPECT_EQ(plain.file().integer_attribute("/", name), both.file().integer_attribute("/", name));
  }
  const std::vector<std::string> without = content_of(folder / "plain.h5");
  std::vector<std::string> with = content_of(folder / "both.h5");
  ASSERT_GT(with.size(), without.size());
  with.resize(without.size());
  EXPECT_EQ(with, without);
}

TEST(DerivedRows, ARunIsCompleteOnlyWithThem) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = weighted_run();
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 0, 14);
    store->publish_file();
  }
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  RunStatus status = read_status(path);
  EXPECT_EQ(status.state, "partial");
  EXPECT_EQ(status.matrices_total, 14);
  EXPECT_EQ(status.left, 0);
  EXPECT_EQ(status.derived_total, 6);
  EXPECT_EQ(status.derived_left, 6);
  {
    const auto store = open_run_store(path, run, {}, false);
    EXPECT_EQ(std::count(store->done().begin(), store->done().end(), true), 14);
    measure_rows(*store, run, 14, 20);
    store->publish_file();
  }
  status = read_status(path);
  EXPECT_EQ(status.state, "complete");
  EXPECT_EQ(status.derived_done, 6);
  EXPECT_FALSE(std::filesystem::exists(path + ".parts"));
}

TEST(DerivedRows, ResumeWorkersAndMergeEqualTheSingleRun) {
  const TestFolder folder;
  SampleOptions options;
  options.vectors = 2;
  const RunDescription run = weighted_run(options);
  write_sample(folder / "single.h5", run);
  // Rows in any order, parts that mix tables, and one that holds derived rows alone.
  const std::string resumed = folder / "resumed.h5";
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{19, 3, 15, 0}, {14, 16}, {}}) {
    const auto store = open_run_store(resumed, run, {}, false);
    for (const std::int64_t row : rows) {
      store->add(sample_row(run, row));
    }
    store->publish_part();
    if (rows.empty()) {
      for (std::int64_t row = 0; row < count_of(run); ++row) {
        if (!store->done()[static_cast<std::size_t>(row)]) {
          store->add(sample_row(run, row));
        }
      }
      store->publish_file();
    }
  }
  EXPECT_EQ(content_of(resumed), content_of(folder / "single.h5"));
  const std::string merged = folder / "merged.h5";
  for (std::int32_t worker = 0; worker < 3; ++worker) {
    const auto store = open_run_store(merged, run, {worker, 3}, false);
    for (std::int64_t row = worker; row < count_of(run); row += 3) {
      store->add(sample_row(run, row));
    }
    store->publish_file();
  }
  merge_parts({merged + ".parts"}, merged);
  EXPECT_EQ(validate_file(merged), std::vector<std::string>{});
  EXPECT_EQ(content_of(merged), content_of(folder / "single.h5"));
}

TEST(DerivedRows, AreAddedToAFileAndStayInIt) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription plain = sample_run();
  const RunDescription run = weighted_run();
  write_sample(path, plain);
  {
    const auto store = open_run_store(path, run, {}, false);
    EXPECT_EQ(std::count(store->done().begin(), store->done().end(), true), 14);
    measure_rows(*store, run, 14, 20);
    store->publish_file();
  }
  write_sample(folder / "single.h5", run);
  EXPECT_EQ(content_of(path), content_of(folder / "single.h5"));
  // A run that knows nothing of them keeps them and what they were made of.
  SampleOptions larger;
  larger.layers = 3;
  write_sample(path, sample_run(larger));
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  EXPECT_EQ(ResultsReader(path).rows(0, ResultTable::kImatrix).size(), 6U);
  RunDescription other = run;
  other.fingerprint.back().second = "sha256 2";
  EXPECT_EQ(error_of([&] { open_run_store(path, other, {}, false); }), "E-RESUME-FINGERPRINT");
}

TEST(DerivedRows, FailuresAreTheirOwn) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = weighted_run();
  const auto store = open_run_store(path, run, {}, false);
  measure_rows(*store, run, 0, 19);
  ResultRow failed;
  failed.index = 19;
  failed.status = MatrixStatus::kFailed;
  failed.reason = "the importance matrix is gone";
  failed.error_class = "74";
  store->add(std::move(failed));
  store->publish_file();
  EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  EXPECT_EQ(read_status(path).failed, 0);
  EXPECT_EQ(read_status(path).derived_failed, 1);
  EXPECT_EQ(ResultsReader(path).file().integer_attribute("/", "matrices_failed"), 0);
  EXPECT_FALSE(open_run_store(path, run, {}, false)->done()[19]);
}

TEST(DerivedRows, AreNotAmongTheMatricesThatAreShown) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const auto store = open_run_store(path, weighted_run(), {}, false);
  measure_rows(*store, weighted_run(), 0, 14);
  store->publish_file();
  const report::SpectraView shown = report::read_spectra_view(path, {});
  EXPECT_EQ(shown.rows_total, 14);
  EXPECT_EQ(shown.matrices.size(), 14U);
  EXPECT_EQ(shown.state, "partial");
}

TEST(DerivedRows, ExportAsCsvAndJson) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_sample(path, weighted_run());
  const auto lines = [&](const std::string& file) {
    std::ifstream stream(file);
    std::vector<std::string> out;
    for (std::string line; std::getline(stream, line);) {
      out.push_back(line);
    }
    return out;
  };
  report::export_file(path, "csv", folder / "plain.csv");
  report::export_file(path, "csv", folder / "weighted.csv", true, "imatrix");
  EXPECT_EQ(lines(folder / "plain.csv").size(), 15U);
  EXPECT_EQ(lines(folder / "plain.csv")[0].find("of_matrix"), std::string::npos);
  const std::vector<std::string> weighted = lines(folder / "weighted.csv");
  ASSERT_EQ(weighted.size(), 7U);
  EXPECT_NE(weighted[0].find("of_matrix"), std::string::npos);
  EXPECT_NE(weighted[0].find("var_at_64_signflip"), std::string::npos);
  EXPECT_EQ(weighted[1].find("0,model.layers.0.mlp.experts.0.down_proj.weight"), 0U);
  report::export_file(path, "json", folder / "weighted.json", true, "imatrix");
  EXPECT_NE(lines(folder / "weighted.json")[0].find("\"imatrix\":["), std::string::npos);
  EXPECT_EQ(error_of([&] { report::export_file(path, "csv", folder / "x", true, "product"); }),
            "E-EXPORT-TABLE");
  EXPECT_EQ(
      error_of([&] { report::export_file(path, "weightwatcher", folder / "x", true, "imatrix"); }),
      "E-EXPORT-TABLE");
  EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

}  // namespace
}  // namespace vindex::results::testing::derived_rows_test
