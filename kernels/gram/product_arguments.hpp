// Owns what the kernels of products take, and the kinds of products that they are compiled for.
#pragma once
#include "gram_shape.hpp"

#include "kernels/device/trap_report.hpp"

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
  /// [matrix][chunk][tile]: of the tile of the output's rows, with the scale of the Gram matrix,
  /// and of its columns.
  const float* row_factors = nullptr;
  const float* factors = nullptr;
  const float* diagonals =
      nullptr;              ///< [matrix][order]: stand where they belong, whatever is summed
  float* grams = nullptr;   ///< [matrix][order][order]
  double* norms = nullptr;  ///< [matrix][tile pair]
  std::int64_t order = 0, tiles = 0, chunks = 0, tile_pairs = 0;
  std::int64_t first_chunk = 0, chunk_count = 0;  ///< what the operands hold
  int parts = 1;
  TrapReport* report = nullptr;  ///< for a kernel that ends itself
  std::uint64_t wait_cycles = kWaitCycles;
};

}  // namespace vindex::kernels
