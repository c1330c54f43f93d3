// Owns the loops over a block, for registers of two, four and eight float64.
#include "haar_block.hpp"

#include <vindex/error.hpp>

#include <cmath>
#include <cstring>
#include <limits>

namespace vindex::statistics {

namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kStretch = static_cast<std::size_t>(kHaarBlock) / kLanes;
constexpr std::size_t kLaneLevels = 7;  // 2^7 weights a lane

using LaneSums = std::array<double, kLanes>;

struct Lanes {
  std::array<LaneSums, kLaneLevels> squares, magnitudes, products;
  LaneSums sum, difference;
};

template <std::size_t Width>
struct HaarRegisters {
  using Doubles [[gnu::vector_size(Width * sizeof(double))]] = double;
  using Floats [[gnu::vector_size(Width * sizeof(float))]] = float;
  using Ints [[gnu::vector_size(Width * sizeof(std::int64_t))]] = std::int64_t;
};

/// Sums and differences of level j in one register each.
template <std::size_t Width>
struct LevelSums {
  using Doubles = typename HaarRegisters<Width>::Doubles;
  Doubles squares = {}, magnitudes = {}, products = {};

  /// The pair (a, b) whose halves have differences of sum `below`; replaces it by sum, difference.
  [[gnu::always_inline]] void add(Doubles a, Doubles b, Doubles below, Doubles& sum,
                                  Doubles& difference) {
    using Ints = typename HaarRegisters<Width>::Ints;
    sum = a + b;
    difference = (Doubles)((Ints)(a - b) & std::numeric_limits<std::int64_t>::max());
    squares += difference * difference;
    magnitudes += difference;
    products += difference * below;
  }
};

/// Lanes [first, first + Width) of all levels. `transposed`: weight k of lane l at k kLanes + l.
template <std::size_t Width>
[[gnu::always_inline]] inline void add_lanes(const float* transposed, std::size_t first,
                                             Lanes& lanes) {
  using Doubles = typename HaarRegisters<Width>::Doubles;
  using Floats = typename HaarRegisters<Width>::Floats;
  constexpr std::size_t kStep = 8;  // three levels at a time in registers
  std::array<Doubles, kStretch / kStep> sums;
  std::array<Doubles, kStretch / kStep> differences;
  const auto put = [&](const Doubles& value, LaneSums& to) {
    std::memcpy(to.data() + first, &value, sizeof value);
  };
  LevelSums<Width> one;
  LevelSums<Width> two;
  LevelSums<Width> three;
  const Doubles none = {};
  for (std::size_t step = 0; step < sums.size(); ++step) {
    Doubles s[kStep];
    Doubles d[kStep];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kStep; ++k) {
      Floats narrow;
      std::memcpy(&narrow, transposed + (step * kStep + k) * kLanes + first, sizeof narrow);
      s[k] = __builtin_convertvector(narrow, Doubles);
    }
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kStep / 2; ++k) {
      one.add(s[2 * k], s[2 * k + 1], none, s[k], d[k]);
    }
#pragma GCC unroll 2
    for (std::size_t k = 0; k < kStep / 4; ++k) {
      two.add(s[2 * k], s[2 * k + 1], d[2 * k] + d[2 * k + 1], s[k], d[k]);
    }
    three.add(s[0], s[1], d[0] + d[1], sums[step], differences[step]);
  }
  std::size_t level = 0;
  for (const LevelSums<Width>* done : {&one, &two, &three}) {
    put(done->squares, lanes.squares[level]);
    put(done->magnitudes, lanes.magnitudes[level]);
    put(done->products, lanes.products[level]);
    ++level;
  }
  for (std::size_t pairs = sums.size() / 2; pairs > 0; pairs /= 2, ++level) {
    LevelSums<Width> next;
    for (std::size_t k = 0; k < pairs; ++k) {
      next.add(sums[2 * k], sums[2 * k + 1], differences[2 * k] + differences[2 * k + 1], sums[k],
               differences[k]);
    }
    put(next.squares, lanes.squares[level]);
    put(next.magnitudes, lanes.magnitudes[level]);
    put(next.products, lanes.products[level]);
  }
  put(sums[0], lanes.sum);
  put(differences[0], lanes.difference);
}

double lane_sum(const LaneSums& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// One level of `count` sums, in place: pairs that are whole, what remains is dropped.
void add_level(std::span<double> sums, std::span<double> differences, std::size_t level,
               HaarBlock& out) {
  for (std::size_t k = 0; k < sums.size() / 2; ++k) {
    const double sum = sums[2 * k] + sums[2 * k + 1];
    const double difference = std::abs(sums[2 * k] - sums[2 * k + 1]);
    out.squares[level] += difference * difference;
    out.magnitudes[level] += difference;
    if (level > 0) {
      out.products[level - 1] += difference * (differences[2 * k] + differences[2 * k + 1]);
    }
    sums[k] = sum;
    differences[k] = difference;
  }
}

template <std::size_t Width>
[[gnu::always_inline]] inline void add_block(const float* weights, HaarBlock& out) {
  alignas(64) std::array<float, static_cast<std::size_t>(kHaarBlock)> transposed;
  for (std::size_t k = 0; k < kStretch; k += 8) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t i = 0; i < 8; ++i) {
        transposed[(k + i) * kLanes + lane] = weights[lane * kStretch + k + i];
      }
    }
  }
  Lanes lanes;
  for (std::size_t first = 0; first < kLanes; first += Width) {
    add_lanes<Width>(transposed.data(), first, lanes);
  }
  for (std::size_t level = 0; level < kLaneLevels; ++level) {
    out.squares[level] = lane_sum(lanes.squares[level]);
    out.magnitudes[level] = lane_sum(lanes.magnitudes[level]);
    if (level > 0) {
      out.products[level - 1] = lane_sum(lanes.products[level]);
    }
  }
  std::size_t level = kLaneLevels;
  for (std::size_t count = kLanes; count > 1; count /= 2, ++level) {
    add_level(std::span(lanes.sum).first(count), std::span(lanes.difference).first(count), level,
              out);
  }
  out.sum = lanes.sum[0];
  out.difference = lanes.difference[0];
}

[[gnu::flatten]] void block_baseline(const float* weights, HaarBlock& out) {
  add_block<2>(weights, out);
}
[[gnu::flatten, gnu::target("avx2")]] void block_avx2(const float* weights, HaarBlock& out) {
  add_block<4>(weights, out);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void block_avx512(
    const float* weights, HaarBlock& out) {
  add_block<8>(weights, out);
}

using BlockLoop = void (*)(const float*, HaarBlock&);
constexpr std::array<BlockLoop, static_cast<std::size_t>(decode::SimdLevel::kCount)> kBlockLoops = {
    block_baseline, block_avx2, block_avx512};

}  // namespace

HaarBlock haar_block_at(decode::SimdLevel level, const float* weights) {
  expects(decode::is_supported(level), "a level that this processor has");
  HaarBlock out;
  kBlockLoops[static_cast<std::size_t>(level)](weights, out);
  return out;
}

HaarBlock haar_block(const float* weights) {
  static const BlockLoop best = kBlockLoops[static_cast<std::size_t>(decode::best_simd_level())];
  HaarBlock out;
  best(weights, out);
  return out;
}

HaarRest haar_rest(std::span<const float> weights) {
  expects(weights.size() < static_cast<std::size_t>(kHaarBlock), "less than a block");
  HaarRest out;
  std::array<double, static_cast<std::size_t>(kHaarBlock)> sums;
  std::array<double, static_cast<std::size_t>(kHaarBlock)> differences = {};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sums[i] = static_cast<double>(weights[i]);
  }
  std::size_t count = weights.size();
  for (std::size_t level = 0; count > 1; ++level) {
    add_level(std::span(sums).first(count), std::span(differences).first(count), level, out);
    count /= 2;
    out.unpaired[level] = count % 2 == 1 ? differences[count - 1] : 0.0;
  }
  return out;
}

}  // namespace vindex::statistics
