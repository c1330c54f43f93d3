// Owns the names that a profiler's timeline shows: one NVTX range for the life of an object.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace vindex::kernels {

class Range {
 public:
  explicit Range(const char* name) { (void)nvtxRangePushA(name); }
  ~Range() { (void)nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace vindex::kernels
