// Flags by which warps and blocks wait for one another, and the flag that a test takes away. A warp
// that publishes too early or waits too little reads what was there before, since the order of
// threads and blocks is the schedule's; the order in which a device's memory shows what was written
// is not emulated.
#include <atomic>
#include <emulated/device.hpp>
#include <intrinsics.hpp>

namespace vindex::emulated {

namespace {

std::atomic<int> flags_until_the_lost_one{0};
std::atomic<const int*> lost_flag{nullptr};

void publish(int* flag, int value, int lane, std::source_location where) {
  __syncwarp(0xFFFFFFFFU, where);
  if (lane != 0) {
    return;
  }
  if (value < *flag) {
    fault("a flag that goes back", where);
  }
  if (flags_until_the_lost_one > 0 && --flags_until_the_lost_one == 0) {
    lost_flag = flag;
  }
  if (flag == lost_flag) {
    return;
  }
  *flag = value;
  wake(flag);
}

void await(const int* flag, int least, const kernels::device::Patience& patience,
           std::uint32_t code, std::source_location where) {
  while (*flag < least) {
    sleep_on(flag, "a flag", where, {static_cast<std::uint32_t*>(patience.report), code});
  }
  __syncwarp(0xFFFFFFFFU, where);
}

void require_in_shared(const void* flag, std::source_location where) {
  if (is_device_memory(flag, sizeof(int))) {
    fault("a flag of one block in global memory", where);
  }
}
void require_in_global(const void* flag, std::source_location where) {
  if (!is_device_memory(flag, sizeof(int))) {
    fault("a flag for other blocks that is not in global memory", where);
  }
}

}  // namespace

void lose_flag(int number) {
  flags_until_the_lost_one = number;
  lost_flag = nullptr;
}

}  // namespace vindex::emulated

namespace vindex::kernels::device {

void publish_in_block(int* flag, int value, int lane, std::source_location where) {
  emulated::require_in_shared(flag, where);
  emulated::publish(flag, value, lane, where);
}
void publish_on_device(int* flag, int value, int lane, std::source_location where) {
  emulated::require_in_global(flag, where);
  emulated::publish(flag, value, lane, where);
}
void await_in_block(const int* flag, int least, const Patience& patience, std::uint32_t code,
                    std::source_location where) {
  emulated::await(flag, least, patience, code, where);
}
int await_on_device(const int* flag, int least, const Patience& patience, std::uint32_t code,
                    std::source_location where) {
  emulated::await(flag, least, patience, code, where);
  return __reduce_min_sync(0xFFFFFFFFU, *flag, where);
}

}  // namespace vindex::kernels::device
