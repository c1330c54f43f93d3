// The pool of pinned memory: what is given back is handed out again, and no more is held than was
// out.
#include "kernels/device/pinned_pool.hpp"

#include <gtest/gtest.h>

namespace vindex::kernels::pinned_pool_test {
namespace {

constexpr std::size_t kMebibyte = 1U << 20U;

TEST(PinnedPool, HandsTheSameMemoryOutAgain) {
  PinnedPool pool;
  const void* first = nullptr;
  {
    const auto buffer = pool.take(10 * kMebibyte);
    EXPECT_EQ(buffer->bytes().size(), 10 * kMebibyte);
    first = buffer->bytes().data();
  }
  EXPECT_EQ(pool.take(11 * kMebibyte)->bytes().data(), first);
  EXPECT_EQ(pool.pinned_bytes(), 12 * kMebibyte);
}

TEST(PinnedPool, NeverHoldsMoreThanWasOutAtOnce) {
  PinnedPool pool;
  {
    const auto one = pool.take(40 * kMebibyte);
    const auto two = pool.take(40 * kMebibyte);
  }
  EXPECT_EQ(pool.pinned_bytes(), 80 * kMebibyte);
  {
    const auto other = pool.take(60 * kMebibyte);  // fits neither, and not beside both
    EXPECT_EQ(pool.pinned_bytes(), 60 * kMebibyte);
    const auto small = pool.take(4 * kMebibyte);
    EXPECT_EQ(pool.pinned_bytes(), 64 * kMebibyte);
  }
  const auto larger = pool.take(100 * kMebibyte);
  EXPECT_EQ(pool.pinned_bytes(), 100 * kMebibyte);
}

TEST(PinnedPool, DoesNotGiveALargeBlockForASmallWish) {
  PinnedPool pool;
  { const auto large = pool.take(64 * kMebibyte); }
  const auto small = pool.take(8 * kMebibyte);
  EXPECT_EQ(pool.pinned_bytes(), 8 * kMebibyte);
}

}  // namespace
}  // namespace vindex::kernels::pinned_pool_test
