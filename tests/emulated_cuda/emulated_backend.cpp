#include "emulated_backend.hpp"

#include "kernels/cuda_backend.hpp"

namespace vindex::test {

std::unique_ptr<Backend> make_emulated_cuda_backend() {
  static const kernels::KernelTable kKernels;
  return std::make_unique<kernels::CudaBackend>(0, kKernels, kEmulatedTrialOrder);
}

std::shared_ptr<Backend> emulated_cuda_backend() {
  static const std::shared_ptr<Backend> kBackend = make_emulated_cuda_backend();
  return kBackend;
}

}  // namespace vindex::test
