// Owns the operands of the products of a Gram matrix: tiles in binary16 or bfloat16, decoded or
// converted, and what is found about the weights on the way.
#pragma once

#include "gram_facts.hpp"
#include "gram_layout.hpp"
#include "gram_shape.hpp"

#include "decode/formats/decode_view.hpp"

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

}  // namespace vindex::kernels
