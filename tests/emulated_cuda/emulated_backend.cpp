// Owns making the back end over the emulated device, once for all tests of a process.
#include "emulated_backend.hpp"

#include "passed_trials.hpp"

#include "kernels/cuda_backend.hpp"

namespace vindex::test {

std::unique_ptr<Backend> make_emulated_cuda_backend(SelfTests self_tests) {
  static const kernels::KernelTable kKernels;
  const kernels::TrialPlan made{.order = kEmulatedTrialOrder};
  return std::make_unique<kernels::CudaBackend>(
      0, kKernels, self_tests == SelfTests::kMade ? made : passed_trials());
}

std::shared_ptr<Backend> emulated_cuda_backend() {
  static const std::shared_ptr<Backend> kBackend = make_emulated_cuda_backend();
  return kBackend;
}

}  // namespace vindex::test
