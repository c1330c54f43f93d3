// Owns the way to the CUDA back end that runs on the CPU. Only tests link it.
#pragma once

#include "backend/backend.hpp"

#include <memory>

namespace vindex::test {

/// The CUDA back end's own text over the emulated runtime.
std::unique_ptr<Backend> make_emulated_cuda_backend();

/// One for all cases of a process: its self-tests take seconds in the emulation.
std::shared_ptr<Backend> emulated_cuda_backend();

}  // namespace vindex::test
