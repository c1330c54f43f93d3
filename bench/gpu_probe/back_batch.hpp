// Owns the batch of back-transformations: float32 reductions that kept their factor, and the
// columns that it turns, by each kernel that can.
#pragma once

#include "probe.hpp"

#include "kernels/band/back_transform/band_back_transform.hpp"

namespace vindex::probe {

class BackBatch {
 public:
  /// Reduces `slots` matrices of noise, or most() where that is less, of order `order`, which is
  /// rounded up to a multiple of the band's width.
  BackBatch(Probe& probe, std::int64_t order, std::int64_t slots);

  static constexpr std::int64_t most() { return 32; }

  /// Q^T of 64 columns of each matrix; `wide`: by wide_back_transform(), where shared memory
  /// suffices.
  void turn(bool wide);

 private:
  Probe& probe_;
  std::int64_t order_, slots_;
  DeviceBuffer matrices_{"reduced matrices"};
  DeviceBuffer which_{"slots"};
  DeviceBuffer columns_{"columns"};
  DeviceBuffer scratch_{"scratch of columns"};
};

}  // namespace vindex::probe
