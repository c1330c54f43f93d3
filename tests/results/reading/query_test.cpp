// Reading results from outside: selections, columns, spectra, several readers at once, files of
// later versions.
#include "results/reading/query.hpp"

#include "report/spectra/spectra_view.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/run_status.hpp"
#include "tests/results/hdf5/forget_digests.hpp"
#include "tests/results/sample_run.hpp"
#include "tests/support/expect_error.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

namespace vindex::results::testing::query_test {
namespace {

using vindex::testing::message_of;

class QueryTest : public ::testing::Test {
 protected:
  void SetUp() override { write_sample(file_, run_); }

  std::vector<std::int64_t> every_row() const {
    std::vector<std::int64_t> all(run_.matrices.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::int64_t>(i);
    }
    return all;
  }
  static RowQuery wanting(const char* layers, const char* blocks, const char* roles,
                          const char* tensors = "") {
    return {.selection = model::parse_selection(layers, blocks, roles, tensors)};
  }
  /// Changes the file with libhdf5 alone.
  void edit(const std::function<void(hid_t)>& change) const {
    const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(file);
    forget_digests(file);
    EXPECT_GE(H5Fclose(file), 0);
  }
  /// Replaces the text attribute of the root.
  static void set_attribute(hid_t file, const char* name, const char* text) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(attribute, type, &text), 0);
    H5Aclose(attribute);
    H5Tclose(type);
  }
  /// What a later minor version may write: a block and columns that this one does not know.
  void make_newer() const {
    edit([&](hid_t file) {
      set_attribute(file, "schema_version", "1.7");
      std::vector<std::string> names;
      for (const model::MatrixRecord& matrix : run_.matrices) {
        names.emplace_back(model::block_name(matrix.block));
      }
      names[1] = "memory_bank";
      std::vector<const char*> texts;
      for (const std::string& name : names) {
        texts.push_back(name.c_str());
      }
      const hid_t block = H5Dopen2(file, "/matrix/block", H5P_DEFAULT);
      const hid_t type = H5Dget_type(block);
      EXPECT_GE(H5Dwrite(block, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), 0);
      H5Tclose(type);
      H5Dclose(block);
      std::vector<double> values;
      for (std::size_t i = 0; i < names.size(); ++i) {
        values.push_back(0.5 * static_cast<double>(i));
      }
      const hsize_t size = values.size();
      const hid_t space = H5Screate_simple(1, &size, nullptr);
      for (const auto& [name, stored] : {std::pair("/matrix/sharpness", H5T_IEEE_F64LE),
                                         std::pair("/matrix/of_another_type", H5T_STD_U16LE)}) {
        const hid_t data =
            H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        EXPECT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
                  0);
        H5Dclose(data);
      }
      H5Sclose(space);
      H5Gclose(H5Gcreate2(file, "/matrix/a_group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    });
  }

  TestFolder folder_;
  std::string file_ = folder_ / "out.h5";
  RunDescription run_ = sample_run({.experts = 5, .vectors = 2});
};

TEST_F(QueryTest, RowsAreThoseOfTheRunInItsOrder) {
  const ResultsFile file(file_);
  EXPECT_EQ(file.schema_version(), "1.5");
  EXPECT_TRUE(file.is_complete());
  EXPECT_EQ(file.attribute("mode"), run_.mode);
  EXPECT_EQ(file.run_text("settings"), run_.settings_json);
  EXPECT_EQ(file.tables(), std::vector<model::ResultTable>{model::ResultTable::kMatrix});
  const std::vector<QueriedRow> rows = file.rows();
  ASSERT_EQ(rows.size(), run_.matrices.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const model::MatrixRecord& matrix = run_.matrices[i];
    EXPECT_EQ(rows[i].number, static_cast<std::int64_t>(i));
    EXPECT_EQ(rows[i].tensor, matrix.tensor);
    EXPECT_EQ(rows[i].layer, matrix.layer);
    EXPECT_EQ(rows[i].expert, matrix.expert);
    EXPECT_EQ(rows[i].block, matrix.block);
    EXPECT_EQ(rows[i].role, matrix.role);
    EXPECT_EQ(rows[i].rows, matrix.rows);
    EXPECT_EQ(rows[i].cols, matrix.cols);
    EXPECT_EQ(rows[i].status, MatrixStatus::kMeasured);
  }
}

TEST_F(QueryTest, ASelectionIsOfEverythingAtOnce) {
  const ResultsFile file(file_);
  const auto count = [&](const RowQuery& query) {
    return file.rows(model::ResultTable::kMatrix, query).size();
  };
  EXPECT_EQ(count(wanting("1", "routed_expert", "down_proj")), 5U);
  EXPECT_EQ(count(wanting("", "router", "")), 2U);
  EXPECT_EQ(count(wanting("", "", "", ".*down_proj.*")), 10U);
  EXPECT_EQ(count(wanting("1", "", "", ".*down_proj.*")), 5U);
  EXPECT_EQ(count(wanting("7", "", "")), 0U);
  const model::MatrixRecord& third = run_.matrices[3];
  const auto found = file.rows(model::ResultTable::kMatrix, {.tensor = third.tensor});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].number, 3);
  EXPECT_EQ(count({.tensor = third.tensor, .slice = third.slice}), 1U);
  EXPECT_EQ(count({.tensor = third.tensor, .slice = 77}), 0U);
}

TEST_F(QueryTest, ColumnsAreReadByNameWhateverTheOrderOfRows) {
  const ResultsFile file(file_);
  const std::vector<std::int64_t> wanted = {7, 0, 7};
  const std::vector<double> stable_rank = file.numbers("stable_rank", wanted);
  const std::vector<double> var = file.numbers("var_at_k", wanted);
  ASSERT_EQ(stable_rank.size(), 3U);
  ASSERT_EQ(var.size(), 3 * kVarAtK.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const commands::SpectrumNumbers row = sample_numbers(run_, wanted[i]);
    EXPECT_EQ(stable_rank[i], row.values[statistics::Metric::kStableRank]);
    EXPECT_EQ(var[i * kVarAtK.size() + 2], row.values.var_at_k[2]);
  }
  EXPECT_EQ(file.texts("tensor", wanted),
            (std::vector<std::string>{run_.matrices[7].tensor, run_.matrices[0].tensor,
                                      run_.matrices[7].tensor}));
  EXPECT_TRUE(file.numbers("stable_rank", {}).empty());
  const std::vector<ColumnInfo> columns = file.columns();
  const auto column = [&](const std::string& name) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const ColumnInfo& one) { return one.name == name; });
    return found == columns.end() ? ColumnInfo{} : *found;
  };
  EXPECT_EQ(column("tensor").type, ValueType::kText);
  EXPECT_EQ(column("rows").type, ValueType::kInteger);
  EXPECT_EQ(column("var_at_k").type, ValueType::kReal);
  EXPECT_EQ(column("var_at_k").width, kVarAtK.size());
  EXPECT_EQ(column("stable_rank").units, "1");
  EXPECT_NE(column("stable_rank").long_name, "");
  EXPECT_EQ(column("k").name, "") << "a scale of the second side is not a column";
}

TEST_F(QueryTest, SpectraAndVectorsAreThoseMeasured) {
  const ResultsFile file(file_);
  for (const std::int64_t number : every_row()) {
    const ResultRow row = sample_row(run_, number);
    EXPECT_EQ(file.sigma(number), row.sigma);
    const auto vectors = file.vectors(number);
    ASSERT_EQ(vectors.has_value(), row.vectors.has_value());
    if (vectors) {
      EXPECT_EQ(vectors->right, row.vectors->right);
      EXPECT_EQ(vectors->left, row.vectors->left);
    }
  }
}

TEST_F(QueryTest, WhatIsNotThereIsSaid) {
  const ResultsFile file(file_);
  const std::vector<std::int64_t> first = {0};
  const std::vector<std::int64_t> beyond = {static_cast<std::int64_t>(run_.matrices.size())};
  EXPECT_EQ(message_of([&] { (void)file.numbers("stabel_rank", first); }),
            "E-COLUMN: " + file_ +
                ": /matrix/ has no column of numbers 'stabel_rank'; did you mean stable_rank?");
  EXPECT_EQ(message_of([&] { (void)file.numbers("../run/command", first); }).rfind("E-COLUMN", 0),
            0U);
  EXPECT_EQ(message_of([&] { (void)file.numbers("tensor", first); }).rfind("E-COLUMN", 0), 0U);
  EXPECT_EQ(message_of([&] { (void)file.texts("gini", first); }).rfind("E-COLUMN", 0), 0U);
  EXPECT_EQ(message_of([&] { (void)file.texts("../run/command", first); }).rfind("E-COLUMN", 0),
            0U);
  EXPECT_EQ(message_of([&] { (void)file.numbers("gini", beyond); }),
            "E-ROW: " + file_ + ": /matrix/ has no row 22; it has 22");
  EXPECT_EQ(message_of([&] { (void)file.sigma(-1); }).rfind("E-ROW", 0), 0U);
  EXPECT_EQ(
      message_of([&] { (void)ResultsFile{folder_ / "nowhere.h5"}; }).rfind("E-RESULTS-MISSING", 0),
      0U);
}

TEST_F(QueryTest, ManyThreadsReadManyFilesAtOnce) {
  const std::string other = folder_ / "other.h5";
  const RunDescription other_run = sample_run({.layers = 1, .rows = 40});
  write_sample(other, other_run);
  const ResultsFile shared(file_);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const ResultsFile own(t % 2 == 0 ? file_ : other);
      const RunDescription& own_run = t % 2 == 0 ? run_ : other_run;
      for (std::int64_t turn = 0; turn < 12; ++turn) {
        const std::int64_t mine = turn % static_cast<std::int64_t>(own_run.matrices.size());
        wrong += own.sigma(mine) == sample_row(own_run, mine).sigma ? 0 : 1;
        wrong += shared.sigma(turn) == sample_row(run_, turn).sigma ? 0 : 1;
        wrong +=
            shared.rows(model::ResultTable::kMatrix, wanting("1", "", "")).size() == 11 ? 0 : 1;
        const std::vector<std::int64_t> rows = {turn};
        wrong += shared.numbers("gini", rows).at(0) ==
                         sample_numbers(run_, turn).values[statistics::Metric::kGini]
                     ? 0
                     : 1;
        wrong += ResultsFile(other).rows().size() == other_run.matrices.size() ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(QueryTest, AFileOfALaterMinorVersionIsReadAsFarAsItIsUnderstood) {
  make_newer();
  const ResultsFile file(file_);
  EXPECT_EQ(file.schema_version(), "1.7");
  EXPECT_EQ(file.rows()[1].block, model::Block::kOther);
  EXPECT_EQ(file.rows(model::ResultTable::kMatrix, wanting("", "other", "")).size(), 1U);
  const std::vector<std::int64_t> second = {1};
  EXPECT_EQ(file.texts("block", second), std::vector<std::string>{"memory_bank"});
  EXPECT_EQ(file.numbers("sharpness", second), std::vector<double>{0.5});
  EXPECT_EQ(file.sigma(1), sample_row(run_, 1).sigma);
  const std::vector<ColumnInfo> columns = file.columns();
  const auto has = [&](const char* name) {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const ColumnInfo& column) { return column.name == name; });
  };
  EXPECT_TRUE(has("sharpness"));
  EXPECT_FALSE(has("of_another_type"));
  EXPECT_FALSE(has("a_group"));
  report::ShowQuery shown;
  shown.metric = "sharpness";
  for (const report::MatrixView& matrix : report::read_spectra_view(file_, shown).matrices) {
    if (matrix.tensor == run_.matrices[1].tensor) {
      EXPECT_EQ(matrix.block, model::Block::kOther);
      EXPECT_EQ(matrix.numbers.value, 0.5);
    }
  }
  EXPECT_EQ(read_status(file_).done, static_cast<std::int64_t>(run_.matrices.size()));
  const std::vector<std::string> faults = validate_file(file_);
  EXPECT_TRUE(faults.empty()) << faults.front();
}

TEST_F(QueryTest, AFileOfALaterMajorVersionIsRefused) {
  edit([](hid_t file) { set_attribute(file, "schema_version", "2.0"); });
  EXPECT_EQ(message_of([&] { (void)ResultsFile{file_}; }),
            "E-RESULTS-VERSION: " + file_ +
                ": written in schema 2.0, this program knows 1.5; use a newer vindex");
}

}  // namespace
}  // namespace vindex::results::testing::query_test
