// Owns sums of inner products on a device: slabs are copied there as they are encoded, decoded, and
// multiplied by the library in float32; sums are float64.
//
// Also owns what sums of inner products need on the device around the library's products: weights
// less their means, brought into a range that float32 products survive, and products added in
// float64. All are ordered on `stream` and do not synchronise.
#pragma once

#include "backend/inner_products.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace vindex::kernels {

/// On `device`. Errors: OutOfMemory, DeviceError.
std::unique_ptr<InnerProducts> make_cuda_inner_products(std::int32_t device,
                                                        const InnerProductShape& shape);

/// What they hold; the device a copy of the slabs and what lies beside them too.
InnerProductMemory cuda_inner_product_memory(const InnerProductShape& shape);

/// How the float32 components of `vectors` vectors lie: rows, component k of vector i at
/// values[i * stride + k]; columns, at values[k * stride + i]. Blocks of `depth` components follow
/// each other.
struct VectorLayout {
  std::int64_t vectors = 0;
  std::int64_t stride = 0;
  std::int64_t depth = 0;   ///< of a block
  std::int64_t blocks = 0;  ///< filled
  bool columns = false;
};

/// values -= means[i], in float64, rounded. Columns only.
void subtract_means(const VectorLayout& layout, const double* means, float* values,
                    cudaStream_t stream);

/// factors[block * vectors + i] = the power of two that the block's components of vector i are
/// divided by in place: 1 where the largest lies in [2^-40, 2^40], is 0 or not finite.
/// squares[...]: the float64 sum of squares of the true components.
void bring_into_range(const VectorLayout& layout, float* values, double* factors, double* squares,
                      cudaStream_t stream);

/// Products of blocks, products[(chunk * batch + block) * m * n + i * n + j].
struct BlockProducts {
  const float* products = nullptr;
  std::int64_t m = 0, n = 0;
  std::int64_t chunks = 0;  ///< of a block's depth
  std::int64_t batch = 0;   ///< blocks that there is room for
  std::int64_t blocks = 0;  ///< of these, those that count
  const double* left_factors = nullptr;
  const double* right_factors = nullptr;
  const double* squares = nullptr;  ///< not null: a symmetric sum, its triangle j <= i
};

/// sums[i * n + j] += all products of (i, j), block by block, times their factors; the diagonal of
/// a symmetric sum takes the squares.
void add_products(const BlockProducts& from, double* sums, cudaStream_t stream);

}  // namespace vindex::kernels
