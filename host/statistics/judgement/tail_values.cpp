// What becomes of values found on a subspace. With r the residual of s^2 and gap the distance
// from s^2 to the smallest eigenvalue that the settled part of the basis leaves out, less what that
// is known to:
//
//   error of s^2 = min(|r|, 2 |r|^2 / gap) + rounding of the pass      (Kato; Temple)
//   error of s   = that by root_error(), plus p eps64 s_1
//
// A value counts as settled where its square is within what the Gram's spectrum is known to of the
// value in its place. If fewer are settled than were lost, the search found other vectors, and
// nothing is taken.
#include "tail_values.hpp"

#include "spectrum_error.hpp"

#include "core/constants.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace vindex::statistics {

double gram64_square_error(std::span<const double> sigma) {
  return 50.0 * static_cast<double>(sigma.size()) * kEps64 * sigma.front() * sigma.front();
}

bool is_tail_of(std::span<const double> tail, std::span<const double> sigma, double allowed) {
  if (tail.empty() || tail.size() > sigma.size()) {
    return false;
  }
  const std::span<const double> from_gram = sigma.last(tail.size());
  for (std::size_t i = 0; i < tail.size(); ++i) {
    if (!(std::abs(tail[i] * tail[i] - from_gram[i] * from_gram[i]) <= allowed)) {
      return false;
    }
  }
  if (sigma.size() == tail.size()) {
    return true;
  }
  const double above = sigma[sigma.size() - tail.size() - 1];
  return tail.front() * tail.front() <= above * above + allowed;
}

namespace {

/// How many of the smallest values of the basis are those of `before`, squares within `allowed`.
std::int64_t settled_values(const TailBasis& basis, const StepResult& before, double allowed) {
  std::int64_t settled = 0;
  auto known = before.sigma.rbegin();
  for (auto own = basis.sigma.rbegin(); own != basis.sigma.rend() && settled < basis.max_settled;
       ++own, ++known, ++settled) {
    if (!(std::abs(*own * *own - *known * *known) <= allowed)) {
      break;
    }
  }
  return settled;
}

}  // namespace

bool take_tail(const TailBasis& basis, std::int64_t lost, const StepResult& before,
               StepResult& found) {
  const auto p = static_cast<std::int64_t>(before.sigma.size());
  const double largest = before.sigma.front();
  const double square_error = matrix_error(p, largest,
                                           {.entry = before.rounding.entry,
                                            .lone = before.rounding.lone,
                                            .blocks = before.rounding.blocks});
  found.sigma = before.sigma;
  found.tail_errors.clear();
  // Twice what the Gram's values are known to: it and a first pass may lie on either side.
  const std::int64_t settled = settled_values(basis, before, 2.0 * square_error);
  if (settled < lost) {
    return false;
  }
  // The smallest eigenvalue that the settled part of the basis leaves out, less what it is known
  // to.
  const double next = settled < p ? before.sigma[static_cast<std::size_t>(p - settled - 1)]
                                  : std::numeric_limits<double>::infinity();
  const double beyond = next * next - square_error;
  const double floor = static_cast<double>(p) * kEps64 * largest;
  std::vector<std::pair<double, double>> values;  // value, error
  for (std::size_t j = basis.sigma.size() - static_cast<std::size_t>(lost); j < basis.sigma.size();
       ++j) {
    const double value = basis.sigma[j];
    const double residual = basis.residuals[j];
    const double gap = beyond - value * value;
    const double by_gap = gap > 0.0 ? 2.0 * residual * residual / gap : residual;
    const double rounding = basis.square_errors.empty() ? 0.0 : basis.square_errors[j];
    const double error = std::min(residual, by_gap) + rounding;
    values.emplace_back(value, floor + root_error(value, error));
  }
  const std::size_t first = found.sigma.size() - values.size();
  // A value that comes out above the one before it changes places with it.
  const double crossing =
      first > 0 ? std::max(values.front().first - before.sigma[first - 1], 0.0) : 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    found.sigma[first + i] = values[i].first;
    found.tail_errors.push_back(values[i].second + crossing);
  }
  std::sort(found.sigma.begin(), found.sigma.end(), std::greater<>());
  return true;
}

}  // namespace vindex::statistics
