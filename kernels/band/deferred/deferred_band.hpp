// Owns the reduction to a band with deferred updates, in float32 on the tensor cores: the trailing
// matrix takes the factors of several panels at once, and between two such updates it is only read.
//
//   A' = A - sum over pending panels k of (V_k W_k^T + W_k V_k^T)
//   A' V = A V - sum over k of (V_k (W_k^T V) + W_k (V_k^T V))
//
// so a panel costs a pass that reads A (half the bytes of one that also writes it), sums over thin
// factors, and the next panel's columns brought up to date alone. Per panel, on one stream:
//
//   factor     the panel (band_panel.hpp)
//   multiply   Y = A V, A without the pending factors
//   sum        Y completed; V^T V, V^T Y, V_k^T V, W_k^T V
//   form       T, C and what the pending factors are multiplied by
//   advance    W, and the next panel and diagonal block
//   update     behind every last panel of a group: A with all its factors
//
// The first group is one panel: it takes the largest values out of most spectra, and products with
// a matrix err by its norm. Until then A is float32 and is scaled where it is read; its update
// leaves binary16 parts (half_pairs.hpp), as which every later pass reads it.
//
// Sources: Wang et al. 2024 (arXiv 2410.02170, "detached band reduction"); Dongarra, Sorensen,
// Hammarling 1989 (the same delay in LAPACK's sytrd, for one column at a time).
#pragma once

#include "kernels/band/band_batch.hpp"
#include "kernels/band/band_panel.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// Panels whose factors may be pending, this one included.
inline constexpr int kMostDeferred = 4;
/// A row of pending factors: V and W, kBand each, as binary16 parts.
inline constexpr std::int64_t kSlotRow = 2 * kBand;
/// Blocks kBand x kBand that sums and small factors of a panel may have: two, and two for each
/// pending panel.
inline constexpr int kMostTurns = 2 * kMostDeferred;

/// How many panels are updated at once in a matrix of this order: what updates move falls, what
/// thin factors move grows. 1: the trailing matrix is updated for every panel, by the former pass.
int deferred_panels(std::int64_t order, std::size_t shared_bytes);

/// What a reduction with deferred updates needs, `panels` at a time; a pure function of its
/// arguments. Errors: expects() as plan_band_reduction() does.
BandPlan plan_deferred_band(std::int64_t order, std::size_t shared_bytes, int panels);

/// A panel of every matrix of a batch on its way to the next. Rows count from `start`.
struct DeferredStep {
  /// Row-major order x order; float32, and binary16 parts behind the first update.
  float* matrices = nullptr;
  const float* reflectors = nullptr;  ///< V, float32, kFactorStride between rows
  /// Per matrix `group` slots of order x kSlotRow, row i being the matrix's: V_k, and W_k times a
  /// power of two; the panel's own slot is `pending`.
  float* slots = nullptr;
  float* units = nullptr;       ///< per matrix and slot, what a one of the stored W stands for
  float* products = nullptr;    ///< rows' part of A V; completed
  float* partials = nullptr;    ///< columns' parts (band_update.hpp)
  const float* taus = nullptr;  ///< kBand per matrix
  float* overlaps = nullptr;    ///< scratch: deferred_overlap_elements() per matrix
  float* small = nullptr;       ///< gets T: 2 kBand^2 per matrix
  float* turns = nullptr;       ///< gets kMostTurns blocks per matrix, as binary16 parts
  float* turn_units = nullptr;  ///< and what a one of each stands for
  float* columns = nullptr;     ///< gets the next panel, column-major as in Panel
  float* band = nullptr;        ///< gets the diagonal block at `start`
  const std::int32_t* exponents = nullptr;  ///< of the scale, applied until the first update
  std::int64_t order = 0;
  std::int64_t start = 0;  ///< first row and column behind the panel
  std::int64_t rows = 0;   ///< order - start
  std::int64_t strip_rows = 0;
  std::int64_t batch = 0;
  bool scaled = false;  ///< the matrices have their scale already
  int group = 0;        ///< slots of a matrix
  int pending = 0;      ///< panels before this one that A lacks

  /// Whether A is still float32.
  VINDEX_HD bool is_first() const { return start == kBand; }
};

/// Elements of DeferredStep::overlaps per matrix.
std::int64_t deferred_overlap_elements(std::int64_t order);

/// Rows of a strip of the pass that reads; 0 where shared memory does not suffice.
std::int64_t deferred_strip_rows(std::size_t shared_bytes);

/// The first panel and diagonal block, scaled, from float32 matrices.
void take_first_panel(const DeferredStep& step, cudaStream_t stream);
/// Y = A V in parts, as update_and_multiply() leaves them.
void multiply_deferred(const DeferredStep& step, std::size_t shared_bytes, cudaStream_t stream);
/// Completes the product with A; sums over rows; T, C and the turns of the pending factors.
void form_deferred_factors(const DeferredStep& step, cudaStream_t stream);
/// V and W into the panel's slot; the next panel and diagonal block.
void advance_deferred(const DeferredStep& step, cudaStream_t stream);
/// A less the factors of pending + 1 slots, from the block behind `start` on.
void update_deferred(const DeferredStep& step, std::size_t shared_bytes, cudaStream_t stream);

/// Whether large matrices get deferred updates on such a device.
bool defers_updates(std::size_t shared_bytes);

/// The same with updates deferred over several panels, by a plan whose deferred_panels is not 0.
/// Reads the lower triangle and the diagonal blocks of kBand alone. Source: Wang et al. 2024
/// (arXiv 2410.02170).
void reduce_to_band_deferred(const BandPlan& plan, const BandBatch<float>& batch,
                             cudaStream_t stream);

}  // namespace vindex::kernels
