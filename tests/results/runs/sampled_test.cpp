// Columns of schema 1.2: theta in every file, what samples say where they were taken; files of
// earlier minor versions.
#include "report/export/export.hpp"
#include "report/spectra/spectra_view.hpp"
#include "results/reading/query.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "tests/results/hdf5/forget_digests.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace vindex::results::testing::sampled_test {
namespace {

class Sampled : public ::testing::Test {
 protected:
  static std::vector<std::int64_t> all_of(const RunDescription& run) {
    std::vector<std::int64_t> rows(run.matrices.size());
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
  report::SpectraView shown(const std::string& metric, const std::string& sort_by = "") const {
    report::ShowQuery query;
    query.metric = metric;
    query.sort_by = sort_by;
    return report::read_spectra_view(file_, query);
  }
  bool has_column(const std::string& name) const {
    const std::vector<ColumnInfo> columns = ResultsFile(file_).columns();
    return std::any_of(columns.begin(), columns.end(),
                       [&](const ColumnInfo& column) { return column.name == name; });
  }
  /// What a program of an earlier schema wrote.
  void make_older(const char* version = "1.1",
                  const std::vector<std::string>& columns = {"theta", "theta_null", "signal",
                                                             "rank_edge", "rank_gd"},
                  const std::vector<std::string>& of_tensors = {}, bool in_both = false) const {
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    for (const std::string& name : columns) {
      EXPECT_GE(H5Ldelete(file, ("/matrix/" + name).c_str(), H5P_DEFAULT), 0);
      if (in_both || !of_tensors.empty()) {
        EXPECT_GE(H5Ldelete(file, ("/tensor/" + name).c_str(), H5P_DEFAULT), 0);
      }
    }
    for (const std::string& name : of_tensors) {
      EXPECT_GE(H5Ldelete(file, ("/tensor/" + name).c_str(), H5P_DEFAULT), 0);
    }
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const hid_t attribute = H5Aopen(file, "schema_version", H5P_DEFAULT);
    const char* const text = version;
    EXPECT_GE(H5Awrite(attribute, type, &text), 0);
    H5Aclose(attribute);
    H5Tclose(type);
    forget_digests(file);
    EXPECT_GE(H5Fclose(file), 0);
  }

  TestFolder folder_;
  std::string file_ = folder_ / "out.h5";
  RunDescription run_ = sample_run({.sampled = true});
};

TEST_F(Sampled, RowsAndVectorsComeBack) {
  write_sample(file_, run_);
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  const ResultsFile file(file_);
  const auto rows = all_of(run_);
  const std::vector<double> seed = file.numbers("theta_seed", rows);
  const std::vector<double> count = file.numbers("seed_count", rows);
  for (const std::int64_t row : rows) {
    const double wanted = sample_numbers(run_, row).sample[0];
    const auto i = static_cast<std::size_t>(row);
    EXPECT_TRUE(std::isnan(wanted) ? std::isnan(seed[i]) : seed[i] == wanted) << row;
    EXPECT_TRUE(std::isnan(wanted) ? std::isnan(count[i]) : count[i] == 50.0) << row;
  }
  EXPECT_EQ(file.numbers("theta_seed_null", rows)[0], statistics::theta_seed_null(50));
  const std::vector<TensorEntry> tensors = file.tensors();
  ASSERT_EQ(tensors.size(), run_.tensors.size());
  const TensorEntry& norm = tensors.back();
  const statistics::SampleAngles& wanted = run_.tensor_samples.back().angles;
  EXPECT_EQ(norm.organ_class, "norm");
  EXPECT_EQ(norm.reason, "1-D; a remark");
  EXPECT_EQ(norm.angles.theta_qq, wanted.theta_qq);
  EXPECT_EQ(norm.angles.theta_seed, wanted.theta_seed);
  EXPECT_EQ(norm.angles.count, 5);
  EXPECT_EQ(norm.scales.z_modulus, -0.5);
  EXPECT_EQ(norm.scales.csci_null_sd, 0.0625);
  EXPECT_EQ(norm.scales_missing, "another");
  EXPECT_EQ(tensors.front().organ_class, "organ");
  EXPECT_TRUE(std::isnan(tensors.front().angles.theta_qq));
}

TEST_F(Sampled, ScalesOfAMatrixAreInItsRowAndInItsTensor) {
  run_ = sample_run({.rows = 16, .cols = 32, .sampled = true});
  write_sample(file_, run_);
  const ResultsFile file(file_);
  const auto rows = all_of(run_);
  const std::vector<double> z = file.numbers("z_modulus", rows);
  const std::vector<double> sd = file.numbers("csci_null_sd", rows);
  const std::vector<TensorEntry> tensors = file.tensors();
  int measured = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& numbers = sample_numbers(run_, rows[i]);
    const std::string& name = run_.matrices[i].tensor;
    const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const TensorEntry& entry) { return entry.name == name; });
    ASSERT_NE(tensor, tensors.end());
    if (std::isnan(numbers.scales[0])) {
      EXPECT_TRUE(std::isnan(z[i]) && std::isnan(tensor->scales.z_modulus)) << i;
      EXPECT_FALSE(tensor->scales_missing.empty()) << i;
      continue;
    }
    ++measured;
    EXPECT_EQ(z[i], numbers.scales[0]) << i;
    EXPECT_EQ(sd[i], statistics::scale_nulls(4096).csci_null_sd) << i;
    EXPECT_DOUBLE_EQ(tensor->scales.z_modulus, z[i]) << i;
    EXPECT_DOUBLE_EQ(tensor->scales.csci_null_sd, sd[i]) << i;
    EXPECT_EQ(tensor->scales_missing, "") << i;
  }
  EXPECT_GT(measured, 3);
}

TEST_F(Sampled, AFileOf13HasAnglesAndNoScales) {
  run_ = sample_run({.rows = 16, .cols = 32, .sampled = true});
  const auto half = static_cast<std::int64_t>(run_.matrices.size() / 2);
  {
    const auto store = open_run_store(file_, run_, {}, false);
    measure_rows(*store, run_, 0, half);
    store->publish_file();
  }
  std::filesystem::remove_all(file_ + ".parts");
  make_older("1.3",
             {"z_modulus", "z_modulus_null", "z_modulus_null_sd", "csci", "csci_null_sd",
              "z_modulus_signflip", "csci_signflip", "csci_permuted", "csci_permuted_sd"},
             {"z_reason"});
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  {
    const auto store = open_run_store(file_, run_, {}, false);
    EXPECT_TRUE(store->done()[0]);
    measure_rows(*store, run_, half, static_cast<std::int64_t>(run_.matrices.size()));
    store->publish_file();
  }
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  const ResultsFile file(file_);
  EXPECT_TRUE(std::isnan(file.numbers("z_modulus", std::vector<std::int64_t>{0})[0]));
  EXPECT_FALSE(std::isnan(file.numbers("theta_seed", std::vector<std::int64_t>{0})[0]));
  int older = 0;
  int complete = 0;
  for (const TensorEntry& tensor : file.tensors()) {
    older += tensor.scales_missing == "measured before schema 1.4" ? 1 : 0;
    complete += tensor.scales_missing.empty() ? 1 : 0;
  }
  EXPECT_GE(older, half);
  EXPECT_GT(complete, 0);
}

TEST_F(Sampled, AFileOf14HasNoPermutations) {
  run_ = sample_run({.rows = 16, .cols = 32, .sampled = true});
  const auto half = static_cast<std::int64_t>(run_.matrices.size() / 2);
  {
    const auto store = open_run_store(file_, run_, {}, false);
    measure_rows(*store, run_, 0, half);
    store->publish_file();
  }
  std::filesystem::remove_all(file_ + ".parts");
  make_older("1.4", {"csci_permuted", "csci_permuted_sd"}, {}, true);
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  {
    const auto store = open_run_store(file_, run_, {}, false);
    EXPECT_TRUE(store->done()[0]);
    measure_rows(*store, run_, half, static_cast<std::int64_t>(run_.matrices.size()));
    store->publish_file();
  }
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  EXPECT_TRUE(has_column("csci_permuted"));
  EXPECT_FALSE(std::isnan(ResultsFile(file_).numbers("csci", std::vector<std::int64_t>{0})[0]));
}

// The errors of drawn nulls stand beside the rows, a row for each shape.
TEST_F(Sampled, ThinShapesHaveTheErrorsOfTheirNulls) {
  run_ = sample_run({.rows = 16, .cols = 32});
  write_sample(file_, run_);
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const auto column = [file](const char* path) {
    const hid_t dataset = H5Dopen(file, path, H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<double> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Sclose(space);
    H5Dclose(dataset);
    return values;
  };
  const std::vector<double> p = column("/null/p");
  const std::vector<double> n = column("/null/n");
  const std::vector<double> errors = column("/null/stable_rank_null_error");
  ASSERT_FALSE(p.empty());
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(errors.at(i), statistics::null_errors(static_cast<std::int64_t>(p[i]),
                                                    static_cast<std::int64_t>(
                                                        n.at(i)))[statistics::Metric::kStableRank]);
    EXPECT_GT(errors.at(i), 0.0);
  }
  EXPECT_GE(H5Fclose(file), 0);
}

TEST_F(Sampled, WorkersAndMergeGiveTheSameColumns) {
  for (std::int32_t worker = 0; worker < 2; ++worker) {
    const auto store = open_run_store(file_, run_, {worker, 2}, false);
    for (std::int64_t row = worker; row < static_cast<std::int64_t>(run_.matrices.size());
         row += 2) {
      store->add(sample_row(run_, row));
    }
    store->publish_file();
  }
  merge_parts({file_ + ".parts"}, file_);
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  const std::string single = folder_ / "single.h5";
  write_sample(single, run_);
  const auto rows = all_of(run_);
  const ResultsFile merged(file_);
  const ResultsFile whole(single);
  for (const char* name : {"theta_seed", "seed_entropy", "seed_kurtosis", "seed_cv", "theta"}) {
    const auto a = merged.numbers(name, rows);
    const auto b = whole.numbers(name, rows);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << name << i;
    }
  }
  EXPECT_EQ(merged.tensors().back().angles.theta_qq, whole.tensors().back().angles.theta_qq);
}

TEST_F(Sampled, ARunWithoutSamplesIsAnotherRun) {
  write_sample(file_, run_);
  EXPECT_THROW(open_run_store(file_, sample_run(), {}, false), ConfigurationError);
  const std::string plain = folder_ / "plain.h5";
  write_sample(plain, sample_run());
  EXPECT_THROW(open_run_store(plain, run_, {}, false), ConfigurationError);
}

TEST_F(Sampled, ColumnsAreShownAndExported) {
  write_sample(file_, run_);
  const report::SpectraView sorted = shown("theta", "theta_seed");
  EXPECT_TRUE(sorted.metric.has_null);
  EXPECT_EQ(sorted.matrices[2].numbers.value,
            sample_numbers(run_, 2).values[statistics::Metric::kTheta]);
  EXPECT_EQ(sorted.matrices[2].sort_by, sample_numbers(run_, 2).sample[0]);
  report::export_file(file_, "csv", folder_ / "out.csv");
  std::ifstream csv(folder_ / "out.csv");
  std::string header;
  std::getline(csv, header);
  for (const char* name : {",theta,", ",theta_null,", ",rank_gd", ",theta_seed,", ",seed_cv,"}) {
    EXPECT_NE(header.find(name), std::string::npos) << name;
  }
}

TEST_F(Sampled, WithoutSamplesThereIsThetaAlone) {
  write_sample(file_, sample_run());
  EXPECT_TRUE(has_column("theta"));
  EXPECT_TRUE(has_column("rank_edge"));
  EXPECT_FALSE(has_column("theta_seed"));
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
}

TEST_F(Sampled, FilesOfSchema11AreReadAndResumed) {
  run_ = sample_run();
  const auto half = static_cast<std::int64_t>(run_.matrices.size() / 2);
  {
    const auto store = open_run_store(file_, run_, {}, false);
    measure_rows(*store, run_, 0, half);
    store->publish_file();
  }
  std::filesystem::remove_all(file_ + ".parts");
  make_older();
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  EXPECT_THROW(shown("theta"), UsageError);
  EXPECT_EQ(shown("stable_rank").rows_measured, half);
  {
    const auto store = open_run_store(file_, run_, {}, false);
    EXPECT_TRUE(store->done()[0]);
    measure_rows(*store, run_, half, static_cast<std::int64_t>(run_.matrices.size()));
    store->publish_file();
  }
  EXPECT_EQ(validate_file(file_), std::vector<std::string>());
  const auto theta = ResultsFile(file_).numbers("theta", all_of(run_));
  EXPECT_TRUE(std::isnan(theta.front())) << "measured by a program that did not know it";
  EXPECT_EQ(theta.back(), sample_numbers(run_, static_cast<std::int64_t>(theta.size()) - 1)
                              .values[statistics::Metric::kTheta]);
}

TEST_F(Sampled, AFileOf12WithoutThetaIsDamaged) {
  write_sample(file_, sample_run());
  const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Ldelete(file, "/matrix/theta", H5P_DEFAULT);
  H5Fclose(file);
  EXPECT_FALSE(validate_file(file_).empty());
}

}  // namespace
}  // namespace vindex::results::testing::sampled_test
