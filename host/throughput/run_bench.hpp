// Owns `vindex bench`: which sections are measured, on what, and the report that comes out. Every
// rate stands beside a limit taken in the same run (memory copy, BLAS, disk, bus).
#pragma once

#include "bench_settings.hpp"

#include <functional>
#include <string>

namespace vindex::throughput {

/// Measures. `say` receives a line per case. A case that cannot be measured becomes a row with a
/// note. Errors: DeviceError E-NO-GPU (70) where CUDA is demanded and absent, UsageError for shapes
/// and encodings that do not exist, errors of open_model() for `model`, OutputError/SystemError
/// where `folder` cannot be written.
BenchOutcome run_bench(const BenchSettings& settings,
                       const std::function<void(const std::string&)>& say);

}  // namespace vindex::throughput
