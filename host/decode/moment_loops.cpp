// The loops behind moment_loops.hpp, written once over the register width.
#include "moment_loops.hpp"

#include <cstring>

namespace vindex::decode {
namespace {

// Registers of Width doubles, and of as many or twice as many floats.
template <int Width>
struct Registers {
  using Doubles [[gnu::vector_size(Width * sizeof(double))]] = double;
  using Halves [[gnu::vector_size(Width * sizeof(float))]] = float;
  using Floats [[gnu::vector_size(2 * Width * sizeof(float))]] = float;
  using Ints [[gnu::vector_size(2 * Width * sizeof(std::int32_t))]] = std::int32_t;
};

template <typename To>
inline void load(To& to, const void* from) {
  std::memcpy(&to, from, sizeof to);
}

// Lanes [first, first + Width) of every sum.
template <int Width, bool Shifted>
inline void add_lanes(const float* values, std::int64_t blocks, double shift, int first,
                      TileSums& sums) {
  using R = Registers<Width>;
  typename R::Doubles power[4];
  typename R::Doubles squares;
  for (int k = 0; k < 4; ++k) {
    load(power[k], sums.power[static_cast<std::size_t>(k)].data() + first);
  }
  load(squares, sums.squares.data() + first);
  for (std::int64_t i = 0; i < blocks; ++i) {
    typename R::Halves narrow;
    load(narrow, values + i * kLanes + first);
    const typename R::Doubles w = __builtin_convertvector(narrow, typename R::Doubles);
    const typename R::Doubles d = Shifted ? w - shift : w;
    const typename R::Doubles d2 = d * d;
    if (Shifted) {
      squares += w * w;
    }
    power[0] += d;
    power[1] += d2;
    power[2] += d2 * d;
    power[3] += d2 * d2;
  }
  for (int k = 0; k < 4; ++k) {
    std::memcpy(sums.power[static_cast<std::size_t>(k)].data() + first, &power[k], sizeof power[k]);
  }
  std::memcpy(sums.squares.data() + first, &squares, sizeof squares);
}

template <int Width, bool Shifted>
inline void add_piece(const float* values, std::int64_t count, double shift, TileSums& sums) {
  const std::int64_t blocks = count / kLanes;
  for (int first = 0; first < kLanes; first += Width) {
    add_lanes<Width, Shifted>(values, blocks, shift, first, sums);
  }
  std::size_t lane = 0;
  for (std::int64_t i = blocks * kLanes; i < count; ++i, ++lane) {
    const auto w = static_cast<double>(values[i]);
    const double d = Shifted ? w - shift : w;
    const double d2 = d * d;
    if (Shifted) {
      sums.squares[lane] += w * w;
    }
    sums.power[0][lane] += d;
    sums.power[1][lane] += d2;
    sums.power[2][lane] += d2 * d;
    sums.power[3][lane] += d2 * d2;
  }
}

template <int Width>
inline void add_any(const float* values, std::int64_t count, double shift, TileSums& sums) {
  if (shift == 0.0) {
    add_piece<Width, false>(values, count, shift, sums);
  } else {
    add_piece<Width, true>(values, count, shift, sums);
  }
}

// Minimum, maximum and a count do not depend on the order, so the lanes here are free.
template <int Width>
inline void widen_any(const float* values, std::int64_t count, TileExtremes& extremes) {
  using R = Registers<Width>;
  constexpr int kFloats = 2 * Width;
  typename R::Floats low = typename R::Floats{} + extremes.min;
  typename R::Floats high = typename R::Floats{} + extremes.max;
  typename R::Ints zero_lanes{};
  std::int64_t i = 0;
  for (; i + kFloats <= count; i += kFloats) {
    typename R::Floats w;
    load(w, values + i);
    low = w < low ? w : low;
    high = w > high ? w : high;
    zero_lanes -= w == 0.0F;  // a true lane is -1
  }
  for (int lane = 0; lane < kFloats; ++lane) {
    extremes.min = low[lane] < extremes.min ? low[lane] : extremes.min;
    extremes.max = high[lane] > extremes.max ? high[lane] : extremes.max;
    extremes.zeros += zero_lanes[lane];
  }
  for (; i < count; ++i) {
    extremes.min = values[i] < extremes.min ? values[i] : extremes.min;
    extremes.max = values[i] > extremes.max ? values[i] : extremes.max;
    extremes.zeros += values[i] == 0.0F ? 1 : 0;
  }
  // Which of -0 and +0 came first depends on the lanes; a sum with +0 makes both +0.
  extremes.min += 0.0F;
  extremes.max += 0.0F;
}

// See encoding_table.cpp on `flatten` and fused multiply-add.
[[gnu::flatten]] void add_baseline(const float* v, std::int64_t n, double shift, TileSums& sums) {
  add_any<2>(v, n, shift, sums);
}
[[gnu::flatten]] void widen_baseline(const float* v, std::int64_t n, TileExtremes& extremes) {
  widen_any<2>(v, n, extremes);
}
[[gnu::flatten, gnu::target("avx2")]] void add_avx2(const float* v, std::int64_t n, double shift,
                                                    TileSums& sums) {
  add_any<4>(v, n, shift, sums);
}
[[gnu::flatten, gnu::target("avx2")]] void widen_avx2(const float* v, std::int64_t n,
                                                      TileExtremes& extremes) {
  widen_any<4>(v, n, extremes);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void add_avx512(
    const float* v, std::int64_t n, double shift, TileSums& sums) {
  add_any<8>(v, n, shift, sums);
}
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void widen_avx512(
    const float* v, std::int64_t n, TileExtremes& extremes) {
  widen_any<8>(v, n, extremes);
}

constexpr std::array<MomentLoops, static_cast<std::size_t>(SimdLevel::kCount)> kLoops{
    {{add_baseline, widen_baseline}, {add_avx2, widen_avx2}, {add_avx512, widen_avx512}}};

}  // namespace

const MomentLoops& moment_loops(SimdLevel level) { return kLoops[static_cast<std::size_t>(level)]; }

}  // namespace vindex::decode
