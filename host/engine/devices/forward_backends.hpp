// Owns choosing where forward passes are computed.
#pragma once

#include "backend/forward_backend.hpp"
#include "engine/run_settings.hpp"

#include <memory>
#include <string>

namespace vindex::engine {

/// The back end that settings.backend, devices, threads and blas_core ask for; a forward pass uses
/// one device. `note` receives one line on what was chosen and why, and warnings. Errors:
/// DeviceError (70): E-NO-GPU where CUDA is demanded and absent, E-SELF-TEST where it is demanded
/// and gives wrong numbers.
std::unique_ptr<ForwardBackend> open_forward(const RunSettings& settings, std::string& note);

}  // namespace vindex::engine
