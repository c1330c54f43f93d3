// Owns what products of a forward pass need beside the library: rows picked out of columns, and
// biases. Ordered on `stream`; does not synchronise.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// out[r * count + i] = from[r * stride + i * step] for `rows` rows.
void gather_columns(const float* from, std::int64_t rows, std::int64_t stride, std::int64_t step,
                    std::int64_t count, float* out, cudaStream_t stream);

/// y[r * count + i] += bias[i] for `rows` rows.
void add_bias(const float* bias, std::int64_t rows, std::int64_t count, float* y,
              cudaStream_t stream);

}  // namespace vindex::kernels
