// Owns the order of threads where kernels run on a device, which has its own.
#include "tests/kernels/kernel_fixture.hpp"

namespace vindex::test {

void set_thread_order(std::uint64_t /*seed*/) {}
bool is_emulated() { return false; }

}  // namespace vindex::test
