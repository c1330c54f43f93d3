// Owns the CUDA back end of forward passes (backend/forward_backend.hpp): encoded tiles of a weight
// are copied to the device, decoded there to float32 and multiplied by the library, the copy of one
// tile beside the product of the one before; attention is attention.hpp's.
#pragma once

#include "backend/forward_backend.hpp"
#include "kernels/forward/forward_kernels.hpp"

#include <cstdint>
#include <memory>

namespace vindex::kernels {

/// On `device`. Nothing is trusted that did not pass its self-test there, which this makes.
/// `memory_limit` bounds the device memory that it takes, 0: what is free now, less a reserve.
/// Errors: DeviceError; E-SELF-TEST where a kernel, or the library's product, gives wrong numbers.
std::unique_ptr<ForwardBackend> make_cuda_forward(std::int32_t device,
                                                  const ForwardKernels& kernels = {},
                                                  std::uint64_t memory_limit = 0);

}  // namespace vindex::kernels
