// Owns the kernels of a Gram matrix: encoded codes to operand tiles (gram_layout.hpp) with the sums
// of the weights, the facts of each matrix from those sums, and the multiplication of the tiles to
// Gram matrices and their norms.
#pragma once

#include "gram_batch.hpp"
#include "gram_layout.hpp"

#include "kernels/device/trap_report.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace vindex::kernels {

/// Up to kMatricesAtOnce matrices, handed to a kernel by value: no copy to wait for.
struct ViewBatch {
  decode::DecodeView views[kMatricesAtOnce];
  std::uint64_t sign_flip_keys[kMatricesAtOnce];
};
static_assert(std::is_trivially_copyable_v<ViewBatch>);
static_assert(sizeof(ViewBatch) <= 16384, "kernel arguments are limited to 32 KiB");

/// What one launch of the operand kernel does.
struct OperandTask {
  bool sums = false;  ///< take the sums of the weights (whole matrix: chunks [0, chunks))
  /// Write operand tiles of chunks [first_chunk, first_chunk + chunk_count).
  bool operands = false;
  bool native = false;  ///< of block-scaled codes, by convert_operands()
  bool flip_signs = false;
  bool flip_transposed = false;
  std::uint64_t flip_draw = 0;
  std::int64_t first_chunk = 0;
  std::int64_t chunk_count = 0;
};

/// Where the work of a cut lies on the device.
struct GramMemory {
  unsigned char* workspace = nullptr;
  std::int64_t part_bytes = 0, matrix_bytes = 0, sums_offset = 0, factors_offset = 0,
               row_factors_offset = 0, squares_offset = 0, diagonals_offset = 0, norms_offset = 0;
};

/// Grid    x: 128 x 128 tiles of the matrix, z: matrices. The views are those of plan.source, kF32
/// for kDecoded. Where operands are shifted, reads the facts' operand_exponent; where sums are
/// taken, writes the facts' shift. Both in one launch for block-scaled operands alone.
void decode_operands(const OperandPlan& plan, const GramShape& shape, const ViewBatch& batch,
                     std::int64_t matrices, const OperandTask& task, const GramMemory& memory,
                     GramFacts* facts, cudaStream_t stream);

/// The same of block-scaled codes, in any launch, by conversions of the device: the same bits in
/// less time (native_operands.cu).
void convert_operands(const GramShape& shape, const ViewBatch& batch, std::int64_t matrices,
                      const OperandTask& task, const GramMemory& memory, GramFacts* facts,
                      cudaStream_t stream);

/// Sums of a matrix in a fixed order to its facts; the factors of its tiles: what finished chunks
/// of a tile of the short side are multiplied with; the diagonal of its Gram matrix, from float64
/// sums of squares, since sums of products in float32 are low where all products are positive; the
/// scale of the Gram matrix, from that. Grid: a block per matrix, one per matrix and tile of the
/// short side, and a block per matrix.
void finish_facts(const OperandPlan& plan, const GramShape& shape, std::int64_t matrices,
                  const GramMemory& memory, GramFacts* facts, cudaStream_t stream);

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
