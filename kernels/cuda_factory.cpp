// The factory that cuda_loader.cpp looks up in the module.
#include "cuda_factory.hpp"

#include "cuda_backend.hpp"

#include "kernels/device/launch.hpp"
#include "kernels/forward/cuda_forward.hpp"

#include <string>

/// Every launch of this module is waited for from now on.
extern "C" void vindex_await_launches() { vindex::kernels::launches_are_awaited = true; }

namespace {

/// False with the reason where there is no such device.
bool is_there(std::int32_t device, std::string& why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    why = std::string("CUDA: ") + cudaGetErrorString(status);
    return false;
  }
  if (device < 0 || device >= count) {
    why = "there is no CUDA device " + std::to_string(device) + " (" + std::to_string(count) +
          " found)";
    return false;
  }
  return true;
}

}  // namespace

/// The back end on `device`, or null with the reason where there is no such device.
extern "C" vindex::Backend* vindex_make_cuda_backend(std::int32_t device, std::string* why) {
  static const vindex::kernels::KernelTable kKernels;
  return is_there(device, *why)
             ? std::make_unique<vindex::kernels::CudaBackend>(device, kKernels).release()
             : nullptr;
}

/// The same of forward passes.
extern "C" vindex::ForwardBackend* vindex_make_cuda_forward(std::int32_t device, std::string* why) {
  return is_there(device, *why) ? vindex::kernels::make_cuda_forward(device).release() : nullptr;
}
