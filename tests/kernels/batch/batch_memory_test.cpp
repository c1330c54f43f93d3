// How many matrices fit a device, without one.
#include "kernels/batch/batch_memory.hpp"

#include "kernels/tail/tail_solver.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

namespace vindex::test::batch_memory_test {
namespace {

using namespace kernels;

BatchTask expert(std::int64_t rows, std::int64_t cols, bool is_float32) {
  BatchTask task;
  task.rows = rows;
  task.cols = cols;
  task.device = {.major = 9, .minor = 0, .shared_bytes = 227U << 10U};
  task.operands = {
      .kind = OperandKind::kBlockScaled, .shifted = false, .exact = true, .reason = ""};
  task.routes.strict = {.gram = GramChoice::kLibrary64, .solver = SolverChoice::kTwoStage};
  task.routes.first = task.routes.strict;
  if (is_float32) {
    task.routes.first.gram = GramChoice::kTensor32;
  }
  task.routes.may_escalate = is_float32;
  task.routes.keeps_factor = true;
  task.slot.code_bytes = static_cast<std::size_t>(rows * cols);
  task.slot.total_bytes = task.slot.code_bytes + 4096;
  return task;
}

/// `fast` by iteration and proof.
BatchTask proved_fast(std::int64_t rows, std::int64_t cols) {
  BatchTask task = expert(rows, cols, false);
  task.is_fast = true;
  task.routes.has_top = true;
  return task;
}

TEST(BatchMemory, SizesStayWithinTheBudgetAndGrowWithIt) {
  for (const bool is_float32 : {true, false}) {
    for (const auto& [rows, cols] : {std::pair{7168, 2048}, {2048, 7168}, {4096, 4096}}) {
      const BatchTask task = expert(rows, cols, is_float32);
      BatchSizes before = {.batch = 0, .wide = 0};
      for (const std::uint64_t gib : {2, 4, 10, 35, 65}) {
        const std::uint64_t budget = gib << 30U;
        const BatchSizes sizes = plan_batch(task, 384, budget);
        EXPECT_LE(device_bytes(task, sizes), budget);
        EXPECT_GE(sizes.batch, before.batch);
        EXPECT_LE(sizes.batch, 384);
        EXPECT_LE(sizes.wide, sizes.batch);
        EXPECT_GE(sizes.wide, 1);
        before = sizes;
      }
      EXPECT_GE(before.batch, 132) << "a block per matrix would leave multiprocessors idle";
    }
  }
}

TEST(BatchMemory, WholeLayerOfExpertsFitsALargeDevice) {
  const BatchSizes sizes = plan_batch(expert(7168, 2048, true), 384, 65ULL << 30U);
  EXPECT_EQ(sizes.batch, 384);
  EXPECT_GE(sizes.wide, 132);
}

TEST(BatchMemory, CodesAreMultipliedInOneGibibyte) {
  BatchTask task = expert(7168, 2048, false);
  EXPECT_EQ(task.codes_at_once(40), 0) << "not wanted";
  EXPECT_EQ(task.slice_bytes(40), 0);
  task.routes.newer.code_slices = true;
  EXPECT_EQ(task.codes_at_once(40), 8);
  EXPECT_EQ(task.codes_at_once(3), 3);
  EXPECT_GT(task.slice_bytes(40), 8LL * 7168 * 2048 * 7);
  EXPECT_LE(task.slice_bytes(40), 1LL << 30U);
  EXPECT_LT(arena_bytes(expert(7168, 2048, false), {.batch = 8, .wide = 8}),
            arena_bytes(task, {.batch = 8, .wide = 8}));
  task.operands.kind = OperandKind::kBfloat16;
  EXPECT_EQ(task.codes_at_once(40), 0) << "no codes";
  BatchTask huge = expert(65536, 16384, false);
  huge.routes.newer.code_slices = true;
  EXPECT_EQ(huge.codes_at_once(40), 0);
}

TEST(BatchMemory, WhatFitsNowhereIsAnError) {
  EXPECT_THROW(plan_batch(expert(7168, 2048, true), 384, 64U << 20U), OutOfMemory);
}

TEST(BatchMemory, PiecesAreWhatFillsADevice) {
  BatchTask task = expert(7168, 2048, true);
  EXPECT_EQ(task.eigen_piece(384), 384) << "nothing is known of the device";
  const std::uint64_t whole = device_bytes(task, {.batch = 384, .wide = 8});
  task.device.multiprocessors = 132;
  EXPECT_EQ(task.eigen_piece(384), 132);
  EXPECT_EQ(task.eigen_piece(7), 7);
  const std::uint64_t pieces = device_bytes(task, {.batch = 384, .wide = 8});
  EXPECT_LT(pieces, whole);

  EXPECT_EQ(task.projected_at_once(64), 1) << "all values need no projection";
  task.is_fast = true;
  task.routes.has_top = true;
  EXPECT_EQ(task.projected_at_once(64), 1) << "nor does fast, whose first route has them";
  const BatchTask proved = proved_fast(7168, 2048);
  EXPECT_EQ(proved.projected_at_once(64), 16);
  EXPECT_EQ(proved.projected_at_once(3), 3);
  EXPECT_EQ(proved_fast(163840, 7168).projected_at_once(64), 1) << "it passes in pieces";
  const BatchTask wide = proved_fast(8192, 16384);
  EXPECT_EQ(wide.projected_at_once(64), 2) << "2 GiB of float64";
}

TEST(BatchMemory, SmallGramsAreFormedTogether) {
  EXPECT_EQ(expert(512, 1024, true).grams_together(), 16);
  EXPECT_EQ(expert(1024, 512, true).grams_together(), 16);
  EXPECT_EQ(expert(1024, 1024, true).grams_together(), 16);
  EXPECT_EQ(expert(768, 2048, true).grams_together(), 10);
  EXPECT_EQ(expert(2048, 2048, true).grams_together(), 1) << "one product fills a device";
  EXPECT_EQ(expert(7168, 2048, true).grams_together(), 1);
  EXPECT_EQ(expert(1, 1, true).grams_together(), 16);
  BatchTask task = expert(512, 1024, true);
  task.routes.sliced_gram = true;
  EXPECT_EQ(task.grams_together(), 1);
}

TEST(BatchMemory, TailsAreWantedWhereTheirKernelsAreTrusted) {
  BatchTask task = expert(7168, 2048, true);
  EXPECT_EQ(task.max_tail_values(), 128);
  const std::uint64_t with = device_bytes(task, {.batch = 16, .wide = 8});
  task.routes.keeps_factor = false;
  EXPECT_EQ(task.max_tail_values(), 0);
  EXPECT_LT(device_bytes(task, {.batch = 16, .wide = 8}), with);
}

TEST(BatchMemory, ElementsRoundOncePerGroupOfTheChaseThatRuns) {
  BatchTask task = expert(7168, 2048, true);
  EXPECT_EQ(task.stored_chase_sweeps(), 7);
  task.device.shared_bytes = 166912;
  EXPECT_EQ(task.stored_chase_sweeps(), 5);
  task.routes.newer.shared_chase = true;
  for (const std::size_t shared_bytes : {std::size_t{166912}, std::size_t{232448}}) {
    task.device.shared_bytes = shared_bytes;
    for (const std::int64_t batch : {1, 30, 132}) {
      EXPECT_EQ(task.stored_chase_sweeps(),
                chase_plan(2048, batch, sizeof(float), sizeof(double),
                           {.shared_bytes = shared_bytes, .multiprocessors = 132})
                    .shape.sweeps);
    }
  }
  EXPECT_EQ(task.stored_chase_sweeps(), 6) << "a sweep fewer than in lock step";
}

TEST(BatchMemory, BandsAreKeptWhereStagesInFloat32MayNotBeEnough) {
  BatchTask task = expert(7168, 2048, true);
  task.routes.keeps_factor = false;
  const BatchSizes sizes = {.batch = 16, .wide = 1};
  const std::uint64_t former = arena_bytes(task, sizes);
  task.routes.newer.chase32 = true;
  const auto bands = static_cast<std::uint64_t>(16 * band_elements(2048)) * sizeof(float);
  EXPECT_GE(arena_bytes(task, sizes), former + bands);
  EXPECT_LT(arena_bytes(task, sizes), former + bands + 4096);
  task.routes.keeps_factor = true;
  const std::uint64_t kept = arena_bytes(task, sizes);
  task.routes.newer = {};
  EXPECT_EQ(arena_bytes(task, sizes), kept) << "a tail keeps them anyway";
}

TEST(BatchMemory, TailsGoByHalvesOfADevice) {
  EXPECT_EQ(tail_shape(1024, 1024, 16, 132).slots, 80) << "two groups for a piece of 132";
  EXPECT_EQ(tail_shape(1024, 1024, 16, 58).slots, 32);
  EXPECT_EQ(tail_shape(1024, 1024, 16, 4).slots, 2);
  EXPECT_EQ(tail_shape(1024, 1024, 16, 0).slots, 32) << "nothing is known of the device";
  EXPECT_EQ(tail_shape(4096, 4096, 128, 132).slots, 16) << "1 GiB";
  EXPECT_EQ(tail_shape(4096, 4096, 128, 58).slots, 8) << "512 MiB";
  EXPECT_EQ(tail_shape(8192, 8192, 512, 132).slots, 2);
}

TEST(LaneAccount, WhatEarlierShapesLeftMakesRoom) {
  const DeviceDemand tall = {.encoded = 40, .results = 1, .arena = 30, .library = 5, .ends = 10};
  const DeviceDemand wide = {.encoded = 10, .results = 2, .arena = 60, .library = 5, .ends = 12};
  LaneAccount account;
  EXPECT_TRUE(account.admit(tall, 1)) << "the first is what plan_batch() says of it";
  account = {};
  EXPECT_TRUE(account.admit(tall, 130));
  EXPECT_TRUE(account.admit(tall, 130)) << "the same again takes nothing more";
  EXPECT_TRUE(account.admit(wide, 130)) << "40 + 2 + 60 + 5 and both ends";
  EXPECT_TRUE(account.admit(tall, 130));
  account = {};
  EXPECT_TRUE(account.admit(tall, 128));
  EXPECT_FALSE(account.admit(wide, 128));
  EXPECT_TRUE(account.admit(wide, 128)) << "everything was given back";
  EXPECT_FALSE(account.admit(tall, 128));
}

TEST(BatchMemory, ChunksDependOnTheShapeAlone) {
  EXPECT_EQ(expert(7168, 2048, true).chunk_count(), 1);
  EXPECT_EQ(expert(2048, 7168, true).chunk_count(), 1);
  const BatchTask embedding = expert(163840, 7168, false);
  EXPECT_GT(embedding.chunk_count(), 4);
  EXPECT_EQ(embedding.chunk_rows() % 128, 0);
  EXPECT_GE(embedding.chunk_rows(), 2 * 7168) << "the first block of rows of a QR is tall";
}

}  // namespace
}  // namespace vindex::test::batch_memory_test
