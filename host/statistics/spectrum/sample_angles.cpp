// Owns what is read off a sorted sample x_1 <= ... <= x_n: entropy of its histogram, excess
// kurtosis n sum d^4 / (sum d^2)^2 - 3, scatter of its spacings, and the correlation with normal
// quantiles at Filliben's positions (Technometrics 17, 1975):
//
//   position_i = (i - 0.3175) / (n + 0.365), of the first 1 - 0.5^(1/n), of the last 0.5^(1/n)
//   theta_qq   = arccos( sum q_i x_i / sqrt(sum q_i^2 sum (x_i - mean)^2) ),   q_i the quantiles
//
// Everything after the sort is linear, so the sort decides the cost: values are 32-bit keys, sorted
// digit by digit in linear time, or counted where they are bfloat16.
#include "sample_angles.hpp"

#include "core/constants.hpp"
#include "statistics/samples/quantile.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>

namespace vindex::statistics {

namespace {

double entropy_of(std::span<const float> sorted) {
  const double low = sorted.front();
  const double width = static_cast<double>(sorted.back()) - low;
  const auto count = static_cast<double>(sorted.size());
  double entropy = 0.0;
  auto from = sorted.begin();
  for (std::int32_t bin = 1; bin <= kSeedBins; ++bin) {
    const double edge = low + width * bin / kSeedBins;
    // A value on an edge is of the bin above; the last bin takes both of its ends.
    const auto to = bin == kSeedBins ? sorted.end()
                                     : std::partition_point(from, sorted.end(), [&](float value) {
                                         return static_cast<double>(value) < edge;
                                       });
    if (to != from) {
      const double share = static_cast<double>(to - from) / count;
      entropy -= share * std::log2(share);
    }
    from = to;
  }
  return std::max(0.0, entropy / std::log2(static_cast<double>(kSeedBins)));
}

/// Central sums about the mean.
struct Shape {
  double mean = 0.0, m2 = 0.0, m4 = 0.0;
};

/// Sum of term(0) ... term(count - 1) over fixed lanes, so that it does not wait for each addition.
template <typename Term>
double sum_of_terms(std::size_t count, Term term) {
  constexpr std::size_t kAngleLanes = 8;
  std::array<double, kAngleLanes> sums = {};
  std::size_t i = 0;
  for (; i + kAngleLanes <= count; i += kAngleLanes) {
    for (std::size_t lane = 0; lane < kAngleLanes; ++lane) {
      sums[lane] += term(i + lane);
    }
  }
  double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (; i < count; ++i) {
    sum += term(i);
  }
  return sum;
}

Shape sample_shape(std::span<const float> values) {
  Shape shape;
  shape.mean = sum_of_terms(values.size(), [&](std::size_t i) { return double{values[i]}; }) /
               static_cast<double>(values.size());
  const auto square = [&](std::size_t i) {
    const double off = values[i] - shape.mean;
    return off * off;
  };
  shape.m2 = sum_of_terms(values.size(), square);
  shape.m4 = sum_of_terms(values.size(), [&](std::size_t i) { return square(i) * square(i); });
  return shape;
}

double spacing_cv_of(std::span<const float> sorted) {
  const std::size_t gaps = sorted.size() - 1;
  const double mean =
      (static_cast<double>(sorted.back()) - sorted.front()) / static_cast<double>(gaps);
  const double squares = sum_of_terms(gaps, [&](std::size_t i) {
    const double off = static_cast<double>(sorted[i + 1]) - sorted[i] - mean;
    return off * off;
  });
  return std::sqrt(squares / static_cast<double>(gaps)) / mean;
}

double theta_qq_of(std::span<const float> sorted, const Shape& shape) {
  const std::size_t count = sorted.size();
  const auto n = static_cast<double>(count);
  double cross = 0.0;
  double squares = 0.0;
  // Positions are symmetric about 1/2, so that the quantiles have mean 0.
  for (std::size_t i = 0; i < count / 2; ++i) {
    const double position = i == 0 ? 1.0 - std::pow(0.5, 1.0 / n)
                                   : (static_cast<double>(i) + 1.0 - 0.3175) / (n + 0.365);
    const double quantile = normal_quantile(position);
    cross += quantile * (static_cast<double>(sorted[i]) - sorted[count - 1 - i]);
    squares += 2.0 * quantile * quantile;
  }
  return kDegreesPerRadian *
         std::acos(std::clamp(cross / std::sqrt(squares * shape.m2), -1.0, 1.0));
}

/// Keys of 32 bits in the order of the values, and back.
std::uint32_t key_of(std::uint32_t bits) { return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U; }

float value_of_key(std::uint32_t key) {
  return std::bit_cast<float>((key >> 31U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// Of values that bfloat16 holds: counted, since there are few different ones.
void sort_bfloat16(std::vector<float>& values) {
  std::vector<std::uint32_t> counts(std::size_t{1} << 16U);
  for (const float value : values) {
    ++counts[key_of(std::bit_cast<std::uint32_t>(value)) >> 16U];
  }
  auto next = values.begin();
  for (std::uint32_t key = 0; key < counts.size(); ++key) {
    // The low half of a key is that of the value, or its complement below zero.
    const std::uint32_t low = (key >> 15U) != 0 ? 0U : 0xFFFFU;
    next = std::fill_n(next, counts[key], value_of_key(key << 16U | low));
  }
}

}  // namespace

std::int64_t sample_stride(std::int64_t count) {
  return std::max<std::int64_t>(1, count / kMaxSampled);
}

std::int64_t sample_size(std::int64_t count) { return std::min(count, kMaxSampled); }

double theta_seed_of(double entropy, double kurtosis, double spacing_cv) {
  return 90.0 * (kEntropyWeight * (1.0 - entropy) +
                 kKurtosisWeight * (1.0 - std::exp(-std::abs(kurtosis) / 3.0)) +
                 kSpacingWeight * (1.0 - 1.0 / std::max(spacing_cv, 1.0)));
}

SampleAngles sample_angles(std::vector<float>& sample, bool with_qq) {
  SampleAngles out;
  out.count = static_cast<std::int64_t>(sample.size());
  if (out.count < kMinSampled || !std::all_of(sample.begin(), sample.end(),
                                              [](float value) { return std::isfinite(value); })) {
    return out;
  }
  sort_values(sample);
  if (sample.front() == sample.back()) {
    out.is_constant = true;
    out.theta_seed = 0.0;
    return out;
  }
  const Shape shape = sample_shape(sample);
  out.entropy = entropy_of(sample);
  out.kurtosis = static_cast<double>(out.count) * shape.m4 / (shape.m2 * shape.m2) - 3.0;
  out.spacing_cv = spacing_cv_of(sample);
  out.theta_seed = theta_seed_of(out.entropy, out.kurtosis, out.spacing_cv);
  if (with_qq) {
    out.theta_qq = theta_qq_of(sample, shape);
  }
  return out;
}

void sort_values(std::vector<float>& values) {
  constexpr std::size_t kShort = 512;
  if (values.size() < kShort) {
    std::sort(values.begin(), values.end());
    return;
  }
  std::uint32_t used = 0;
  for (const float value : values) {
    used |= std::bit_cast<std::uint32_t>(value);
  }
  if ((used & 0xFFFFU) == 0) {
    sort_bfloat16(values);
    return;
  }
  // By 11, 11 and 10 bits of keys whose order is that of the values.
  constexpr std::array<unsigned, 3> kShifts = {0, 11, 22};
  constexpr std::uint32_t kDigit = (1U << 11U) - 1U;
  // Kept by the thread: fresh pages cost more than the passes over them.
  thread_local std::vector<std::uint32_t> keys, sorted;
  keys.resize(values.size());
  sorted.resize(values.size());
  std::array<std::array<std::uint32_t, kDigit + 1>, kShifts.size()> counts = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    keys[i] = key_of(bits);
    for (std::size_t pass = 0; pass < kShifts.size(); ++pass) {
      ++counts[pass][keys[i] >> kShifts[pass] & kDigit];
    }
  }
  for (std::size_t pass = 0; pass < kShifts.size(); ++pass) {
    if ((used >> kShifts[pass] & kDigit) == 0) {
      continue;  // binary16 has no low bits: there this digit only tells the sign again
    }
    std::uint32_t before = 0;
    for (std::uint32_t& count : counts[pass]) {
      const std::uint32_t here = count;
      count = before;
      before += here;
    }
    for (const std::uint32_t key : keys) {
      sorted[counts[pass][key >> kShifts[pass] & kDigit]++] = key;
    }
    keys.swap(sorted);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = value_of_key(keys[i]);
  }
}

// The means of theta_seed and theta_qq over samples of independent normal numbers: draws by
// this code, 400 (the largest samples) to 40,000 for each size.
//
// Why a table: neither has a formula at small counts, where the least and the greatest value of the
// sample decide, and both change so slowly with the count that 23 rows and a line between them do.

namespace {

struct DrawnSample {
  std::int64_t count = 0;
  double seed = 0.0, qq = 0.0;
};

constexpr std::array<DrawnSample, 23> kDrawn = {
    {{4, 35.119, 16.7938},    {5, 31.907, 16.8695},    {6, 30.157, 16.5650},
     {8, 28.295, 15.5627},    {11, 26.134, 14.2518},   {16, 23.888, 12.7105},
     {23, 22.047, 11.1868},   {32, 20.624, 9.8731},    {45, 19.437, 8.6648},
     {64, 18.473, 7.5230},    {90, 17.774, 6.5458},    {128, 17.182, 5.6319},
     {181, 16.733, 4.8499},   {256, 16.525, 4.1809},   {512, 16.568, 3.0786},
     {1024, 17.035, 2.2562},  {2048, 17.685, 1.6398},  {4096, 18.387, 1.1895},
     {8192, 19.036, 0.8748},  {16384, 19.633, 0.6320}, {32768, 20.132, 0.4424},
     {65536, 20.607, 0.3205}, {100000, 20.753, 0.2534}}};

/// Linear in ln(count); beyond the largest as there.
template <typename Value>
double between(std::int64_t count, Value value) {
  expects(count >= kMinSampled, "a null of at least four values");
  const auto above = std::upper_bound(
      kDrawn.begin() + 1, kDrawn.end() - 1, count,
      [](std::int64_t wanted, const DrawnSample& row) { return wanted < row.count; });
  const DrawnSample& low = *(above - 1);
  const double from = std::log(static_cast<double>(low.count));
  const double width = std::log(static_cast<double>(above->count)) - from;
  const double at = std::min(1.0, (std::log(static_cast<double>(count)) - from) / width);
  return value(low) + at * (value(*above) - value(low));
}

}  // namespace

double theta_seed_null(std::int64_t count) {
  return between(count, [](const DrawnSample& row) { return row.seed; });
}

double theta_qq_null(std::int64_t count) {
  // It falls about as a power of the count.
  return std::exp(between(count, [](const DrawnSample& row) { return std::log(row.qq); }));
}

}  // namespace vindex::statistics
