// The plan is a pure function of shapes and limits, so its rules are tested with tables and no back
// end.
#include "commands/spectra/spectrum_plan.hpp"
#include "engine/units/derived_rows.hpp"
#include "model/products/product.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace vindex::engine::work_plan_test {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;

/// rows x cols stored as float32.
model::MatrixRecord matrix_of(std::int64_t rows, std::int64_t cols) {
  model::MatrixRecord matrix;
  matrix.tensor = "t";
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.encoding.label = "F32";
  matrix.codes.bytes = static_cast<std::uint64_t>(rows * cols * 4);
  return matrix;
}

/// A Gram matrix; beside it a decoded copy of what is streamed, or at least 1 MiB of slab.
std::uint64_t workspace(const void* /*context*/, const model::MatrixRecord& matrix,
                        InputBytes input) {
  const auto p = static_cast<std::uint64_t>(std::min(matrix.rows, matrix.cols));
  switch (input) {
    case InputBytes::kStreamed:
      return 4 * p * p + static_cast<std::uint64_t>(matrix.rows * matrix.cols * 4);
    case InputBytes::kStreamedLeast:
      return 4 * p * p + kMiB;
    case InputBytes::kHeld:
      break;
  }
  return 4 * p * p;
}

WorkPlan plan_of(const model::ModelIndex& index, std::uint64_t budget, std::int32_t workers,
                 std::int64_t batch) {
  std::vector<std::int64_t> all(index.matrices.size());
  std::iota(all.begin(), all.end(), 0);
  return commands::plan_work(index, all, {},
                             {.ram_budget = budget, .workers = workers, .batch = batch}, &workspace,
                             nullptr, true);
}

model::ModelIndex some_model() {
  model::ModelIndex index;
  for (int i = 0; i < 20; ++i) {
    index.matrices.push_back(matrix_of(512, 256));
  }
  index.matrices.push_back(matrix_of(16384, 512));  // 32 MiB
  index.matrices[7].unsupported = "scale missing";
  return index;
}

TEST(WorkPlanTest, ABatchThatGivesSlotsBackHasARing) {
  const auto has_ring = [](Reading reading, std::int64_t held) {
    std::vector<RowWork> rows;
    for (std::int64_t row = 0; row < 6; ++row) {
      rows.push_back({.row = row, .matrices = {{0, row}}, .kind = 3, .reading = reading});
    }
    const WorkPlan plan = plan_rows(
        rows, {.ram_budget = 64 * kMiB, .workers = 1, .batch = 6, .held = held, .in_order = true});
    EXPECT_EQ(plan.units.front().rows.size(), 6U);
    return plan.units.front().ring;
  };
  EXPECT_TRUE(has_ring(Reading::kWhole, 2));
  EXPECT_FALSE(has_ring(Reading::kWhole, 6)) << "all of them are held to the end";
  EXPECT_FALSE(has_ring(Reading::kPieces, 2)) << "has no slots";
}

TEST(WorkPlanTest, EverySupportedMatrixIsInExactlyOneUnit) {
  const model::ModelIndex index = some_model();
  for (const std::uint64_t budget : {8 * kMiB, 40 * kMiB, 4096 * kMiB}) {
    for (const std::int64_t batch : {1, 6, 64}) {
      const WorkPlan plan = plan_of(index, budget, 2, batch);
      std::multiset<std::int64_t> seen;
      for (const WorkUnit& unit : plan.units) {
        EXPECT_LE(unit.memory_bytes, budget);
        EXPECT_LE(static_cast<std::int64_t>(unit.matrices.size()), batch);
        seen.insert(unit.rows.begin(), unit.rows.end());
      }
      EXPECT_EQ(seen.size(), 20U);
      EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 20U);
      EXPECT_EQ(seen.count(7), 0U);
      EXPECT_EQ(plan.matrices, 20);
    }
  }
}

TEST(WorkPlanTest, UnitsHoldOneShapeOnly) {
  const model::ModelIndex index = some_model();
  for (const WorkUnit& unit : plan_of(index, 4096 * kMiB, 1, 64).units) {
    const std::int64_t rows = index.matrices[static_cast<std::size_t>(unit.rows.front())].rows;
    for (const std::int64_t i : unit.rows) {
      EXPECT_EQ(index.matrices[static_cast<std::size_t>(i)].rows, rows);
    }
  }
}

TEST(WorkPlanTest, AMatrixLargerThanTheBudgetIsStreamed) {
  const model::ModelIndex index = some_model();
  const WorkPlan plan = plan_of(index, 8 * kMiB, 2, 1);
  const auto large = std::find_if(plan.units.begin(), plan.units.end(),
                                  [](const WorkUnit& unit) { return unit.rows.front() == 20; });
  ASSERT_NE(large, plan.units.end());
  EXPECT_TRUE(large->streamed);
  EXPECT_GT(large->encoded_bytes, 8 * kMiB);
  EXPECT_GT(large->workspace_limit, 0U);
}

// What a back end would keep of a streamed matrix is not reserved for one whose bytes are held.
TEST(WorkPlanTest, AHeldMatrixTakesItsBytesAndTheWorkspaceOfAHeldOne) {
  const model::ModelIndex index = some_model();
  const WorkPlan plan = plan_of(index, 4096 * kMiB, 1, 1);
  const WorkUnit& large = plan.units.front();
  ASSERT_EQ(large.rows.front(), 20);
  EXPECT_FALSE(large.streamed);
  EXPECT_EQ(large.workspace_limit, 0U);
  EXPECT_GE(large.memory_bytes, large.staging_bytes + kMiB);
  EXPECT_LT(large.memory_bytes, large.staging_bytes + kMiB + (64U << 10U));  // the finished row
  EXPECT_FALSE(plan_of(index, 34 * kMiB, 1, 1).units.front().streamed);
}

TEST(WorkPlanTest, ABudgetThatIsTooSmallPlansNothingAndNamesTheLeast) {
  const model::ModelIndex index = some_model();
  const WorkPlan plan = plan_of(index, kMiB, 1, 1);
  EXPECT_TRUE(plan.units.empty());
  EXPECT_GT(plan.least_ram_bytes, kMiB);
  EXPECT_FALSE(plan_of(index, plan.least_ram_bytes, 1, 1).units.empty());
}

TEST(WorkPlanTest, RowsPassByWhereTheBudgetHasRoomForTheirWindowsElseAsIfTheyCouldNot) {
  RowWork work{.row = 0, .matrices = {{0, 0}, {0, 1}}, .cost = 1.0, .reading = Reading::kPassing};
  work.slot = 60 * kMiB;
  work.pieces = 24 * kMiB;
  work.workspace = work.min_workspace = work.streamed_workspace = kMiB;
  work.streamed = 5 * kMiB;
  const auto plan = [&](std::uint64_t budget, Reading reading) {
    work.reading = reading;
    return plan_rows({work}, {.ram_budget = budget, .workers = 2, .held = 1 << 30});
  };
  const WorkUnit passing = plan(1000 * kMiB, Reading::kPassing).units.front();
  EXPECT_TRUE(passing.passing);
  EXPECT_TRUE(passing.streamed);
  EXPECT_EQ(passing.memory_bytes, 25 * kMiB);
  for (const std::uint64_t budget : {5 * kMiB, 70 * kMiB}) {
    const WorkPlan as_whole = plan(budget, Reading::kWhole);
    const WorkPlan fallen_back = plan(budget, Reading::kPassing);
    EXPECT_EQ(fallen_back.least_ram_bytes, as_whole.least_ram_bytes);
    EXPECT_FALSE(fallen_back.units.front().passing);
    EXPECT_EQ(fallen_back.units.front().memory_bytes, as_whole.units.front().memory_bytes);
  }
}

TEST(WorkPlanTest, ADearMatrixIsBegunFirst) {
  EXPECT_EQ(plan_of(some_model(), 4096 * kMiB, 2, 1).units.front().rows.front(), 20);
}

/// `heads` rows of the product of two windows, 64 x 512 each.
void add_heads(model::ModelIndex& index, const std::string& name, int heads) {
  const auto matrix = std::make_shared<const model::MatrixRecord>(matrix_of(64 * heads, 512));
  for (int head = 0; head < heads; ++head) {
    model::Product product;
    product.factors = {{matrix, 64 * head, 64, 0, 512, true}, {matrix, 0, 64, 0, 512, false}};
    model::MatrixRecord row;
    row.table = model::ResultTable::kProduct;
    row.tensor = name;
    row.slice = head;
    row.rows = row.cols = 512;
    row.product = std::make_shared<const model::Product>(std::move(product));
    index.matrices.push_back(std::move(row));
  }
}

// Heads of one attention are read together, but not by one worker while others wait.
TEST(WorkPlanTest, InOrderNothingIsBegunBeforeItsTurn) {
  model::ModelIndex index;
  for (int i = 0; i < 30; ++i) {
    index.matrices.push_back(i == 20 ? matrix_of(4096, 4096) : matrix_of(256, 256));
  }
  std::vector<std::int64_t> all(index.matrices.size());
  std::iota(all.begin(), all.end(), 0);
  const WorkPlan plan = commands::plan_work(
      index, all, {},
      {.ram_budget = 4096 * kMiB, .workers = 2, .batch = 4, .held = 1, .in_order = true},
      &workspace, nullptr, true);
  std::vector<std::int64_t> order;
  for (const WorkUnit& unit : plan.units) {
    order.insert(order.end(), unit.rows.begin(), unit.rows.end());
  }
  EXPECT_EQ(order, all);
}

TEST(WorkPlanTest, HeadsOfOneAttentionMakeUnitsForEveryWorker) {
  model::ModelIndex index;
  add_heads(index, "a", 128);
  add_heads(index, "b", 128);
  std::size_t alone = 0;
  for (const std::int32_t workers : {1, 16}) {
    const WorkPlan plan = plan_of(index, 4096 * kMiB, workers, 6);
    std::multiset<std::int64_t> seen;
    for (const WorkUnit& unit : plan.units) {
      const auto& first = index.matrices[static_cast<std::size_t>(unit.rows.front())];
      for (const std::int64_t row : unit.rows) {
        EXPECT_EQ(index.matrices[static_cast<std::size_t>(row)].tensor, first.tensor);
      }
      EXPECT_EQ(unit.memory_bytes, product_bytes(first));
      EXPECT_TRUE(unit.streamed);
      seen.insert(unit.rows.begin(), unit.rows.end());
    }
    EXPECT_EQ(seen.size(), 256U);
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 256U);
    if (workers == 1) {
      alone = plan.units.size();
    } else {
      EXPECT_GE(plan.units.size(), 16U);
      EXPECT_GT(plan.units.size(), alone);
    }
  }
}

}  // namespace
}  // namespace vindex::engine::work_plan_test
