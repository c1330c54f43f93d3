// Owns the way to the CUDA back end, present in every build (kernels/cuda_absent.cpp).
#pragma once

#include "backend/backend.hpp"
#include "backend/forward_backend.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vindex::kernels {

/// The CUDA back end on `device`, or null with the reason in `why`.
std::unique_ptr<Backend> make_cuda_backend(std::int32_t device, std::string& why);

/// The CUDA back end of forward passes on `device`, or null with the reason in `why`. Errors:
/// DeviceError; E-SELF-TEST where the device gives wrong numbers.
std::unique_ptr<ForwardBackend> make_cuda_forward_backend(std::int32_t device, std::string& why);

/// Back ends that are made from now on wait for every kernel they launch: a fault then names
/// the kernel that caused it.
void await_cuda_launches();

}  // namespace vindex::kernels
