// Owns the kernels of a Gram matrix: encoded codes to operand tiles (gram_layout.hpp) with the sums
// of the weights, the facts of each matrix from those sums, and the multiplication of the tiles to
// Gram matrices and their norms.
#pragma once

#include "gram_facts.hpp"
#include "product_arguments.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Adds the chunks that the operands hold to `grams`; from the first chunk it starts at zero. Sums
/// of plan.sum_depth() products are multiplied with the factors of their two tiles and added in one
/// rounding. Parts (high, low) are multiplied low first; low products, 2^-11 of the others and
/// less, share the accumulator of the first high ones.
void multiply_operands(ProductKernel kernel, const OperandPlan& plan, bool contracts_rows,
                       const ProductArguments& arguments, std::int64_t matrices,
                       cudaStream_t stream);

/// multiply_operands() by mma.sync and by wgmma, the latter where `in_pairs` in clusters of two.
void multiply_by_warps(const OperandPlan& plan, bool contracts_rows,
                       const ProductArguments& arguments, std::int64_t matrices,
                       cudaStream_t stream);
void multiply_by_warpgroups(const OperandPlan& plan, bool contracts_rows,
                            const ProductArguments& arguments, std::int64_t matrices, bool in_pairs,
                            cudaStream_t stream);

/// The norms of all tile pairs in a fixed order to the facts. Grid: a block per matrix.
void finish_norms(const ProductArguments& arguments, std::int64_t matrices, GramFacts* facts,
                  cudaStream_t stream);

}  // namespace vindex::kernels
