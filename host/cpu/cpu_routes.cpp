// Owns the two ways from the weights W to all their singular values, p the short side and n the
// long one:
//
//   by_gram   G = W^T W,  T = Q^T G Q tridiagonal,  s_i = sqrt(l_i(T))      n p^2 + 4/3 p^3 flop
//   by_qr     W = Q R,  B = U^T R V bidiagonal,     s_i = s_i(B)          2 n p^2 + 2 p^3
//
// Why a Gram first: it is one product of matrices that takes slabs in any order and keeps p^2
// numbers, at about half of the arithmetic of QR. LAPACK's gesvd, which bidiagonalises W itself,
// takes 4 n p^2 - 4/3 p^3 and spends half of that on products with vectors, bound by memory. The
// price of a Gram is known: rounding E of G moves s_i^2 by at most |E| (Weyl), so s_i by |E| / (2
// s_i), which is half of eps (s_1 / s_i)^2 relative to it. What that leaves of each value is
// modelled in measure/spectrum_error.hpp from the norms that by_gram() collects, and
// measure/judgement.hpp says where it is too little and which step follows. by_qr() never squares,
// so its error is eps64 s_1 for any condition.
//
// Sources: LAPACK syrk, sytrd, sterf, tpqrt, gebrd, bdsqr; QR before the bidiagonal form is Chan,
// "An improved algorithm for computing the singular value decomposition" (1982).
#include "cpu_routes.hpp"

#include "seam.hpp"
#include "stopwatch.hpp"

#include "core/integers.hpp"
#include "cpu/gram/gram.hpp"
#include "cpu/gram/simd_gram_bf16.hpp"
#include "cpu/gram/split_gram.hpp"
#include "cpu/strict/strict_qr.hpp"
#include "cpu/top/partial_band.hpp"
#include "cpu/tridiagonal/tridiagonal.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace vindex::cpu {
namespace {

/// Weights whose largest magnitude is within 2^-30 .. 2^30 give a float32 Gram that neither
/// overflows (n < 2^27) nor loses to underflow (2^27 2^-149 against 2^-60); the bfloat16 kernel,
/// which flushes subnormals, asks for 2^-32 .. 2^32.
constexpr int kSafeExponent = 30;

/// Puts exact sums of squares on the diagonal, and takes the bias that they show out of the other
/// entries by their squared cosine: it is that of sums of one sign, so it is in full where two
/// lines are nearly parallel, and their small difference lives by its being equal. Sums of both
/// signs stay small while they grow and have none; taking it from them too would be an error of its
/// own, the same multiple of every entry off the diagonal.
void set_diagonal(WorkArray<double>& norms, float* gram) {
  const std::int64_t p = norms.size();
  WorkArray<double>& share = norms;  // becomes half the relative bias, once the sum is placed
  for (std::int64_t i = 0; i < p; ++i) {
    float& entry = gram[i * p + i];
    const double rounded = static_cast<double>(entry);
    const double exact = norms[i];
    entry = static_cast<float>(exact);
    share[i] = rounded > 0.0 && std::isfinite(exact) ? 0.5 * (exact / rounded - 1.0) : 0.0;
  }
  for (std::int64_t j = 0; j < p; ++j) {
    const auto own = static_cast<double>(gram[j * p + j]);
    for (std::int64_t i = 0; i < j; ++i) {
      const auto entry = static_cast<double>(gram[j * p + i]);
      const double norms_squared = own * static_cast<double>(gram[i * p + i]);
      const double cosine_squared =
          norms_squared > 0.0 ? std::min(1.0, entry * entry / norms_squared) : 0.0;
      gram[j * p + i] = static_cast<float>(entry + entry * cosine_squared * (share[i] + share[j]));
    }
  }
}

/// Fills the upper triangle of `gram`. Weights that are exact in bfloat16 take the faster kernel in
/// a pass that changes nothing; with a matrix unit others too that it multiplies faster.
template <typename Real>
void accumulate(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                Workspace& workspace, Real* gram, double& seconds) {
  constexpr bool kWide = sizeof(Real) == sizeof(double);
  const std::int64_t p = plan.short_side;
  std::fill_n(gram, p * p, Real{0});
  WorkArray<double> wide(workspace, kWide ? plan.chunk * p : 0, "weights as doubles");
  WorkArray<double> norms(workspace, kWide ? 0 : p, "the diagonal of the Gram matrix");
  std::fill_n(norms.data(), norms.size(), 0.0);
  WorkArray<std::byte> packed;
  std::optional<bool> exact_in_bf16;
  if (kWide || plan.library_only || change.sign_flip_draw.has_value() ||
      change.scale_exponent != 0 || (plan.tiles == nullptr && !gram_bf16_is_fast())) {
    exact_in_bf16 = false;
  }
  const auto pack_into = [&](std::size_t bytes) {
    if (packed.size() == 0) {
      packed = WorkArray<std::byte>(workspace, static_cast<std::int64_t>(bytes), "packed weights");
    }
    return packed.span();
  };
  const auto use_tile = [&](const Tile& tile) {
    if constexpr (!kWide) {
      const Stopwatch watch(seconds);
      add_short_norms(tile, plan.row_slabs, norms.data());
    }
    if (tile.encoded == nullptr) {
      exact_in_bf16 = false;
    } else if (!exact_in_bf16.has_value()) {
      exact_in_bf16 = gram_bf16_takes(*tile.encoded, plan.row_slabs);
    }
    if (*exact_in_bf16) {
      return;
    }
    const Stopwatch watch(seconds);
    if constexpr (kWide) {
      add_to_gram(tile, plan.row_slabs, wide.data(), gram);
    } else {
      const int parts =
          plan.tiles == nullptr ? 0 : split_parts_of(tile, max_split_parts(plan.long_side));
      if (parts == 0) {
        add_to_gram(tile, plan.row_slabs, gram);
      } else {
        add_split_gram(tile, parts, plan.row_slabs, gram, pack_into(split_gram_workspace_bytes(p)),
                       plan.tiles, best_simd_level(), workspace.stop());
      }
    }
  };
  const auto use_slab = [&](const decode::EncodedMatrix& slab) {
    if constexpr (!kWide) {
      if (exact_in_bf16.value_or(false)) {
        const Stopwatch watch(seconds);
        gram_bf16(slab, plan.row_slabs, 1.0F, gram, p,
                  pack_into(gram_bf16_workspace_bytes(p, plan.tiles != nullptr)), best_simd_level(),
                  workspace.stop(), plan.tiles);
      }
    }
  };
  reader.pass(change, use_tile, use_slab);
  if constexpr (!kWide) {
    set_diagonal(norms, gram);
  }
}

/// Sum over the passes of the reduction of ||what was left||_F^2, from the band that it left
/// (layout of reduce_to_band()), in its units: the part of the band behind a pass is similar to
/// what that pass left.
double passes_norm_squared_of(std::span<const double> band, std::int64_t n) {
  double sum = 0.0;
  double behind = 0.0;
  // From the end: `behind` then is the squared norm of what lies behind the pass at `start`.
  // Elements below the diagonal count twice, and those of a block of columns belong to the matrix
  // that the pass at that block met.
  for (std::int64_t start = band_order(n) - kBand; start >= 0; start -= kBand) {
    for (std::int64_t j = start; j < start + kBand; ++j) {
      const double* const column = band.data() + j * kBandStride;
      behind += column[j] * column[j];
      for (std::int64_t i = j + 1; i < std::min(j + kBandStride, band_order(n)); ++i) {
        behind += 2.0 * column[i] * column[i];
      }
    }
    sum += behind;
  }
  return sum;
}

/// Tridiagonal form of the upper triangle of `gram`, in d and e; the passes' norm in units of G.
template <typename Real>
double reduce_gram(Real* gram, std::int64_t order, const SvdPlan& plan, const TileChange& change,
                   double gram_norm_squared, double* d, double* e, ReducedGram* kept,
                   Workspace& workspace) {
  if (!is_reduced_by_band(order, plan.library_only)) {
    reduce_to_tridiagonal(gram, order, d, e, plan.library_only, workspace);
    return measure::passes_norm_squared(order, gram_norm_squared);
  }
  ReducedGram reduced;
  reduced.change = change;
  reduced.is_wide = sizeof(Real) == sizeof(double);
  reduced.band = WorkArray<double>(workspace, band_elements(order), "the band");
  reduced.factor = WorkArray<std::byte>(
      workspace, static_cast<std::int64_t>(tridiagonalise_workspace_bytes(order, sizeof(Real))),
      "tridiagonal reduction");
  reduced.form.band = reduced.band.span();
  const auto count = static_cast<std::size_t>(order);
  tridiagonalise(gram, order, order, {d, count}, {e, count}, reduced.factor.span(), &reduced.form,
                 best_simd_level(), workspace.stop());
  const double passes =
      std::ldexp(passes_norm_squared_of(reduced.form.band, order), 2 * reduced.form.exponent);
  if (kept != nullptr && order == plan.short_side) {
    reduced.n = order;
    *kept = std::move(reduced);
  }
  return passes;
}

/// A Gram matrix that is 2^exponent times that of the weights.
struct GramScale {
  double sum_squares = 0.0;        ///< of the weights
  double gram_norm_squared = 0.0;  ///< of the matrix as it is
  int exponent = 0;
};

/// Tridiagonal form as reduce_gram() makes it, from a reduction that ends once it has the largest
/// values as `fast` promises them: `found` then gets those, their bounds and errors.
template <typename RoundingOf>
double reduce_in_part(float* gram, std::int64_t order, const GramScale& scaled,
                      const RoundingOf& rounding_of, double* d, double* e, Workspace& workspace,
                      Finding& found) {
  const auto error_of = [&](double passes, double largest) {
    const double error = measure::matrix_error(
        order, std::sqrt(std::ldexp(largest, -scaled.exponent)), rounding_of(passes));
    return std::ldexp(error, scaled.exponent);
  };
  TopProbe probe({.order = order,
                  .sum_squares = std::ldexp(scaled.sum_squares, scaled.exponent),
                  .norm_squared = scaled.gram_norm_squared,
                  .room = gram,
                  .error = error_of},
                 workspace);
  WorkArray<std::byte> work(
      workspace, static_cast<std::int64_t>(tridiagonalise_workspace_bytes(order, sizeof(float))),
      "tridiagonal reduction");
  const auto count = static_cast<std::size_t>(order);
  const std::int64_t columns =
      tridiagonalise_in_part(gram, order, order, {d, count}, {e, count}, work.span(), probe,
                             best_simd_level(), workspace.stop());
  if (columns == order) {
    return probe.passes_norm_squared();
  }
  std::vector<double> lower = probe.lower();
  std::vector<double> upper = probe.upper();
  const double error = std::ldexp(probe.error(), -scaled.exponent);
  for (std::size_t i = 0; i < lower.size(); ++i) {
    lower[i] = std::ldexp(lower[i], -scaled.exponent);
    upper[i] = std::ldexp(upper[i], -scaled.exponent);
    found.sigma.push_back(std::sqrt(0.5 * (lower[i] + upper[i])));
    found.top_errors.push_back(0.5 * (upper[i] - lower[i]) + error);
  }
  found.bounds = bounds_between(lower, upper, error, scaled.sum_squares);
  return probe.passes_norm_squared();
}

/// Step by a Gram in `Real`.
template <typename Real>
Finding by_gram(TileReader& reader, const SvdPlan& plan, TileChange change, Workspace& workspace,
                MatrixReport& report, ReducedGram* kept, bool top_alone) {
  const std::int64_t p = plan.short_side;
  Finding found;
  constexpr bool kWide = sizeof(Real) == sizeof(double);
  const auto name = [&](std::int64_t order) {
    const bool band = is_reduced_by_band(order, plan.library_only);
    return kWide ? (band ? "gram64+band64+cpu" : "gram64+trd64+cpu")
                 : (band ? "gram32+band32+cpu" : "gram32+trd32+cpu");
  };
  found.method = name(p);
  WorkArray<Real> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, workspace, gram.data(), report.seconds_gram);
  if (!reader.finite()) {
    return found;
  }
  const Stopwatch watch(report.seconds_eigen);
  const double norm_squared = symmetric_norm_squared(gram.data(), p);
  found.gram_norm_squared = std::ldexp(norm_squared, -4 * change.scale_exponent);
  // The norms are read before the reduction destroys G.
  const DiagonalNorms diagonal = diagonal_norms(gram.data(), p);
  const std::int64_t left = drop_zero_columns(gram.data(), p);
  if (left == 0) {
    found.sigma.assign(static_cast<std::size_t>(p), 0.0);
    found.zero_rows = p;
    return found;
  }
  WorkArray<double> d(workspace, left, "eigenvalues");
  WorkArray<double> e(workspace, left, "tridiagonal form");
  // One-stage reductions (sytrd) err several times as much, most on a cluster at the top; one value
  // is not reduced.
  constexpr double kUnit = kWide ? 0x1p-53 : 0x1p-24;
  const bool errs_little = left == 1 || is_reduced_by_band(left, plan.library_only);
  const auto rounding_of = [&](double passes) {
    return measure::gram_rounding(
        {.unit = kUnit, .depth = plan.chunk, .reduction_unit = errs_little ? kUnit : 8.0 * kUnit},
        left, plan.long_side,
        {.sum_squares = reader.moments().sum_squares,
         .gram_norm_squared = found.gram_norm_squared,
         .diagonal_norm_squared = std::ldexp(diagonal.norm_squared, -4 * change.scale_exponent),
         .largest_diagonal = std::ldexp(diagonal.largest, -2 * change.scale_exponent),
         .passes_norm_squared = std::ldexp(passes, -4 * change.scale_exponent)});
  };
  double passes = 0.0;
  if (top_alone && is_reduced_by_band(left, plan.library_only) && may_end_early(left)) {
    if constexpr (!kWide) {
      passes = reduce_in_part(gram.data(), left,
                              {.sum_squares = reader.moments().sum_squares,
                               .gram_norm_squared = norm_squared,
                               .exponent = 2 * change.scale_exponent},
                              rounding_of, d.data(), e.data(), workspace, found);
    }
  } else {
    passes = reduce_gram(gram.data(), left, plan, change, norm_squared, d.data(), e.data(), kept,
                         workspace);
  }
  found.rounding = rounding_of(passes);
  if (!found.top_errors.empty()) {
    found.method = "gram32+lanczos32+cpu";
    return found;
  }
  found.method = name(left);
  const bool converged = solve_tridiagonal(d.data(), e.data(), left, plan.library_only, workspace);
  take_eigenvalues({.eigenvalues = {d.data(), static_cast<std::size_t>(left)},
                    .exponent = -2 * change.scale_exponent,
                    .left_out = p - left,
                    .failed = !converged},
                   found);
  return found;
}

}  // namespace

int gram_scale_exponent(double max_abs) {
  if (max_abs == 0.0) {
    return 0;
  }
  int exponent = 0;
  std::frexp(max_abs, &exponent);
  return std::abs(exponent) <= kSafeExponent ? 0 : std::clamp(-exponent, -126, 126);
}

void form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change, Workspace& workspace,
               float* gram, double& seconds) {
  accumulate(reader, plan, change, workspace, gram, seconds);
  if (!reader.finite() || change.scale_exponent != 0) {
    return;
  }
  // Weights far from 1 are rare, so the first pass does not wait for a pass that finds the largest.
  // The largest weight is known only now.
  change.scale_exponent = gram_scale_exponent(reader.moments().max_abs());
  if (change.scale_exponent != 0) {
    accumulate(reader, plan, change, workspace, gram, seconds);
  }
}

void form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change, Workspace& workspace,
               double* gram, double& seconds) {
  accumulate(reader, plan, change, workspace, gram, seconds);
}

double gram64_terms(const SvdPlan& plan) {
  const std::int64_t chunks = ceil_divide(plan.long_side, plan.chunk);
  return static_cast<double>(plan.chunk + chunks + 8);
}

Finding by_gram32(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report, ReducedGram* kept, bool top_alone) {
  return by_gram<float>(reader, plan, change, workspace, report, kept, top_alone);
}

Finding by_gram64(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report, ReducedGram* kept) {
  return by_gram<double>(reader, plan, change, workspace, report, kept, false);
}

Finding by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change, Finding before,
              std::int64_t lost, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  Finding found = std::move(before);
  found.negative = false;
  found.tail_errors.clear();
  WorkArray<double> r(workspace, p * p, "the triangular factor");
  triangular_factor(reader, plan, change, workspace, r.data(), report.seconds_gram);
  if (reader.finite()) {
    const Stopwatch watch(report.seconds_eigen);
    if (lost > 0 && lost <= max_tail_values(p)) {
      const std::vector<double> tail =
          smallest_singular_values(r.data(), p, lost, found.sigma.front(), workspace);
      // The iteration finds singular values, but nothing in it says that they are the smallest: the
      // float64 Gram, good to its own rounding, does.
      if (is_tail_of(tail, found.sigma, measure::gram64_square_error(found.sigma))) {
        std::copy(tail.begin(), tail.end(), found.sigma.end() - lost);
        std::sort(found.sigma.begin(), found.sigma.end(), std::greater<>());
        found.tail_errors.assign(tail.size(),
                                 static_cast<double>(p) * 0x1p-52 * found.sigma.front());
        found.method = is_reduced_by_band(p, plan.library_only) ? "qr+band64+cpu" : "qr+trd64+cpu";
        return found;
      }
    }
    found.sigma = singular_values_by_bidiagonal(r.data(), p, workspace);
  }
  found.method = "qr+bidiag64+cpu";
  return found;
}

}  // namespace vindex::cpu
