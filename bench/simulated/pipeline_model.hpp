// Owns a model of how calls of a device share its bus and its kernels: pieces are copied, solved
// and judged on the host; kernels of several lanes share the device, and those of few matrices
// cannot use all of it. Nothing is measured: it says what an order of events would cost.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::throughput {

struct Pipeline {
  std::int32_t lanes = 3;
  bool takes_turns = true;      ///< the bus copies one piece after the other; else all share it
  double bus = 0.267;           ///< milliseconds a matrix, of the bus alone
  double kernels = 0.64;        ///< of kernels that fill the device
  double least_kernels = 39.0;  ///< milliseconds of a piece of one matrix
  double host = 0.1;            ///< milliseconds a matrix, of the lane's thread, after its kernels
  double call = 1.0;            ///< milliseconds of a call beside these
};

struct PipelineTimes {
  double whole = 0.0;  ///< milliseconds until the last matrix is done
  double fill = 0.0;   ///< until the kernels of the first piece begin
  double idle = 0.0;   ///< of the device, kernels that do not fill it counted in part
};

/// `units`: matrices of each call, one piece each; a lane that is free takes the next one.
PipelineTimes run_pipeline(const Pipeline& pipeline, const std::vector<std::int64_t>& units);

}  // namespace vindex::throughput
