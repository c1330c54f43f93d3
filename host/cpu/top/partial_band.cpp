// Owns when a reduction that may end early is looked at, and the arithmetic of a look. A look in
// earnest costs a Cholesky factor of C, so one comes first that guesses: it takes the mean of the
// last diagonal block for C, next to which E lies. Convergence gains on itself, so that a rate seen
// once overestimates how far it is, and half of the way is gone before the next look.
#include "partial_band.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/integers.hpp"
#include "cpu/band/simd_band_chase.hpp"
#include "cpu/tridiagonal/simd_bisection.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace vindex::cpu {
namespace {

constexpr std::int64_t kFirstLook = 3 * statistics::kFastValues;
/// Of the order: behind that, what is left of the reduction costs less than the looks that save it
/// (noise of 768 x 2048 wants half of the columns, and took longer than a whole reduction).
constexpr double kLastLook = 0.52;
/// Share of the promise that the bounds may take, and at which the guess says that they will.
constexpr double kAim = 0.9;
constexpr double kPromising = 0.5;
constexpr double kTolerance = 1e-5;
/// By which the logarithm of the excess falls with a column, before anything is known: with the
/// spectra of trained weights, and with the dense edge of noise.
constexpr double kFirstRate = 0.1;
constexpr double kSlowRate = 0.03;
constexpr double kLeastRate = 0.005;
constexpr int kMaxFailures = 3;

using Corner = std::array<double, kBand * kBand>;

/// R, the one block of E that is not zero: element (i, j) below the last kBand columns.
double coupling(std::span<const double> band, std::int64_t columns, std::int64_t i,
                std::int64_t j) {
  return i <= j ? band[static_cast<std::size_t>((columns - kBand + j) * kBandStride + columns + i)]
                : 0.0;
}

/// factor |X|^2 of X (rows x kBand, column-major).
template <typename Value>
Corner square_of(std::int64_t rows, const Value& value, double factor) {
  Corner corner{};
  for (std::int64_t a = 0; a < kBand; ++a) {
    for (std::int64_t b = 0; b <= a; ++b) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < rows; ++i) {
        sum += value(i, a) * value(i, b);
      }
      corner[static_cast<std::size_t>(a * kBand + b)] = factor * sum;
    }
  }
  return corner;
}

double mean_of_last_block(std::span<const double> band, std::int64_t columns) {
  double sum = 0.0;
  for (std::int64_t j = columns - kBand; j < columns; ++j) {
    sum += band[static_cast<std::size_t>(j * kBandStride + j)];
  }
  return sum / static_cast<double>(kBand);
}

std::int64_t whole_panels(double columns) {
  return ceil_divide(static_cast<std::int64_t>(columns), kBand) * kBand;
}

}  // namespace

bool may_end_early(std::int64_t order) {
  return kLastLook * static_cast<double>(order) >= static_cast<double>(kFirstLook);
}

TopProbe::TopProbe(TopRequest request, Workspace& workspace)
    : request_(std::move(request)),
      workspace_(workspace),
      next_look_(kFirstLook),
      last_look_(static_cast<std::int64_t>(kLastLook * static_cast<double>(request_.order))) {}

void TopProbe::begin(int exponent) { unit_ = std::ldexp(1.0, exponent); }

std::vector<double> TopProbe::top_of(std::span<const double> band, std::int64_t columns,
                                     std::span<const double> corner) {
  WorkArray<double> copy(workspace_, band_elements(columns), "a part of the band");
  WorkArray<double> diagonals(workspace_, 3 * columns, "its tridiagonal form");
  std::fill_n(copy.data(), copy.size(), 0.0);
  for (std::int64_t j = 0; j < columns; ++j) {
    const std::int64_t length = std::min(kBand + 1, columns - j);
    std::copy_n(band.data() + j * kBandStride + j, length, copy.data() + j * kBandStride + j);
  }
  if (!corner.empty()) {
    const std::int64_t first = columns - kBand;
    for (std::int64_t i = 0; i < kBand; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        copy[(first + j) * kBandStride + first + i] +=
            corner[static_cast<std::size_t>(i * kBand + j)];
      }
    }
  }
  const std::span<double> all = diagonals.span();
  const auto count = static_cast<std::size_t>(columns);
  const std::span<double> values = all.subspan(2 * count, count);
  chase_band(copy.span(), columns, all.first(count), all.subspan(count, count), best_simd_level(),
             workspace_.stop());
  tridiagonal_eigenvalues(all.first(count), all.subspan(count, count), values, best_simd_level(),
                          workspace_.stop());
  if (corner.empty()) {
    band_trace_ = band_norm_squared_ = 0.0;
    for (const double value : values) {
      band_trace_ += unit_ * value;
      band_norm_squared_ += unit_ * value * (unit_ * value);
    }
  }
  std::vector<double> top(values.rbegin(), values.rbegin() + statistics::kFastValues);
  for (double& value : top) {
    value *= unit_;
  }
  return top;
}

void TopProbe::set_passes(std::span<const double> band, std::int64_t columns) {
  // As passes_norm_squared_of() of the whole band, from what lies behind the last column that is
  // final; and the pass that turned to the first block.
  std::vector<double> blocks;
  double seen = 0.0;
  for (std::int64_t j = 0; j < columns; ++j) {
    if (j % kBand == 0) {
      blocks.push_back(0.0);
    }
    const double* const column = band.data() + j * kBandStride + j;
    double below = 0.0;
    for (std::int64_t i = 1; i <= kBand; ++i) {
      below += column[i] * column[i];
    }
    blocks.back() += column[0] * column[0] + 2.0 * below;
  }
  for (double& block : blocks) {
    block *= unit_ * unit_;
    seen += block;
  }
  double behind = std::max(0.0, request_.norm_squared - seen);
  passes_ = request_.norm_squared;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    behind += *block;
    passes_ += behind;
  }
}

void TopProbe::end(std::span<const double> band) { set_passes(band, request_.order); }

double TopProbe::excess() const {
  double width = 0.0;
  double rounding = errors_.once;
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    width += upper_[i] - lower_[i];
    rounding += errors_.each[i];
  }
  const double first = upper_.front() - lower_.front();
  const double room = kAim * kTolerance * request_.sum_squares - 2.0 * rounding;
  const double first_room =
      kAim * kTolerance * lower_.front() - 2.0 * (errors_.each.front() + errors_.once);
  if (!(room > 0.0) || !(first_room > 0.0)) {
    return HUGE_VAL;
  }
  return std::max(width / room, first / first_room);
}

void TopProbe::plan_next_look(std::int64_t columns, double excess) {
  const double distance = std::log(std::max(excess, 1e-300) / (0.8 * kPromising));
  double rate = kFirstRate;
  double slow_rate = kSlowRate;
  if (looked_at_ > 0) {
    rate = std::max(kLeastRate,
                    std::log(excess_there_ / excess) / static_cast<double>(columns - looked_at_));
    slow_rate = rate;
  }
  if (static_cast<double>(columns) + distance / slow_rate > static_cast<double>(last_look_)) {
    last_look_ = 0;
    return;
  }
  looked_at_ = columns;
  excess_there_ = excess;
  const double share = distance > 2.0 ? 0.5 : 0.9;
  const double step = std::clamp(share * distance / rate, 1.0, static_cast<double>(columns));
  next_look_ = columns + whole_panels(step);
}

bool TopProbe::wants_rest(std::span<const double> band, std::int64_t columns) {
  if (columns < next_look_ || columns > last_look_) {
    return false;
  }
  lower_ = top_of(band, columns, {});
  const double least = lower_.back();
  set_passes(band, columns);
  errors_ = request_.errors(passes_, lower_);
  if (!(least > 0.0)) {
    next_look_ = columns + kBand;
    return false;
  }
  const double inner = std::clamp(mean_of_last_block(band, columns) * unit_, 0.0, 0.9 * least);
  const Corner corner = square_of(
      kBand, [&](std::int64_t i, std::int64_t j) { return coupling(band, columns, i, j); },
      unit_ / (least - inner));
  upper_ = top_of(band, columns, corner);
  const double guess = excess();
  if (std::isinf(guess)) {
    last_look_ = 0;  // rounding alone takes what the bounds may be apart
    return false;
  }
  plan_next_look(columns, guess);
  return guess <= kPromising;
}

void TopProbe::add_rest(std::span<const double> band, std::int64_t columns, std::int64_t order) {
  rest_trace_ = rest_norm_squared_ = 0.0;
  for (std::int64_t j = 0; j < kBand; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const double value = unit_ * coupling(band, columns, i, j);
      rest_norm_squared_ += 2.0 * value * value;
    }
  }
  for (std::int64_t i = 0; i < order; ++i) {
    const float* const row = request_.room + i * order;
    const double diagonal = unit_ * static_cast<double>(row[i]);
    double left = 0.0;
    for (std::int64_t j = 0; j < i; ++j) {
      const double value = unit_ * static_cast<double>(row[j]);
      left += value * value;
    }
    rest_trace_ += diagonal;
    rest_norm_squared_ += diagonal * diagonal + 2.0 * left;
  }
}

float* TopProbe::room_for_rest(std::int64_t order) {
  expects(order <= request_.order, "room for what is left");
  return request_.room;
}

bool TopProbe::is_enough(std::span<const double> band, std::int64_t columns, std::int64_t order) {
  next_look_ = columns + 2 * kBand;
  add_rest(band, columns, order);
  const double limit = lower_.back() / unit_;
  float* const rest = request_.room;
  for (std::int64_t i = 0; i < order; ++i) {
    float* const row = rest + i * order;
    const double diagonal = limit - static_cast<double>(row[i]);
    for (std::int64_t j = 0; j < i; ++j) {
      row[j] = -row[j];
    }
    row[i] = static_cast<float>(diagonal);
  }
  if (!blas::steps::potrf(order, {rest, order}, workspace_.stop())) {
    if (++failures_ == kMaxFailures) {
      last_look_ = 0;
    }
    return false;
  }
  WorkArray<float> turned(workspace_, order * kBand, "the coupling of a part of the band");
  std::fill_n(turned.data(), turned.size(), 0.0F);
  for (std::int64_t j = 0; j < kBand; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      turned[j * order + i] = static_cast<float>(coupling(band, columns, i, j));
    }
  }
  blas::blas().cblas_strsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit,
                           as_int(order), as_int(kBand), 1.0F, rest, as_int(order), turned.data(),
                           as_int(order));
  const Corner corner = square_of(
      order,
      [&](std::int64_t i, std::int64_t j) { return static_cast<double>(turned[j * order + i]); },
      1.0);
  upper_ = top_of(band, columns, corner);
  const double found = excess();
  if (found <= 1.0) {
    return true;
  }
  plan_next_look(columns, found);
  return false;
}

}  // namespace vindex::cpu
