// Owns the steps of a StrictBatch: float64 Gram matrices by slices of codes or by the library, the
// completed triangle, reduction, chase and values.
#include "strict_batch.hpp"

#include "kernels/decode/decode_matrix.hpp"
#include "kernels/gram/symmetric.hpp"
#include "kernels/tridiagonal/tridiagonal_values.hpp"

#include <algorithm>

namespace vindex::probe {

using namespace kernels;

namespace {

std::size_t room(std::int64_t elements, std::size_t bytes) {
  return static_cast<std::size_t>(elements) * bytes;
}

}  // namespace

StrictBatch::StrictBatch(Probe& probe, const decode::Encoding& encoding,
                         std::span<const decode::DecodeView> views)
    : probe_(probe),
      encoding_(encoding),
      views_(views.first(std::min(views.size(), static_cast<std::size_t>(most())))),
      shape_{.rows = views.front().rows, .cols = views.front().cols},
      leading_(band_order(p())),
      band_plan_(plan_band_reduction<double>(leading_, BandRoute::kTensor,
                                             probe.properties().sharedMemPerBlockOptin)),
      device_{.shared_bytes = probe.properties().sharedMemPerBlockOptin,
              .multiprocessors = probe.properties().multiProcessorCount},
      blas_(make_blas(probe.stream())) {
  const std::int64_t weights = shape_.rows * shape_.cols;
  operands_.reserve(code_gram_bytes(shape_, code_grams_at_once(shape_, count())));
  decoded_.reserve(room(weights, sizeof(float)));
  wide_.reserve(room(weights, sizeof(double)));
  moments_.reserve(room(count(), sizeof(RawMoments)));
  grams_.reserve(room(count() * gram_elements(), sizeof(double)));
  completion_.reserve(complete_symmetric_bytes(p(), count()));
  facts_.reserve(room(count(), sizeof(SymmetricFacts)));
  bands_.reserve(room(count() * chase_elements(p()), sizeof(double)));
  band_workspace_.reserve(room(count(), band_plan_.workspace_bytes_per_matrix));
  values_.reserve(room(3 * count() * p(), sizeof(double)));
  small_.reserve(room(2 * count(), sizeof(std::int32_t)));
  flags_.reserve(room(std::max<std::int64_t>(1, most_chase_flags(device_)), sizeof(int)));
}

double* StrictBatch::fresh_grams() {
  auto* const grams = grams_.reserve_array<double>(0);
  if (leading_ != p()) {
    check(cudaMemsetAsync(grams, 0, room(count() * gram_elements(), sizeof(double)),
                          probe_.stream()));
  }
  return grams;
}

void StrictBatch::form(ProductKernel product, bool rounded) {
  form_code_grams({.views = views_,
                   .product = product,
                   .rounded = rounded,
                   .sign_flip_keys = {},
                   .leading = leading_,
                   .grams = fresh_grams(),
                   .moments = moments_.reserve_array<RawMoments>(0)},
                  operands_.reserve(0), probe_.stream());
}

void StrictBatch::form_by_library() {
  double* const grams = fresh_grams();
  auto* const decoded = decoded_.reserve_array<float>(0);
  auto* const wide = wide_.reserve_array<double>(0);
  const double one = 1.0;
  const double zero = 0.0;
  for (std::int64_t i = 0; i < count(); ++i) {
    decode_matrix(encoding_, views_[static_cast<std::size_t>(i)], decoded, shape_.cols,
                  probe_.stream());
    widen(decoded, shape_.rows * shape_.cols, wide, probe_.stream());
    // As add_gram() (library_solver.hpp), which is not among the kernels.
    check(cublasDsyrk(blas_.get(), CUBLAS_FILL_MODE_LOWER,
                      shape_.contracts_rows() ? CUBLAS_OP_N : CUBLAS_OP_T, blas_int(p()),
                      blas_int(shape_.long_side()), &one, wide, blas_int(shape_.cols), &zero,
                      grams + i * gram_elements(), blas_int(leading_)));
  }
}

void StrictBatch::complete() {
  complete_symmetric(grams_.reserve_array<double>(0), p(), leading_, count(),
                     completion_.reserve(0), facts_.reserve_array<SymmetricFacts>(0),
                     probe_.stream());
}

void StrictBatch::reduce() {
  reduce_to_band<double>(band_plan_,
                         {grams_.reserve_array<double>(0), count(), bands_.reserve_array<double>(0),
                          small_.reserve_array<std::int32_t>(0), band_workspace_.reserve(0)},
                         probe_.stream());
}

void StrictBatch::chase() {
  chase_bands<double, double>(bands_.reserve_array<double>(0), p(), count(),
                              chase_shape(device_.shared_bytes, sizeof(double)), diagonal(),
                              off_diagonal(), probe_.stream());
}

void StrictBatch::shared_chase() {
  kernels::shared_chase<double, double>(
      bands_.reserve_array<double>(0), p(), count(),
      chase_plan(p(), count(), sizeof(double), sizeof(double), device_),
      flags_.reserve_array<int>(0), diagonal(), off_diagonal(), probe_.stream());
}

void StrictBatch::solve() {
  tridiagonal_values(diagonal(), off_diagonal(), p(), count(), ValueOrder::kDescending,
                     off_diagonal() + count() * p(),
                     reinterpret_cast<int*>(small_.reserve_array<std::int32_t>(0) + count()),
                     probe_.stream());
}

}  // namespace vindex::probe
