// Owns choosing where forward passes are computed.
#pragma once

#include "opening.hpp"

#include "measure/forward_backend.hpp"

#include <memory>
#include <string>

namespace vindex::engine {

/// The back end that settings.backend, devices, threads and blas_core ask for; a forward pass uses
/// one device. `note` receives one line on what was chosen and why. Errors: DeviceError E-NO-GPU
/// (70) where CUDA is demanded and absent.
std::unique_ptr<measure::ForwardBackend> open_forward(const RunSettings& settings,
                                                      std::string& note);

}  // namespace vindex::engine
