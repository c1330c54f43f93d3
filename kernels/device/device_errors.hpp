// Owns the words of an error on a device: what was called where, or which kernel was launched how,
// and what a kernel that ended itself left behind.
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <string>

namespace vindex::kernels {

/// "factor_panel_kernel<float, 8, 8>" of a kernel's host address, or that address.
std::string function_name(const void* kernel);

/// Errors: always, DeviceError E-CUDA naming the place.
[[noreturn]] void throw_cuda_error(cudaError_t status, const std::source_location& where);

/// For a launch that was refused, or, where it was `awaited`, whose kernel failed.
/// Errors: always. OutOfMemory where the device had no memory for the kernel's code or stacks, else
/// DeviceError E-CUDA with the kernel's name, grid, block and shared memory.
[[noreturn]] void throw_launch_error(cudaError_t status, const void* kernel,
                                     const cudaLaunchConfig_t& config, bool awaited);

}  // namespace vindex::kernels
