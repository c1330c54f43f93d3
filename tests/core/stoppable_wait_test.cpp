// Waiting that a stop ends: before it, during it, and not at all.

#include "core/process/stop.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace vindex::stoppable_wait_test {
namespace {

constexpr double kForEver = 1e6;

TEST(StoppableWaitTest, AStopEndsItWheneverItComes) {
  std::stop_source stop;
  std::jthread asks([&] { stop.request_stop(); });
  EXPECT_THROW(wait_or_stop(kForEver, stop.get_token()), Stopped);
  EXPECT_THROW(wait_or_stop(kForEver, stop.get_token()), Stopped);  // asked for before
  EXPECT_THROW(wait_or_stop(0, stop.get_token()), Stopped);
}

TEST(StoppableWaitTest, WithoutOneItReturns) {
  wait_or_stop(0.001, {});
  wait_or_stop(-1, {});
  wait_or_stop(0, std::stop_source().get_token());
}

}  // namespace
}  // namespace vindex::stoppable_wait_test
