// Owns the way to the CUDA back end that runs on the CPU. Only tests link it.
#pragma once

#include <vindex/measure/backend.hpp>

#include <memory>

namespace vindex::test {

/// The CUDA back end's own text over the emulated runtime.
std::unique_ptr<measure::Backend> make_emulated_cuda_backend();

}  // namespace vindex::test
