// Owns the way to the CUDA back end that runs on the CPU. Only tests link it.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <memory>

namespace vindex::test {

/// Order of the larger inputs of self-tests, which would take half a minute as on a device.
inline constexpr std::int64_t kEmulatedTrialOrder = 161;

enum class SelfTests : std::uint8_t { kMade, kTakenAsPassed };

/// The CUDA back end's own text over the emulated runtime.
std::unique_ptr<Backend> make_emulated_cuda_backend(SelfTests self_tests = SelfTests::kMade);

/// One for all cases of a process: its self-tests take seconds in the emulation.
std::shared_ptr<Backend> emulated_cuda_backend();

}  // namespace vindex::test
