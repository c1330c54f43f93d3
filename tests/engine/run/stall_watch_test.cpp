// When a run says that nothing comes.
#include "engine/run/stall_watch.hpp"

#include <gtest/gtest.h>

namespace vindex::engine::stall_watch_test {
namespace {

input::ReadStatistics reading(std::uint64_t ended, std::int64_t under_way) {
  input::ReadStatistics out;
  out.requests = ended;
  out.under_way = under_way;
  return out;
}

TEST(StallWatchTest, ReadsThatDoNotEndAreToldOnce) {
  StallWatch watch;
  EXPECT_FALSE(watch.look(0.0, reading(3, 2)));
  EXPECT_FALSE(watch.look(59.0, reading(3, 2)));
  const auto line = watch.look(61.0, reading(3, 2));
  ASSERT_TRUE(line);
  EXPECT_NE(line->find("W-STALLED: 2 reads are under way and none has ended for 61 s"),
            std::string::npos)
      << *line;
  EXPECT_FALSE(watch.look(500.0, reading(3, 2)));
  EXPECT_EQ(watch.look(600.0, reading(4, 2)), "reads go on after 600 s");
  EXPECT_FALSE(watch.look(650.0, reading(4, 2)));
  EXPECT_TRUE(watch.look(661.0, reading(4, 1)));
}

TEST(StallWatchTest, ALongSolveIsNoStall) {
  StallWatch watch;
  EXPECT_FALSE(watch.look(0.0, reading(3, 0)));
  EXPECT_FALSE(watch.look(4000.0, reading(3, 0)));
  EXPECT_FALSE(watch.look(4001.0, reading(3, 1)));  // begun just now
  EXPECT_FALSE(watch.look(4059.0, reading(3, 1)));
  EXPECT_TRUE(watch.look(4061.0, reading(3, 1)));
}

}  // namespace
}  // namespace vindex::engine::stall_watch_test
