// Owns the order of threads where kernels run in the emulation: it follows a seed.
#include "tests/kernels/kernel_fixture.hpp"

#include <emulated/execution.hpp>

namespace vindex::test {

void set_thread_order(std::uint64_t seed) { emulated::set_schedule_seed(seed); }
bool is_emulated() { return true; }

}  // namespace vindex::test
