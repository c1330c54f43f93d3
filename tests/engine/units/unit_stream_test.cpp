// Units through fewer slots than they have matrices: every byte arrives, nothing waits for ever,
// whatever fails or is stopped, and wherever.
#include "unit_stream_fixture.hpp"

#include "input/forwarding_store.hpp"
#include "tests/support/temporary_folder.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace vindex::engine::unit_stream_test {
namespace {

TEST(UnitStreamTest, ABatchPassesThroughFewSlots) {
  Model model(40);
  model.from_memory();
  for (const std::int64_t held : {1, 2, 5}) {
    const std::uint64_t budget = 24 * kCodeBytes;
    Machine machine(model, budget, 1, 1, 64, held, 1);
    machine.pool().join();
    ASSERT_EQ(machine.pool().failure(), nullptr);
    EXPECT_EQ(machine.good(), 40);
    std::size_t largest = 0;
    for (const WorkUnit& unit : machine.plan().units) {
      largest = std::max(largest, unit.matrices.size());
      EXPECT_LE(unit.memory_bytes, budget);
      EXPECT_GE(unit.slots, std::min<std::uint64_t>(unit.matrices.size(), held));
    }
    EXPECT_GE(largest, 10U);
    EXPECT_LE(machine.worst_staging(), static_cast<std::int64_t>(budget));
    EXPECT_EQ(machine.live_staging(), 0);
  }
}

TEST(UnitStreamTest, WithoutAPromiseTheWholeBatchIsHeld) {
  Model model(12);
  model.from_memory();
  Machine machine(model, 64 * kCodeBytes, 1, 1, 4, 0, 1);
  for (const WorkUnit& unit : machine.plan().units) {
    EXPECT_EQ(unit.slots, unit.matrices.size());
  }
  machine.pool().join();
  EXPECT_EQ(machine.good(), 12);
}

TEST(UnitStreamTest, SeveralDevicesAndLanesWithTinyRingsEndWhateverTheDelays) {
  Model model(60);
  model.from_memory();
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::int64_t held = 1 + seed % 3;
    // From "hardly one unit at a time" to "room for all".
    const std::uint64_t least = model.plan(~0ULL >> 1U, 1, 1, held).least_ram_bytes;
    const std::uint64_t budget = seed % 4 == 0 ? least : least * (2 + seed % 4 * 3);
    Machine machine(model, budget, 1 + seed % 3, 1 + seed % 2, 1 + seed % 16, held, seed);
    machine.pool().join();
    ASSERT_EQ(machine.pool().failure(), nullptr);
    EXPECT_EQ(machine.good(), 60) << "seed " << seed;
    EXPECT_LE(machine.worst_staging(), static_cast<std::int64_t>(budget));
  }
}

TEST(UnitStreamTest, AStopAtAnyPointEndsEveryThread) {
  Model model(30);
  model.from_memory();
  for (int after = 0; after <= 30; after += 3) {
    Machine machine(model, 30 * kCodeBytes, 2, 1, 8, 2, static_cast<unsigned>(after));
    while (machine.good() < after) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    machine.pool().stop();
    machine.pool().join();
    EXPECT_EQ(machine.pool().failure(), nullptr);
  }
}

TEST(UnitStreamTest, AReadThatFailsCostsItsOwnMatrixAndNoOther) {
  constexpr std::uint64_t kMatrices = 9;
  for (const testing::Fault fault : {testing::Fault::kFails, testing::Fault::kEndsEarly}) {
    for (std::uint64_t faulty = 0; faulty < 12; ++faulty) {
      Model model(kMatrices);
      model.from_memory();
      auto source = std::make_unique<testing::FaultySource>(*model.memory, fault, faulty);
      const testing::FaultySource& counted = *source;
      model.use(std::move(source));
      Machine machine(model, 14 * kCodeBytes, 1, 1, 64, 2, 5, false);
      machine.pool().join();
      ASSERT_EQ(machine.pool().failure(), nullptr);
      EXPECT_EQ(machine.measured(), static_cast<int>(kMatrices));
      // A failure of the common pass over the companions is made good by reading them one by one.
      EXPECT_LE(machine.failed(), faulty < counted.reads() ? 1 : 0);
      EXPECT_GE(machine.good(), static_cast<int>(kMatrices) - 1);
      if (machine.failed() == 1) {
        EXPECT_EQ(machine.good(), static_cast<int>(kMatrices) - 1) << faulty;
      }
    }
  }
}

/// Counts how often a source is asked who it is.
class AskedSource final : public input::ForwardingSource {
 public:
  AskedSource(std::unique_ptr<ByteSource> inner, std::atomic<int>& asked)
      : ForwardingSource(std::move(inner)), asked_(asked) {}
  SourceIdentity identity() const override {
    ++asked_;
    return ForwardingSource::identity();
  }

 private:
  std::atomic<int>& asked_;
};

TEST(UnitStreamTest, AFileIsAskedWhoItIsOnceForEveryUnit) {
  constexpr int kMatrices = 40;
  Model model(kMatrices);
  model.from_memory();
  std::atomic<int> asked{0};
  model.use(std::make_unique<AskedSource>(std::move(model.files.shards[0].source), asked));
  asked = 0;
  Machine machine(model, 24 * kCodeBytes, 1, 1, 64, 2, 1);
  machine.pool().join();
  EXPECT_EQ(machine.good(), kMatrices);
  EXPECT_EQ(machine.failed(), 0);
  EXPECT_EQ(asked, static_cast<int>(machine.plan().units.size()));
  EXPECT_LT(asked, kMatrices / 4);
}

TEST(UnitStreamTest, AFileThatChangedIsNoticed) {
  Model model(3);
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("f", model.content);
  model.use(input::open_file_source(path));
  Machine before(model, 64 * kCodeBytes, 1, 1, 8, 2, 1);
  before.pool().join();
  EXPECT_EQ(before.failed(), 0);
  EXPECT_EQ(before.good(), 3);
  folder.write("f", model.content);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  Machine after(model, 64 * kCodeBytes, 1, 1, 8, 2, 1);
  after.pool().join();
  EXPECT_EQ(after.failed(), 3);
}

TEST(UnitStreamTest, WhatWasReleasedIsReadAgainAndTheMemoryGoesBackBeforeTheEnd) {
  Model model(6);
  model.from_memory();
  const WorkPlan plan = model.plan(1U << 30U, 1, 64, 2);
  ASSERT_EQ(plan.units.size(), 1U);
  ComparingBackend backend(model, 1, 2, 1);
  input::BulkReader reader;
  auto budget = std::make_shared<MemoryBudget>(plan.units[0].memory_bytes);
  auto lease = MemoryLease::take(budget, plan.units[0].memory_bytes);
  const ModelViews views = {{&model.files, &model.index}};
  UnitStream stream(views, plan.units[0], staging_of(backend), reader, std::move(lease));
  for (std::size_t i = 0; i < stream.size(); ++i) {
    EXPECT_TRUE(stream.input(i)->in_memory());
    EXPECT_TRUE(backend.same(*stream.input(i)));
    stream.input(i)->release();
    stream.input(i)->release();  // harmless
  }
  EXPECT_EQ(backend.live, 0);
  EXPECT_TRUE(budget->acquire(plan.units[0].staging_bytes));
  EXPECT_FALSE(stream.input(4)->in_memory());
  EXPECT_TRUE(backend.same(*stream.input(4)));
  EXPECT_TRUE(backend.same(*stream.input(1)));
}

}  // namespace
}  // namespace vindex::engine::unit_stream_test
