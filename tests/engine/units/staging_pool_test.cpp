// Staging memory between units: used again where it fits, bounded, and no longer lived than needed.
#include "backend/backend.hpp"
#include "core/process/stop.hpp"
#include "engine/run/worker_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vindex::engine::staging_pool_test {
namespace {

struct Made {
  std::vector<std::size_t> sizes;
  MakeStaging maker() {
    return [this](std::size_t bytes) {
      sizes.push_back(bytes);
      return make_host_staging(bytes);
    };
  }
};

TEST(StagingPoolTest, ABufferIsTheNextOnesWhereItFits) {
  Made made;
  StagingPool pool(made.maker(), 10000);
  std::byte* first = nullptr;
  {
    const auto buffer = pool.take(4000);
    EXPECT_EQ(buffer->bytes().size(), 4000U);
    first = buffer->bytes().data();
    EXPECT_EQ(pool.kept_bytes(), 0U);
  }
  EXPECT_EQ(pool.kept_bytes(), 4000U);
  const auto smaller = pool.take(3500);
  EXPECT_EQ(smaller->bytes().data(), first);
  EXPECT_EQ(smaller->bytes().size(), 3500U);
  const auto another = pool.take(3500);
  EXPECT_NE(another->bytes().data(), first);
  EXPECT_EQ(made.sizes, (std::vector<std::size_t>{4000, 3500}));
}

TEST(StagingPoolTest, RoomIsAwaitedUntilBuffersComeBackOrAStop) {
  Made made;
  StagingPool pool(made.maker(), 10000);
  pool.await_room(9000, 5000);  // alone, anything has room
  auto one = pool.take(3000);
  pool.await_room(2000, 5000);
  auto two = pool.take(2000);
  std::atomic<bool> has_room{false};
  {
    std::jthread waiting([&] {
      pool.await_room(3000, 5000);
      has_room = true;
    });
    EXPECT_FALSE(has_room) << "5000 bytes are out";
    one.reset();
  }
  EXPECT_TRUE(has_room);
  {
    std::jthread waiting([&] { EXPECT_THROW(pool.await_room(4000, 5000), Stopped); });
    pool.stop();
  }
  EXPECT_THROW(pool.await_room(0, 5000), Stopped) << "nobody takes memory any more";
}

TEST(StagingPoolTest, MuchLargerOnesAndTooSmallOnesAreLeft) {
  Made made;
  StagingPool pool(made.maker(), 100000);
  { const auto buffer = pool.take(8000); }
  { const auto buffer = pool.take(4000); }
  { const auto buffer = pool.take(9000); }
  EXPECT_EQ(made.sizes, (std::vector<std::size_t>{8000, 4000, 9000}));
  EXPECT_EQ(pool.kept_bytes(), 21000U);
}

TEST(StagingPoolTest, TheOldestOnesMakeRoomAndNothingIsKeptBeyondTheLimit) {
  Made made;
  StagingPool pool(made.maker(), 10000);
  {
    const auto a = pool.take(5000);
    const auto b = pool.take(4000);
  }
  EXPECT_EQ(pool.kept_bytes(), 9000U);
  { const auto c = pool.take(2000); }
  EXPECT_LE(pool.kept_bytes(), 10000U);
  { const auto d = pool.take(20000); }
  EXPECT_LE(pool.kept_bytes(), 10000U);
  // Without a limit to keep within, nothing is.
  StagingPool none(made.maker(), 0);
  { const auto e = none.take(1); }
  EXPECT_EQ(none.kept_bytes(), 0U);
}

TEST(StagingPoolTest, BuffersMayOutliveIt) {
  Made made;
  std::unique_ptr<StagingBuffer> buffer;
  {
    StagingPool pool(made.maker(), 10000);
    buffer = pool.take(100);
  }
  ASSERT_EQ(buffer->bytes().size(), 100U);
  buffer->bytes()[99] = std::byte{1};  // a sanitizer would tell of memory that went with the pool
  EXPECT_EQ(buffer->bytes()[99], std::byte{1});
  EXPECT_NO_THROW(buffer.reset());
  EXPECT_EQ(made.sizes, (std::vector<std::size_t>{100}));
}

}  // namespace
}  // namespace vindex::engine::staging_pool_test
