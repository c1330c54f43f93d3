// Owns the way from encoded matrices on the device to their Gram matrices in float32, formed by
// tensor cores (gram_plan.hpp says from what operands and how exactly), and to the moments of the
// weights, which are taken on the way. Everything is ordered on a stream; nothing waits.
//
//   plan    = choose_operands(encoding, view, may_round);
//   bytes   = gram_workspace_bytes(shape, plan, how_many_at_once);
//   form_grams(encoding, plan, {views, keys}, workspace, bytes, kernel, grams, facts, stream);
//   ... copy `facts` back, wait ...
//   moments = moments_of(facts[i]); norm = gram_norm_squared(facts[i]);
//   sigma^2 = ldexp(lambda, facts[i].gram_exponent)
#pragma once

#include "gram_plan.hpp"

#include "decode/formats/decode_view.hpp"
#include "decode/moments.hpp"
#include "kernels/device/trap_report.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

namespace vindex::kernels {

/// Sums of w - shift over finite weights, in float64 (squares: of w itself); others are counted.
struct WeightSums {
  std::int64_t count = 0, zeros = 0, nonfinite = 0;
  double power[4] = {};
  double squares = 0.0;
  float min = 0.0F, max = 0.0F;  ///< +inf and -inf where count is 0
};

/// What is known of one matrix; trivially copyable, written on the device. The Gram matrix in
/// memory is 2^-gram_exponent times the true one, so that its largest diagonal entry, and with it
/// its largest entry, lies in [1/2, 1): what the reduction to a band wants (band_reduction.hpp).
/// The diagonal is known before the product is, so nothing is read twice for it.
struct GramFacts {
  WeightSums sums;
  double shift = 0.0;
  double scaled_norm_squared = 0.0;   ///< ||G||_F^2 of the matrix in memory
  std::int32_t exponent = 0;          ///< floor(log2(largest |w|)); 0 for a zero matrix
  std::int32_t operand_exponent = 0;  ///< operands are w 2^-operand_exponent
  std::int32_t gram_exponent = 0;     ///< 0 for a zero matrix
};

decode::Moments moments_of(const GramFacts& facts);
/// ||G||_F^2 of the true Gram matrix; may overflow to infinity or vanish where the weights do.
double gram_norm_squared(const GramFacts& facts);

/// A batch: matrices of one encoding and one shape, pointers on the device, 16-byte aligned codes
/// and rows where speed matters. `sign_flip_keys`, empty or one per matrix, asks for the Gram of
/// the randomly signed matrices (metrics contract, sign-flip null: draw number `sign_flip_draw`;
/// elements are numbered row-major, or column-major where `transposed`). Views start at row and
/// column 0 of their matrix.
struct GramBatch {
  std::span<const decode::DecodeView> views;
  std::span<const std::uint64_t> sign_flip_keys;
  bool transposed = false;
  std::uint64_t sign_flip_draw = 0;
  /// Block-scaled E4M3 codes become operands by conversions of the device (native_operands.cu): the
  /// same bits.
  bool native_operands = false;
  std::uint64_t wait_cycles = kWaitCycles;  ///< after which a kernel that waits in vain ends itself
};

/// Forms `grams` [batch][order][order] (GramShape::order, symmetric, both triangles, zeros beyond
/// the short side) and `facts` [batch], both on the device. `workspace` [workspace_bytes],
/// 1024-byte aligned, on the device, may be used again by what follows on `stream`. Weights that
/// are not finite enter as 0, so that a solver of the batch ends; their count in `facts` says that
/// the result means nothing. Deterministic; bits depend on the matrix, the plan and the kernel, not
/// on the batch or the workspace. Errors: OutOfMemory for too small a workspace, UsageError for an
/// encoding without decoder, DeviceError.
void form_grams(const decode::Encoding& encoding, const OperandPlan& plan, const GramBatch& batch,
                void* workspace, std::size_t workspace_bytes, ProductKernel kernel, float* grams,
                GramFacts* facts, cudaStream_t stream);

}  // namespace vindex::kernels
