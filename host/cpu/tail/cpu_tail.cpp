// Owns the order of the search for lost values, G + E = 2^k Q B Q^T what the reduction left:
//
//   X = Q Y,  Y the eigenvectors of the smallest eigenvalues of B            (smallest_pairs.hpp)
//   S, X, R = singular values of W X, X transformed to them, R = W^T W X - X S^2  (tail_pass.hpp)
//   enough?  else X <- X - (Q B Q^T)^-1 R, and another pass
//
// The correction: where x = v + d with v the eigenvector of W^T W that is looked for, R is (W^T W -
// s^2) d, and in the directions that X leaves out s^2 is small beside the eigenvalues, so that (G +
// E)^-1 R is d but for |E| over the distance to them. Each pass leaves that share of the error.
//
// Why not the whole spectrum in float64: a float64 Gram takes twice the time of a float32 one,
// while a pass costs 4 n p flop for each lost value, of which trained matrices have a few. Why not
// a bidiagonal route in float32: twice the arithmetic of Gram and reduction
// (docs/decisions/spectra-and-errors.md). Why the values are exact although the vectors are only
// good to float32 stands in cpu_tail.hpp, and the bounds of their errors in
// statistics/judgement/judgement.hpp.
#include "cpu_tail.hpp"

#include "band_inverse.hpp"
#include "smallest_pairs.hpp"
#include "tail_pass.hpp"

#include "backend/backend.hpp"
#include "blas/blas.hpp"
#include "core/constants.hpp"
#include "core/integers.hpp"
#include "cpu/top/orthonormal.hpp"
#include "cpu/tridiagonal/tridiagonal.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/spectrum_error.hpp"
#include "statistics/judgement/step_result.hpp"
#include "statistics/judgement/tail_values.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace vindex::cpu {
namespace {

constexpr int kMaxPasses = 4;

/// One matrix: its band and what is known of it.
class Tail {
 public:
  Tail(ReducedGram& gram, const statistics::StepResult& before, std::int64_t lost,
       Workspace& workspace)
      : gram_(gram),
        before_(before),
        p_(gram.short_side),
        n_(gram.n),
        lost_(lost),
        width_(carried_columns(lost, band_order(n_))),
        workspace_(workspace),
        inverse_(gram.band.span(), n_, workspace) {}

  /// Units of s^2 per unit of the band.
  double unit() const { return std::ldexp(1.0, gram_.form.exponent - 2 * change().scale_exponent); }
  const TileChange& change() const { return gram_.change; }
  std::int64_t width() const { return std::min(width_, n_); }

  /// A first basis (p x width(), column-major); nothing where the search does not settle.
  WorkArray<double> start() {
    WorkArray<double> outer(workspace_, p_ * width(), "the smallest singular vectors");
    WorkArray<double> inner(workspace_, inverse_.order() * width_, "the smallest singular vectors");
    // The chase and the solves round in float64 whatever the reduction did.
    const double least = 8.0 * kEps64 * before_.sigma.front() * before_.sigma.front();
    const double entry = std::max(before_.rounding.entry, least) / unit();
    // E with entries of size `entry` has a norm of 2 sqrt(n) entry (Wigner). A quarter of that is
    // enough: vectors of B that are better than B is known gain nothing.
    const double enough = 0.5 * entry * std::sqrt(static_cast<double>(n_));
    if (!factor(entry) || !smallest_pairs(inverse_, settled(), enough, inner, workspace_)) {
      return {};
    }
    apply_factor(gram_, false, inner.data(), width(), outer.data(), workspace_);
    return outer;
  }

  /// basis - (Q B Q^T)^-1 residual, into `basis`. Units of the residual: those of the changed
  /// weights, squared.
  void correct(WorkArray<double>& basis, WorkArray<double>& residual) {
    WorkArray<double> inner(workspace_, inverse_.order() * width(), "a correction");
    apply_factor(gram_, true, residual.data(), width(), inner.data(), workspace_);
    inverse_.solve(inner.data(), width());
    apply_factor(gram_, false, inner.data(), width(), residual.data(), workspace_);
    const double scale = std::ldexp(1.0, -gram_.form.exponent);
    for (std::int64_t i = 0; i < p_ * width(); ++i) {
      basis[i] -= scale * residual[i];
    }
  }

  /// Sets the last values and their errors from a pass over the weights; false where that
  /// contradicts what was known.
  bool take(const TailValues& tail, statistics::StepResult& found) const {
    const double to_sigma = std::ldexp(1.0, -change().scale_exponent);
    std::vector<double> sigma;
    std::vector<double> residuals;
    for (std::int64_t j = 0; j < width(); ++j) {
      sigma.push_back(to_sigma * tail.sigma[static_cast<std::size_t>(j)]);
      residuals.push_back(to_sigma * to_sigma * norm(tail.residual, p_, j));
    }
    return statistics::take_tail({.sigma = sigma, .residuals = residuals, .max_settled = settled()},
                                 lost_, before_, found);
  }

 private:
  /// Columns of the basis that are as exact as the wanted ones; the others guard them.
  std::int64_t settled() const { return lost_ + (width() - lost_) / 2; }
  static double norm(const WorkArray<double>& columns, std::int64_t rows, std::int64_t j) {
    return blas::blas().cblas_dnrm2(static_cast<int>(rows), columns.data() + j * rows, 1);
  }

  /// Rounding may leave the band with eigenvalues below 0.
  bool factor(double entry) {
    // Some times the rounding of an entry, which nearly always is more than the band is short of
    // being definite. The shift only has to be small beside the eigenvalues to be separated; a
    // larger one costs restarts and no accuracy.
    double shift = statistics::matrix_error(0, 0.0, {.entry = 3.0 * entry});
    for (int attempt = 0; attempt < 4; ++attempt, shift *= 10.0) {
      if (inverse_.factor(shift)) {
        return true;
      }
    }
    return false;
  }

  ReducedGram& gram_;
  const statistics::StepResult& before_;
  std::int64_t p_;  ///< the short side
  std::int64_t n_;  ///< of it, lines that are not zero: so many values are in `before`
  std::int64_t lost_;
  std::int64_t width_;
  Workspace& workspace_;
  BandInverse inverse_;
};

}  // namespace

std::int64_t max_tail_values(const SvdPlan& plan) {
  const std::int64_t p = plan.short_side;
  return is_reduced_by_band(p, plan.library_only) ? p / 16 : 0;
}

std::uint64_t tail_workspace_bytes(const SvdPlan& plan) {
  const std::int64_t count = max_tail_values(plan);
  if (count == 0) {
    return 0;
  }
  const std::int64_t p = plan.short_side;
  const std::int64_t order = band_order(p);
  const std::int64_t width = carried_columns(count, order);
  const std::uint64_t search =
      array_bytes(order * width, sizeof(double)) +
      std::max(smallest_pairs_bytes(count, order), apply_factor_bytes(p, width));
  const std::uint64_t passes = tail_values_bytes(plan, width) +
                               array_bytes(order * width, sizeof(double)) +
                               apply_factor_bytes(p, width);
  return BandInverse::bytes(p) + array_bytes(p * width, sizeof(double)) + std::max(search, passes);
}

statistics::StepResult by_tail(TileReader& reader, const SvdPlan& plan, ReducedGram& gram,
                               statistics::StepResult before, std::int64_t lost,
                               const statistics::StepContext& situation, Workspace& workspace,
                               MatrixReport& report) {
  // Values that are exact zeros, those of lines that are, are no part of the search.
  const std::int64_t zeros = std::exchange(before.zero_rows, 0);
  before.sigma.resize(as_size(gram.n));
  statistics::StepResult found = before;
  found.tail_errors.clear();
  Tail tail(gram, before, lost - zeros, workspace);
  WorkArray<double> basis;
  {
    const Stopwatch watch(report.seconds_eigen);
    basis = tail.start();
  }
  for (int pass = 0; pass < kMaxPasses && basis.size() > 0; ++pass) {
    TailValues values = tail_values(reader, plan, tail.change(), std::move(basis), tail.width(),
                                    workspace, report.seconds_eigen);
    const Stopwatch watch(report.seconds_eigen);
    if (values.sigma.empty()) {
      break;
    }
    if (!tail.take(values, found)) {
      break;
    }
    if (statistics::is_tail_enough(found.sigma, found.tail_errors, situation)) {
      break;
    }
    basis = std::move(values.basis);
    if (pass + 1 < kMaxPasses) {
      tail.correct(basis, values.residual);
    }
  }
  found.zero_rows = zeros;
  found.sigma.resize(found.sigma.size() + as_size(zeros), 0.0);
  if (!found.tail_errors.empty()) {
    found.tail_errors.resize(found.tail_errors.size() + as_size(zeros), 0.0);
    found.method = before.method.substr(0, before.method.rfind('+')) + "+band64+cpu";
  }
  return found;
}

}  // namespace vindex::cpu
