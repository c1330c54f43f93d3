// Owns the three-term recurrence of the leading minors of T - x I, for many x at once:
//
//   m_0 = 1,   m_i = (d_i - x) m_(i-1) - e_i^2 m_(i-2),   N(x) = sign changes in m_0 ... m_n
//
// with both minors rescaled by a power of two every few rows. Source: Barth, Martin, Wilkinson
// 1967; Givens 1954 for the product form.
//
// Why not the quotients m_i / m_(i-1), the usual form (LAPACK stebz): each needs a division on the
// critical path, some ten times the latency of a multiplication and a subtraction; and the last
// minor is the determinant, which interpolation wants. Rescaling is what quotients avoid, and costs
// a sixteenth of the work here. No multiplication is fused with a subtraction, in any variant, so
// that all of them give the same bits.
#include "simd_sturm.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::cpu {
namespace {

constexpr std::int64_t kRowsBetweenRescales = 16;
constexpr int kExponentShift = 52;
constexpr std::int64_t kExponentBias = 1023;

// Two vectors types of the same width; kVectors of them hide the latency of multiply and subtract.
template <int kBytes>
struct Lanes {
  typedef double Real __attribute__((vector_size(kBytes)));
  typedef std::int64_t Integer __attribute__((vector_size(kBytes)));
  typedef std::uint64_t Bits __attribute__((vector_size(kBytes)));
  static constexpr int kCount = kBytes / 8;
};

template <int kBytes, int kVectors, bool kCounting>
[[gnu::always_inline]] inline void minors_of_group(const TridiagonalBlock& block,
                                                   const double* shifts, double* mantissas,
                                                   std::int64_t* exponents, std::int64_t* counts) {
  using Real = typename Lanes<kBytes>::Real;
  using Integer = typename Lanes<kBytes>::Integer;
  using Bits = typename Lanes<kBytes>::Bits;
  constexpr int kCount = Lanes<kBytes>::kCount;

  Real shift[kVectors];
  Real minor[kVectors];
  Real previous[kVectors];
  Bits changes[kVectors];
  Integer exponent[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    __builtin_memcpy(&shift[v], shifts + v * kCount, sizeof(Real));
    minor[v] = Real{} + 1.0;
    previous[v] = Real{};
    changes[v] = Bits{};
    exponent[v] = Integer{};
  }
  for (std::int64_t start = 0; start < block.size; start += kRowsBetweenRescales) {
    const std::int64_t end = std::min(block.size, start + kRowsBetweenRescales);
    for (std::int64_t row = start; row < end; ++row) {
      const double diagonal = block.diagonal[row];
      const double off_squared = block.off_squared[row];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Real next = (diagonal - shift[v]) * minor[v] - off_squared * previous[v];
        if constexpr (kCounting) {
          changes[v] += ((Bits)next ^ (Bits)minor[v]) >> 63;
        }
        previous[v] = minor[v];
        minor[v] = next;
      }
    }
    // A pair of minors shrinks by at most off_squared / 3 in two rows and grows by at most 5 in
    // one: 16 rows stay within the exponent range of float64.
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      constexpr std::int64_t kMagnitude = 0x7FFFFFFFFFFFFFFF;
      const Integer a = (Integer)minor[v] & kMagnitude;
      const Integer b = (Integer)previous[v] & kMagnitude;
      const Integer larger = a > b ? a : b;
      const Integer shift_by = (larger >> kExponentShift) - kExponentBias;
      const Integer factor = (kExponentBias - shift_by) << kExponentShift;
      minor[v] *= (Real)factor;
      previous[v] *= (Real)factor;
      exponent[v] += shift_by;
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    __builtin_memcpy(mantissas + v * kCount, &minor[v], sizeof(Real));
    __builtin_memcpy(exponents + v * kCount, &exponent[v], sizeof(Integer));
    if constexpr (kCounting) {
      __builtin_memcpy(counts + v * kCount, &changes[v], sizeof(Bits));
    }
  }
}

template <int kBytes, int kVectors>
[[gnu::always_inline]] inline void minors_of_all(const TridiagonalBlock& block,
                                                 std::int64_t shift_count, const double* shifts,
                                                 double* mantissas, std::int64_t* exponents,
                                                 std::int64_t* counts) {
  constexpr std::int64_t kGroup = kVectors * Lanes<kBytes>::kCount;
  static_assert(kSturmLanes % kGroup == 0);
  for (std::int64_t first = 0; first < shift_count; first += kGroup) {
    if (counts != nullptr) {
      minors_of_group<kBytes, kVectors, true>(block, shifts + first, mantissas + first,
                                              exponents + first, counts + first);
    } else {
      minors_of_group<kBytes, kVectors, false>(block, shifts + first, mantissas + first,
                                               exponents + first, nullptr);
    }
  }
}

using Variant = void(const TridiagonalBlock&, std::int64_t, const double*, double*, std::int64_t*,
                     std::int64_t*);

void minors_portable(const TridiagonalBlock& block, std::int64_t shift_count, const double* shifts,
                     double* mantissas, std::int64_t* exponents, std::int64_t* counts) {
  minors_of_all<16, 4>(block, shift_count, shifts, mantissas, exponents, counts);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void minors_avx2(const TridiagonalBlock& block,
                                                 std::int64_t shift_count, const double* shifts,
                                                 double* mantissas, std::int64_t* exponents,
                                                 std::int64_t* counts) {
  minors_of_all<32, 4>(block, shift_count, shifts, mantissas, exponents, counts);
}

__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) void minors_avx512(
    const TridiagonalBlock& block, std::int64_t shift_count, const double* shifts,
    double* mantissas, std::int64_t* exponents, std::int64_t* counts) {
  minors_of_all<64, 4>(block, shift_count, shifts, mantissas, exponents, counts);
}
#endif

}  // namespace

void sturm_minors(const TridiagonalBlock& block, std::int64_t shift_count, const double* shifts,
                  double* mantissas, std::int64_t* exponents, std::int64_t* counts,
                  SimdLevel level) {
  Variant* variant = &minors_portable;
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    variant = &minors_avx512;
  } else if (level == SimdLevel::kAvx2) {
    variant = &minors_avx2;
  }
#endif
  variant(block, shift_count, shifts, mantissas, exponents, counts);
}

}  // namespace vindex::cpu
