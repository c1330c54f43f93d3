// Files whose rows are numbers and arrays: what is written is read, runs go on, workers' parts make
// the single run's file.
#include "cell_run.hpp"
#include "sample_run.hpp"

#include "commands/experts/experts_cells.hpp"
#include "commands/token_tables/routing_cells.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/square_array.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace vindex::results::cell_files_test {
namespace {

using testing::cell_row;
using testing::cell_run;
using testing::TestFolder;
using testing::write_cells;

bool same_bits(const ArrayCell& a, const ArrayCell& b) {
  return a.floats.size() == b.floats.size() && a.doubles.size() == b.doubles.size() &&
         std::memcmp(a.floats.data(), b.floats.data(), a.floats.size() * sizeof(float)) == 0 &&
         std::memcmp(a.doubles.data(), b.doubles.data(), a.doubles.size() * sizeof(double)) == 0;
}

bool all_nan(const ArrayCell& cell) {
  for (const float value : cell.floats) {
    if (!std::isnan(value)) {
      return false;
    }
  }
  for (const double value : cell.doubles) {
    if (!std::isnan(value)) {
      return false;
    }
  }
  return !cell.empty();
}

/// Everything of both files but /run/ and /resume/ is the same.
void expect_same(const std::string& one, const std::string& other) {
  ResultsReader a(one, std::nullopt);
  ResultsReader b(other, std::nullopt);
  const std::vector<StoredRow> rows_a = a.rows(0);
  const std::vector<StoredRow> rows_b = b.rows(0);
  ASSERT_EQ(rows_a.size(), rows_b.size());
  for (std::size_t i = 0; i < rows_a.size(); ++i) {
    EXPECT_EQ(row_key(rows_a[i]), row_key(rows_b[i]));
    EXPECT_EQ(rows_a[i].status, rows_b[i].status);
    ASSERT_EQ(rows_a[i].cells.size(), rows_b[i].cells.size());
    EXPECT_EQ(0, std::memcmp(rows_a[i].cells.data(), rows_b[i].cells.data(),
                             rows_a[i].cells.size() * sizeof(double)));
    for (std::size_t array = 0; array < a.schema().cells->arrays.size(); ++array) {
      EXPECT_TRUE(same_bits(a.arrays().read(static_cast<std::int64_t>(i), array),
                            b.arrays().read(static_cast<std::int64_t>(i), array)))
          << i << " " << array;
    }
  }
  for (const char* group : {"/", a.schema().table}) {
    EXPECT_EQ(a.file().list(group), b.file().list(group));
  }
}

class CellFiles : public ::testing::TestWithParam<FileSchema> {
 protected:
  TestFolder folder_;
};

TEST_P(CellFiles, WhatIsWrittenIsRead) {
  const RunDescription run = cell_run(GetParam());
  const std::string path = folder_ / "out.h5";
  write_cells(path, run);
  EXPECT_EQ(validate_file(path), std::vector<std::string>());
  EXPECT_EQ(schema_at(path), GetParam());
  ResultsReader reader(path, std::nullopt);
  EXPECT_EQ(reader.header().status, "complete");
  const FileDescription description = reader.description();
  EXPECT_EQ(description.optional_columns, run.optional_columns);
  ASSERT_EQ(description.attributes.size(), 3U);
  EXPECT_EQ(std::get<double>(description.attributes[1].value), 0.1);
  EXPECT_EQ(reader.file().integer_attribute("/", "tokens"), 64);
  EXPECT_EQ(reader.file().text_attribute("/", "rule"), "softmax, top 2");
  const std::vector<StoredRow> rows = reader.rows(0);
  ASSERT_EQ(rows.size(), run.matrices.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ResultRow wanted = cell_row(run, static_cast<std::int64_t>(i));
    ASSERT_EQ(rows[i].cells.size(), wanted.cells.size());
    for (std::size_t cell = 0; cell < wanted.cells.size(); ++cell) {
      EXPECT_EQ(rows[i].cells[cell], wanted.cells[cell]);
    }
    for (std::size_t array = 0; array < wanted.arrays.size(); ++array) {
      const ArrayCell found = reader.arrays().read(static_cast<std::int64_t>(i), array);
      EXPECT_TRUE(wanted.arrays[array].empty() ? all_nan(found)
                                               : same_bits(found, wanted.arrays[array]))
          << array;
    }
  }
}

TEST_P(CellFiles, AStoppedRunGoesOn) {
  const RunDescription run = cell_run(GetParam());
  const std::string path = folder_ / "out.h5";
  {
    auto store = open_run_store(path, run, {}, false);
    store->add(cell_row(run, 2));
    store->publish_part();
    store->add(cell_row(run, 0));
    store->publish_file();
    EXPECT_EQ(validate_file(path), std::vector<std::string>());
    EXPECT_EQ(read_status(path).state, "partial");
    EXPECT_EQ(read_status(path).done, 2);
  }
  {
    auto store = open_run_store(path, run, {}, false);
    EXPECT_EQ(store->done(), (std::vector<bool>{true, false, true, false}));
    ResultRow failed;
    failed.index = 1;
    failed.status = MatrixStatus::kFailed;
    failed.reason = "a read error";
    failed.error_class = "74";
    store->add(failed);
    store->add(cell_row(run, 3));
    store->publish_file();
    EXPECT_EQ(read_status(path).failed, 1);
    ResultsReader reader(path, std::nullopt);
    EXPECT_TRUE(all_nan(reader.arrays().read(1, 0)));
    EXPECT_EQ(validate_file(path), std::vector<std::string>());
  }
  auto store = open_run_store(path, run, {}, false);
  store->add(cell_row(run, 1));
  store->publish_file();
  write_cells(folder_ / "whole.h5", run);
  expect_same(path, folder_ / "whole.h5");
}

TEST_P(CellFiles, PartsOfWorkersMakeTheSingleRunsFile) {
  const RunDescription run = cell_run(GetParam());
  const std::string path = folder_ / "out.h5";
  for (std::int32_t worker = 0; worker < 2; ++worker) {
    auto store = open_run_store(path, run, {.index = worker, .count = 2}, false);
    for (std::int64_t row = worker; row < 4; row += 2) {
      store->add(cell_row(run, row));
    }
    store->publish_file();
  }
  merge_parts({path + ".parts"}, path);
  EXPECT_EQ(validate_file(path), std::vector<std::string>());
  write_cells(folder_ / "single.h5", run);
  expect_same(path, folder_ / "single.h5");
}

TEST_P(CellFiles, OtherScalesAreAnotherRun) {
  RunDescription run = cell_run(GetParam());
  write_cells(folder_ / "out.h5", run);
  auto& scale = run.scales.begin()->second;
  if (scale.integers.empty()) {
    scale.doubles.back() = 0.5;
  } else {
    scale.integers.push_back(17);
  }
  EXPECT_THROW(open_run_store(folder_ / "out.h5", run, {}, false), ConfigurationError);
}

TEST_P(CellFiles, ColumnsThatWereNotAskedForAreNotThere) {
  RunDescription run = cell_run(GetParam());
  run.optional_columns.clear();
  const std::string path = folder_ / "out.h5";
  write_cells(path, run);
  EXPECT_EQ(validate_file(path), std::vector<std::string>());
  const ResultsReader reader(path, std::nullopt);
  EXPECT_FALSE(reader.file().exists("/group/overlap_right"));
  EXPECT_FALSE(reader.file().exists("/layer/gate_adjacent_cosine"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CellFiles, ::testing::ValuesIn(testing::cell_kinds()),
                         [](const auto& kind) { return std::string(writing_command(kind.param)); });

TEST(CellArrays, BulkBeyondTheLimitIsPublished) {
  const TestFolder folder;
  const RunDescription run = cell_run(FileSchema::kExperts);
  auto store = open_run_store(folder / "out.h5", run, {}, false, /*pending_bytes=*/1);
  store->add(cell_row(run, 0));
  EXPECT_EQ(read_status(folder / "out.h5").done, 1);
}

TEST(CellArrays, SmallerOnesArePaddedWithNaN) {
  const std::vector<float> wide = padded_array<float>({1, 2, 3, 4}, 2, 2, 3, 3);
  EXPECT_EQ(wide[0], 1.0F);
  EXPECT_EQ(wide[1], 2.0F);
  EXPECT_TRUE(std::isnan(wide[2]));
  EXPECT_EQ(wide[3], 3.0F);
  EXPECT_EQ(wide[4], 4.0F);
  for (std::size_t i = 5; i < 9; ++i) {
    EXPECT_TRUE(std::isnan(wide[i]));
  }
}

// A file may claim scales of different lengths for an array of experts beside experts.
TEST(SquareArray, IsNotReadBeyondItsEnd) {
  const std::vector<float> three = {1.0F, 1.0F, 1.0F};
  const Square square(three, 3);
  EXPECT_FALSE(square.is_square());
  EXPECT_TRUE(square.is_symmetric(0.0));
  EXPECT_TRUE(square.has_diagonal(1.0, 0.0));
}

}  // namespace
}  // namespace vindex::results::cell_files_test
