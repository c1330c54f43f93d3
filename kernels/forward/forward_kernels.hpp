// Owns the list of hand-written kernels of a forward pass, and their trial on the device at hand
// before any result rests on them. A table rather than direct calls, so that the trial judges what
// will run, and a test of the trial can put a wrong kernel in its place.
#pragma once

#include "backend/backend.hpp"
#include "kernels/forward/attention.hpp"
#include "kernels/forward/forward_rows.hpp"

#include <cublas_v2.h>

#include <vector>

namespace vindex::kernels {

struct ForwardKernels {
  decltype(&attend) attention = &attend;
  decltype(&gather_columns) gather = &gather_columns;
  decltype(&add_bias) bias = &add_bias;
};

/// Fixed seeded inputs against loops in float64 on the host, which share nothing with what is
/// judged: attention in every variant of its kernel, the rows beside products, and the library's
/// product, whose error tells float32 from anything rougher. `blas` works on `stream`; waits for
/// it. Well under a second. A kernel whose call throws, memory apart, has failed; trials behind one
/// that left the device unusable are not made. Errors: OutOfMemory.
std::vector<SelfTestInfo> try_forward_kernels(const ForwardKernels& kernels, cublasHandle_t blas,
                                              cudaStream_t stream);

}  // namespace vindex::kernels
