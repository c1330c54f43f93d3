// The order of events of a start: devices are opened while the model is, on a thread that is waited
// for, and their trouble is told where it would have been told before.
#include "engine/devices/devices_ahead.hpp"

#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace vindex::engine::devices_ahead_test {
namespace {

TEST(DevicesAhead, OpenWhileTheModelIsOpened) {
  std::promise<void> model_is_open;
  std::thread::id opener;
  DevicesAhead devices(
      [&] {
        model_is_open.get_future().wait();  // ends only if the caller goes on meanwhile
        opener = std::this_thread::get_id();
        return OpenedDevices{.backends = {}, .why = "none here"};
      },
      true);
  model_is_open.set_value();
  EXPECT_EQ(devices.take().why, "none here");
  EXPECT_NE(opener, std::this_thread::get_id());
}

TEST(DevicesAhead, AreLeftAloneWhereNobodyTakesThem) {
  int opened = 0;
  {
    DevicesAhead devices(
        [&] {
          ++opened;
          return OpenedDevices();
        },
        false);
    EXPECT_EQ(opened, 0);
  }
  EXPECT_EQ(opened, 0);
}

TEST(DevicesAhead, AreOpenedByWhoTakesThemWhereNothingHasBegun) {
  std::thread::id opener;
  DevicesAhead devices(
      [&] {
        opener = std::this_thread::get_id();
        return OpenedDevices();
      },
      false);
  (void)devices.take();
  EXPECT_EQ(opener, std::this_thread::get_id());
}

TEST(DevicesAhead, TroubleIsThrownWhenTheyAreTaken) {
  DevicesAhead devices([]() -> OpenedDevices { throw DeviceError("E-TEST", "broken"); }, true);
  EXPECT_THROW((void)devices.take(), DeviceError);
}

TEST(DevicesAhead, AModelThatFailsWaitsForWhatHasBegun) {
  std::atomic<bool> ended{false};
  try {
    const DevicesAhead devices(
        [&] {
          ended = true;
          return OpenedDevices();
        },
        true);
    throw UsageError("E-TEST", "no such model");
  } catch (const UsageError&) {
    EXPECT_TRUE(ended);
  }
}

TEST(DevicesAhead, TheCpuHasNone) {
  RunSettings settings;
  settings.backend = BackendChoice::kCpu;
  settings.model = ".";
  DevicesAhead devices(settings);
  EXPECT_TRUE(devices.take().backends.empty());
}

}  // namespace
}  // namespace vindex::engine::devices_ahead_test
