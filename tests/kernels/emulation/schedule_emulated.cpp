#include "kernels/route/self_test.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <emulated/execution.hpp>

namespace vindex::test {

void set_thread_order(std::uint64_t seed) { emulated::set_schedule_seed(seed); }
bool is_emulated() { return true; }

namespace {
/// Self-tests run in many cases here; one has the order of a device (self_test_test.cpp).
[[maybe_unused]] const std::int64_t kSmallTrials = kernels::trial_order = kEmulatedTrialOrder;
}  // namespace

}  // namespace vindex::test
