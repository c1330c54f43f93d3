// Owns a back end whose bus and kernels only sleep, as long as those of a device take: lanes, turns
// of the bus, inputs that are released while their batch is on its way, and what the host does of a
// call (eigenvalues to findings, errors, judgement) are as in kernels/.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <functional>
#include <memory>

namespace vindex::throughput {

struct DeviceModel {
  std::int32_t lanes = 3;
  std::int64_t batch = 384;
  std::int64_t held = 8;               ///< BackendLimits::held_inputs
  std::int64_t piece = 132;            ///< matrices solved at a time by a lane
  double bus_bytes_per_second = 55e9;  ///< one piece at a time
  double seconds_per_matrix = 0.0;     ///< of the device, all lanes together
  double least_seconds = 0.0;          ///< of the kernels of a piece, however few matrices it has
};

/// What a call took, for whoever sums up.
struct DeviceCall {
  double asked = 0.0;    ///< seconds of bus and kernels that were slept for
  double entered = 0.0;  ///< wall_seconds()
  double left = 0.0;
};

/// `report`: what comes of a matrix of the shape; its values are used, scaled. `ended` is called on
/// the caller's thread at the end of each call.
std::unique_ptr<Backend> make_simulated_device(
    const DeviceModel& model,
    std::function<const MatrixReport&(std::int64_t rows, std::int64_t cols)> report,
    std::function<void(const DeviceCall&)> ended);

}  // namespace vindex::throughput
