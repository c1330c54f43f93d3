// Warp-wide products and loads, element by element as the PTX ISA lays out their fragments, with
// the arithmetic of Hopper's tensor cores. Source of the arithmetic: arXiv 2511.10909 (MMA-Sim):
// products are exact; all terms of a step and the accumulator are cut, not rounded, to 25
// fractional bits of the largest exponent among them, added as integers, and the sum is cut to
// float32.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <emulated/narrow_float.hpp>
#include <intrinsics.hpp>

namespace vindex::emulated {

namespace {

constexpr int kFractionBits = 25;
constexpr int kLanes = 32;

std::atomic<Accumulation> accumulation{Accumulation::kTruncating};

/// An operand: value = significand * 2^exponent with the significand in [1, 2). Exponents of zero
/// and of what is not finite are so far out that they decide any maximum of sums they are in.
struct Operand {
  double value = 0.0;
  int exponent = 0;
};

constexpr int kZeroExponent = -100000;
constexpr int kNotFiniteExponent = 1000000;
constexpr int kOrdinaryExponents = 50000;  ///< sums of ordinary exponents are smaller in magnitude

Operand operand_of(double value) {
  // No operand is a subnormal double: they come from narrower types.
  const auto field = static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52U & 0x7FFU);
  const int special = field == 0 ? kZeroExponent : kNotFiniteExponent;
  return {value, field == 0 || field == 0x7FF ? special : field - 1023};
}

/// 2^exponent, for exponents of normal doubles.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52U);
}

Operand half_operand(std::uint32_t bits) {
  const std::uint32_t field = bits >> 10U & 31U;
  if (field == 0 || field == 31) {
    return operand_of(static_cast<double>(half_value(static_cast<unsigned short>(bits))));
  }
  const std::uint64_t wide = std::uint64_t{bits & 0x8000U} << 48U |
                             std::uint64_t{field + 1008} << 52U |
                             std::uint64_t{bits & 1023U} << 42U;
  return {std::bit_cast<double>(wide), static_cast<int>(field) - 15};
}

Operand bfloat_operand(std::uint32_t bits) {
  return operand_of(static_cast<double>(std::bit_cast<float>((bits & 0xFFFFU) << 16U)));
}

double tf32_value(std::uint32_t bits) {
  return static_cast<double>(std::bit_cast<float>(bits & 0xFFFFE000U));
}

/// `value` as float32, excess bits cut off.
float cut_to_float(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isfinite(value) && std::abs(static_cast<double>(rounded)) > std::abs(value)) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) - 1);  // the next towards 0
  }
  return rounded;
}

/// A line of operands, apart by member so that loops over it are vectorised.
template <int kCount>
struct Line {
  double value[kCount];
  int exponent[kCount];

  void set(int k, const Operand& one) {
    value[k] = one.value;
    exponent[k] = one.exponent;
  }
};

/// c + sum of a[k] b[k].
template <int kCount>
float add_products(float c, const Line<kCount>& a, const Line<kCount>& b) {
  const Operand start = operand_of(static_cast<double>(c));
  int largest = start.exponent;
  for (int k = 0; k < kCount; ++k) {
    largest = std::max(largest, a.exponent[k] + b.exponent[k]);
  }
  if (largest > kOrdinaryExponents || accumulation == Accumulation::kExact) {
    auto sum = static_cast<long double>(c);
    for (int k = 0; k < kCount; ++k) {
      sum += static_cast<long double>(a.value[k]) * static_cast<long double>(b.value[k]);
    }
    return static_cast<float>(sum);
  }
  if (largest < -kOrdinaryExponents) {
    return 0.0F;
  }
  const double scale = power_of_two(kFractionBits - largest);
  auto sum = static_cast<std::int64_t>(start.value * scale);
  for (int k = 0; k < kCount; ++k) {  // below 2^27
    sum += static_cast<std::int32_t>(a.value[k] * b.value[k] * scale);
  }
  return cut_to_float(static_cast<double>(sum) * power_of_two(largest - kFractionBits));
}

/// What is known of a line of operands before its products are taken.
struct Contents {
  bool is_zero = true;
  bool is_finite = true;
};

template <int kCount>
Contents contents_of(const Line<kCount>& line) {
  const int largest = *std::max_element(line.exponent, line.exponent + kCount);
  return {largest == kZeroExponent, largest != kNotFiniteExponent};
}

/// The same of 16-bit numbers, before they are converted.
Contents contents_of(const std::uint16_t (&line)[16], std::uint16_t largest_exponent) {
  std::uint16_t magnitudes = 0;
  bool is_finite = true;
  for (const std::uint16_t one : line) {
    magnitudes = static_cast<std::uint16_t>(magnitudes | (one & 0x7FFFU));
    is_finite &= (one & largest_exponent) != largest_exponent;
  }
  return {magnitudes == 0, is_finite};
}

/// Most of a small matrix in large tiles is padding: its products change nothing.
bool is_padding(const Contents& a, const Contents& b) {
  return (a.is_zero && b.is_finite) || (b.is_zero && a.is_finite);
}

/// One lane's fragments.
template <typename D, typename A, typename B>
struct Share {
  D* d;
  const A* a;
  const B* b;
};
using WordShare = Share<float, std::uint32_t, std::uint32_t>;

/// D += A B for 16 x kDepth A and kDepth x 8 B, given the matrices in full.
template <int kDepth>
void multiply(void* const (&lanes)[kLanes], const Line<kDepth> (&a)[16],
              const Line<kDepth> (&b)[8]) {
  Contents of_a[16];
  Contents of_b[8];
  for (int row = 0; row < 16; ++row) {
    of_a[row] = contents_of(a[row]);
  }
  for (int col = 0; col < 8; ++col) {
    of_b[col] = contents_of(b[col]);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share = static_cast<const WordShare*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int col = 2 * (lane % 4) + i % 2;
      if (!is_padding(of_a[row], of_b[col])) {
        share->d[i] = add_products(share->d[i], a[row], b[col]);
      }
    }
  }
}

template <Operand (*operand)(std::uint32_t)>
void multiply_16_bit(void* const (&lanes)[kLanes]) {
  Line<16> a[16];
  Line<16> b[8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share = static_cast<const WordShare*>(lanes[lane]);
    const int group = lane / 4;
    const int pair = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8].set(2 * pair + i / 2 * 8 + half, operand(share->a[i] >> (16 * half)));
      }
      for (int i = 0; i < 2; ++i) {
        b[group].set(2 * pair + i * 8 + half, operand(share->b[i] >> (16 * half)));
      }
    }
  }
  multiply<16>(lanes, a, b);
}

void multiply_tf32(void* const (&lanes)[kLanes]) {
  Line<8> a[16];
  Line<8> b[8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share = static_cast<const WordShare*>(lanes[lane]);
    const int group = lane / 4;
    const int pair = lane % 4;
    for (int i = 0; i < 4; ++i) {
      a[group + i % 2 * 8].set(pair + i / 2 * 4, operand_of(tf32_value(share->a[i])));
    }
    for (int i = 0; i < 2; ++i) {
      b[group].set(pair + i * 4, operand_of(tf32_value(share->b[i])));
    }
  }
  multiply<8>(lanes, a, b);
}

void multiply_s8(void* const (&lanes)[kLanes]) {
  std::int8_t a[16][32];
  std::int8_t b[8][32];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share =
        static_cast<const Share<std::int32_t, std::uint32_t, std::uint32_t>*>(lanes[lane]);
    const int group = lane / 4;
    const int first = lane % 4 * 4;
    for (int i = 0; i < 4; ++i) {
      std::memcpy(&a[group + i % 2 * 8][first + i / 2 * 16], share->a + i, 4);
    }
    for (int i = 0; i < 2; ++i) {
      std::memcpy(&b[group][first + i * 16], share->b + i, 4);
    }
  }
  bool is_zero[24];  // lines of A, columns of B: most of a small matrix in large tiles
  for (int i = 0; i < 24; ++i) {
    const std::int8_t* const line = i < 16 ? a[i] : b[i - 16];
    is_zero[i] = std::all_of(line, line + 32, [](std::int8_t one) { return one == 0; });
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share =
        static_cast<const Share<std::int32_t, std::uint32_t, std::uint32_t>*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int col = 2 * (lane % 4) + i % 2;
      if (!is_zero[row] && !is_zero[16 + col]) {
        std::int32_t sum = 0;
        for (int k = 0; k < 32; ++k) {
          sum += a[row][k] * b[col][k];
        }
        share->d[i] = static_cast<std::int32_t>(std::int64_t{share->d[i]} + sum);  // may wrap
      }
    }
  }
}

void multiply_f64(void* const (&lanes)[kLanes]) {
  double a[8][4];
  double b[4][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share = static_cast<const Share<double, double, double>*>(lanes[lane]);
    a[lane / 4][lane % 4] = *share->a;
    b[lane % 4][lane / 4] = *share->b;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* share = static_cast<const Share<double, double, double>*>(lanes[lane]);
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 4; ++k) {
        share->d[i] = std::fma(a[lane / 4][k], b[k][2 * (lane % 4) + i], share->d[i]);
      }
    }
  }
}

struct LoadShare {
  std::uint32_t* r;
  const unsigned char* row;
};

template <bool kTransposed>
void load_matrices(void* const (&lanes)[kLanes]) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint32_t word = 0;
      for (int half = 0; half < 2; ++half) {
        const int row = kTransposed ? 2 * (lane % 4) + half : lane / 4;
        const int col = kTransposed ? lane / 4 : 2 * (lane % 4) + half;
        std::uint16_t element = 0;
        std::memcpy(&element, static_cast<const LoadShare*>(lanes[8 * matrix + row])->row + 2 * col,
                    sizeof element);
        word |= static_cast<std::uint32_t>(element) << (16 * half);
      }
      static_cast<const LoadShare*>(lanes[lane])->r[matrix] = word;
    }
  }
}

constexpr std::uint32_t kAll = 0xFFFFFFFFU;

/// What needs all 32 lanes of a warp must have them.
void whole_warp(const char* kind, void* share, void (*complete)(void* const (&lanes)[kLanes]),
                std::source_location where) {
  if (existing_lanes() != kAll) {
    fault(std::string(kind) + " in a warp of fewer than 32 threads", where);
  }
  warp_operation(kind, kAll, share, complete, where);
}

void require_aligned(const char* what, const void* pointer, std::source_location where) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) {
    fault(std::string(what) + " with an address that is not a multiple of 16", where);
  }
}

}  // namespace

void set_accumulation(Accumulation value) { accumulation = value; }

void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
             std::source_location where) {
  WordShare share = {d, a, b};
  whole_warp("mma_f16", &share, multiply_16_bit<half_operand>, where);
}

void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::source_location where) {
  WordShare share = {d, a, b};
  whole_warp("mma_bf16", &share, multiply_16_bit<bfloat_operand>, where);
}

void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::source_location where) {
  WordShare share = {d, a, b};
  whole_warp("mma_tf32", &share, multiply_tf32, where);
}

void mma_s8(std::int32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
            std::source_location where) {
  Share<std::int32_t, std::uint32_t, std::uint32_t> share = {d, a, b};
  whole_warp("mma_s8", &share, multiply_s8, where);
}

void mma_f64(double (&d)[2], double a, double b, std::source_location where) {
  Share<double, double, double> share = {d, &a, &b};
  whole_warp("mma_f64", &share, multiply_f64, where);
}

void add_warpgroup_products(float (&d)[64], const std::uint16_t (&a)[2][16],
                            const std::uint16_t (&b)[32][16], bool bfloat16) {
  const std::uint16_t largest_exponent = bfloat16 ? 0x7F80 : 0x7C00;
  const auto read = [bfloat16](const std::uint16_t(&from)[16], Line<16>& to) {
    for (int k = 0; k < 16; ++k) {
      to.set(k, bfloat16 ? bfloat_operand(from[k]) : half_operand(from[k]));
    }
  };
  Line<16> lines[2];
  const Contents of_a[2] = {contents_of(a[0], largest_exponent),
                            contents_of(a[1], largest_exponent)};
  for (int line = 0; line < 2; ++line) {
    read(a[line], lines[line]);
  }
  for (int column = 0; column < 32; ++column) {
    const Contents of_b = contents_of(b[column], largest_exponent);
    const bool skipped[2] = {is_padding(of_a[0], of_b), is_padding(of_a[1], of_b)};
    if (skipped[0] && skipped[1]) {
      continue;
    }
    Line<16> steps;
    read(b[column], steps);
    for (int line = 0; line < 2; ++line) {
      if (!skipped[line]) {
        float& sum = d[column / 2 * 4 + 2 * line + column % 2];
        sum = add_products(sum, lines[line], steps);
      }
    }
  }
}

void load_matrix_x4(std::uint32_t (&r)[4], const void* row, bool transposed,
                    std::source_location where) {
  require_aligned("load_matrix", row, where);
  LoadShare share = {r, static_cast<const unsigned char*>(row)};
  whole_warp(transposed ? "load_matrix_x4_transposed" : "load_matrix_x4", &share,
             transposed ? load_matrices<true> : load_matrices<false>, where);
}

}  // namespace vindex::emulated

namespace vindex::kernels::device {

void copy_async_16(void* shared, const void* global, std::source_location where) {
  copy_async_16_or_zero(shared, global, true, where);
}

void copy_async_16_or_zero(void* shared, const void* global, bool copy,
                           std::source_location where) {
  emulated::require_aligned("copy_async_16", shared, where);
  emulated::require_aligned("copy_async_16", global, where);
  emulated::issue_copy(shared, copy ? global : nullptr, 16);
}

std::uint32_t to_half_pair(float low, float high) {
  return emulated::half_bits(low) | static_cast<std::uint32_t>(emulated::half_bits(high)) << 16U;
}

std::uint32_t to_bfloat_pair(float low, float high) {
  return emulated::bfloat_bits(low) | static_cast<std::uint32_t>(emulated::bfloat_bits(high))
                                          << 16U;
}

std::uint32_t e4m3_pair_to_half(std::uint32_t codes) {
  const auto convert = [](std::uint32_t code) -> std::uint32_t {
    const std::uint32_t magnitude = code & 0x7FU;
    if (magnitude == 0x7FU) {
      return 0x7FFFU;
    }
    const std::uint32_t exponent = magnitude >> 3U;
    const float fraction = static_cast<float>(magnitude & 7U) / 8.0F;
    const float value = exponent == 0 ? std::ldexp(fraction, -6)
                                      : std::ldexp(1.0F + fraction, static_cast<int>(exponent) - 7);
    return emulated::half_bits(value) | (code & 0x80U) << 8U;
  };
  return convert(codes & 0xFFU) | convert(codes >> 8U & 0xFFU) << 16U;
}
float low_half(std::uint32_t pair) {
  return emulated::half_value(static_cast<unsigned short>(pair));
}
float high_half(std::uint32_t pair) {
  return emulated::half_value(static_cast<unsigned short>(pair >> 16U));
}

}  // namespace vindex::kernels::device
