// Owns the multiplication: operand tiles (gram_layout.hpp) to Gram matrices and their norms.
#pragma once

#include "device/trap_report.hpp"
#include "gram/gram_operands.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// What a multiplication kernel is compiled for.
template <bool ContractsRows, bool Bfloat16, int SumDepth, bool Pairs = false>
struct Products {
  static constexpr bool kContractsRows = ContractsRows;
  static constexpr bool kBfloat16 = Bfloat16;
  static constexpr int kSumDepth = SumDepth;
  static constexpr bool kPairs = Pairs;
};

/// Calls `visit` with the Products of `plan`.
template <typename Visit>
void visit_products(const OperandPlan& plan, bool contracts_rows, Visit&& visit) {
  const auto oriented = [&]<bool kContractsRows>() {
    switch (plan.kind) {
      case OperandKind::kBlockScaled:
        return visit(Products<kContractsRows, false, 128>{});
      case OperandKind::kBfloat16:
        return visit(Products<kContractsRows, true, 64>{});
      case OperandKind::kHalfPair:
        return visit(Products<kContractsRows, false, 32, true>{});
      default:
        return visit(Products<kContractsRows, false, 32>{});
    }
  };
  if (contracts_rows) {
    oriented.template operator()<true>();
  } else {
    oriented.template operator()<false>();
  }
}

/// What a multiplication kernel needs to know; by value. An output tile is 128 x 128; blocks work
/// on the tiles of the lower triangle, grid x: tile pairs, z: matrices.
struct ProductArguments {
  const unsigned char* operands = nullptr;  ///< [matrix][part][tile][slice], 16 KiB each
  std::int64_t part_bytes = 0, matrix_bytes = 0;
  const float* factors = nullptr;  ///< [matrix][chunk][tile]
  const float* diagonals =
      nullptr;              ///< [matrix][order]: stand where they belong, whatever is summed
  float* grams = nullptr;   ///< [matrix][order][order]
  double* norms = nullptr;  ///< [matrix][tile pair]
  std::int64_t order = 0, tiles = 0, chunks = 0, tile_pairs = 0;
  std::int64_t first_chunk = 0, chunk_count = 0;  ///< what the operands hold
  int parts = 1;
  TrapReport* report = nullptr;  ///< for a kernel that ends itself
};

/// Adds the chunks that the operands hold to `grams`; from the first chunk it starts at zero. Sums
/// of plan.sum_depth() products are multiplied with the factors of their two tiles and added in one
/// rounding. Parts (high, low) are multiplied low first; low products, 2^-11 of the others and
/// less, share the accumulator of the first high ones.
void multiply_operands(ProductKernel kernel, const OperandPlan& plan, bool contracts_rows,
                       const ProductArguments& arguments, std::int64_t matrices,
                       cudaStream_t stream);

/// multiply_operands() by mma.sync and by wgmma.
void multiply_by_warps(const OperandPlan& plan, bool contracts_rows,
                       const ProductArguments& arguments, std::int64_t matrices,
                       cudaStream_t stream);
void multiply_by_warpgroups(const OperandPlan& plan, bool contracts_rows,
                            const ProductArguments& arguments, std::int64_t matrices,
                            cudaStream_t stream);

/// The norms of all tile pairs in a fixed order to the facts. Grid: a block per matrix.
void finish_norms(const ProductArguments& arguments, std::int64_t matrices, GramFacts* facts,
                  cudaStream_t stream);

}  // namespace vindex::kernels
