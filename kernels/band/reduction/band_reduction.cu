// Owns the order of launches of the reduction to a band and how its workspace is cut. The two-sided
// block update of Dongarra, Sorensen, Hammarling 1989 with a band of 32 (Bischof, Lang, Sun 2000):
// 4/3 n^3 flop, of which all but the panels are products of matrices, and n^3 / 96 elements moved.
//
// Why not one stage (cuSOLVER's sytrd): half of its arithmetic are products of the trailing matrix
// with one vector, which read it for every column: 5.7 GB for a float32 matrix of 2048 where this
// moves 0.4.
#include "band_reduction.hpp"

#include "kernels/band/back_transform/band_back_transform.hpp"
#include "kernels/band/band_batch.hpp"
#include "kernels/band/band_factors.hpp"
#include "kernels/band/band_panel.hpp"
#include "kernels/band/band_scale.hpp"
#include "kernels/band/deferred/deferred_band.hpp"
#include "kernels/device/check.hpp"
#include <vindex/error.hpp>

#include <array>

namespace vindex::kernels {

namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kLargestBatch = 65535;  // blocks in z

BandArithmetic arithmetic_of(BandRoute route) {
  return route == BandRoute::kTensor ? BandArithmetic::kTensor : BandArithmetic::kPlain;
}

/// Elements of each part of the workspace per matrix.
template <typename Real>
struct WorkspaceShares {
  explicit WorkspaceShares(const BandPlan& plan)
      : columns(plan.order * kBand),
        factors(plan.order * kFactorStride),
        products(plan.order * kBand),
        partials(partial_elements(plan.order, plan.strip_rows)),
        overlaps(overlap_elements<Real>(plan.order)),
        small(2 * kBand * kBand),
        taus(kAlignment / static_cast<std::int64_t>(sizeof(Real))),
        bounds(taus) {}

  std::int64_t total() const {
    return columns + 2 * factors + products + partials + overlaps + small + taus + bounds;
  }

  std::int64_t columns, factors, products, partials, overlaps, small, taus, bounds;
};

}  // namespace

template <typename Real>
BandPlan plan_band_reduction(std::int64_t order, BandRoute route, std::size_t shared_bytes,
                             bool defer) {
  expects(order > 0 && order % kBand == 0 && order <= largest_band_order(),
          "order of a matrix to reduce to a band");
  if constexpr (sizeof(Real) == sizeof(float)) {
    const int panels =
        defer && route == BandRoute::kTensor ? deferred_panels(order, shared_bytes) : 1;
    if (panels > 1) {
      return plan_deferred_band(order, shared_bytes, panels);
    }
  }
  BandPlan plan;
  plan.order = order;
  plan.route = route;
  plan.strip_rows = strip_rows_for<Real>(shared_bytes, arithmetic_of(route));
  expects(plan.strip_rows > 0, "shared memory for the reduction to a band");
  plan.workspace_bytes_per_matrix =
      static_cast<std::size_t>(WorkspaceShares<Real>(plan).total()) * sizeof(Real);
  return plan;
}

template <typename Real>
void reduce_to_band(const BandPlan& plan, const BandBatch<Real>& batch, cudaStream_t stream) {
  expects(batch.batch > 0 && batch.batch <= kLargestBatch, "batch of the reduction to a band");
  expects(plan.deferred_panels == 0, "a plan without deferred updates");
  const std::int64_t order = plan.order;
  const std::int64_t count = batch.batch;
  const BandArithmetic arithmetic = arithmetic_of(plan.route);
  const WorkspaceShares<Real> shares(plan);
  Real* next = static_cast<Real*>(batch.workspace);
  const auto take = [&next, count](std::int64_t share) {
    Real* part = next;
    next += share * count;
    return part;
  };
  Real* columns = take(shares.columns);
  // The factors of the panel before and of this one take turns.
  const std::array<Real*, 2> factors{take(shares.factors), take(shares.factors)};
  Real* products = take(shares.products);
  Real* partials = take(shares.partials);
  Real* overlaps = take(shares.overlaps);
  Real* small = take(shares.small);
  Real* taus = take(shares.taus);
  Real* bounds = take(shares.bounds);

  check(cudaMemsetAsync(batch.band, 0,
                        static_cast<std::size_t>(count * band_elements(order)) * sizeof(Real),
                        stream));
  if (batch.scale == MatrixScale::kWanted) {
    find_exponents(batch.matrices, order, count, batch.exponents, stream);
  }
  if (batch.scale != MatrixScale::kApplied) {
    scale_matrices(batch.matrices, order, count, batch.exponents, stream);
  }

  Factors<Real> step{batch.matrices, nullptr, products, partials,        taus,
                     overlaps,       small,   bounds,   columns,         batch.band,
                     order,          0,       order,    plan.strip_rows, count};
  advance(step, arithmetic, stream);
  for (std::int64_t start = 0; start + kBand < order; start += kBand) {
    const std::int64_t turn = start / kBand % 2;
    step.factors = factors[turn];
    step.start = start + kBand;
    step.rows = order - step.start;
    factor_panels(
        Panel<Real>{columns, step.factors, taus, batch.band, order, step.rows, start, count},
        stream);
    const TrailingPass<Real> pass{batch.matrices, start == 0 ? nullptr : factors[1 - turn],
                                  bounds,         step.factors,
                                  products,       partials,
                                  order,          step.start,
                                  step.rows,      plan.strip_rows,
                                  count};
    update_and_multiply(pass, arithmetic, stream);
    form_small_factors(step, arithmetic, stream);
    if (batch.keep_factor) {
      keep_panel(step, batch.matrices, stream);
    }
    advance(step, arithmetic, stream);
  }
}

template BandPlan plan_band_reduction<float>(std::int64_t, BandRoute, std::size_t, bool);
template BandPlan plan_band_reduction<double>(std::int64_t, BandRoute, std::size_t, bool);
template void reduce_to_band(const BandPlan&, const BandBatch<float>&, cudaStream_t);
template void reduce_to_band(const BandPlan&, const BandBatch<double>&, cudaStream_t);

}  // namespace vindex::kernels
