// Owns the vector type of the symmetric reduction kernels: one register of a SIMD level, written
// with the compilers' vector extension so that one source serves every level. Functions are forced
// inline into the level's own entry points, which carry the target attribute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace vindex::cpu {

/// A register of kRegisterBytes holding values of type T.
template <typename T, int kRegisterBytes>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kRegisterBytes)));
  typedef std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> Word;
  typedef Word Bits __attribute__((vector_size(kRegisterBytes)));
  static constexpr int kCount = kRegisterBytes / static_cast<int>(sizeof(T));
  // kCount cleared lanes, then kCount kept ones.
  static constexpr std::array<Word, 2 * kCount> kMaskWords = [] {
    std::array<Word, 2 * kCount> words{};
    for (int i = kCount; i < 2 * kCount; ++i) {
      words[i] = static_cast<Word>(-1);
    }
    return words;
  }();

  [[gnu::always_inline]] static inline void load(const T* from, Vector& to) {
    std::memcpy(&to, from, sizeof(Vector));
  }
  [[gnu::always_inline]] static inline void store(const Vector& from, T* to) {
    std::memcpy(to, &from, sizeof(Vector));
  }

  template <int kStride, std::size_t... kLane>
  [[gnu::always_inline]] static inline void merge_halves(const Vector& a, const Vector& b,
                                                         Vector& sum,
                                                         std::index_sequence<kLane...>) {
    // Lane l takes its own partial sum and the one a stride away, from a or from b.
    const Vector low = __builtin_shufflevector(
        a, b, (kLane % (2 * kStride) < kStride ? kLane : kCount + kLane - kStride)...);
    const Vector high = __builtin_shufflevector(
        a, b, (kLane % (2 * kStride) < kStride ? kLane + kStride : kCount + kLane)...);
    sum = low + high;
  }

  template <int kStride>
  [[gnu::always_inline]] static inline void sum_stage(Vector* partial) {
    if constexpr (kStride < kCount) {
      constexpr int kLeft = kCount / kStride / 2;
#pragma GCC unroll 8
      for (int i = 0; i < kLeft; ++i) {
        merge_halves<kStride>(partial[2 * i], partial[2 * i + 1], partial[i],
                              std::make_index_sequence<kCount>{});
      }
      sum_stage<2 * kStride>(partial);
    }
  }

  template <int kStride, std::size_t... kLane>
  [[gnu::always_inline]] static inline void rotate(const Vector& from, Vector& to,
                                                   std::index_sequence<kLane...>) {
    to = __builtin_shufflevector(from, from, ((kLane + kStride) % kCount)...);
  }

  template <int kStride>
  [[gnu::always_inline]] static inline void fold(Vector& value) {
    if constexpr (kStride > 0) {
      Vector other;
      rotate<kStride>(value, other, std::make_index_sequence<kCount>{});
      value += other;
      fold<kStride / 2>(value);
    }
  }

  /// Sum of all lanes.
  [[gnu::always_inline]] static inline T sum(const Vector& values) {
    Vector total = values;
    fold<kCount / 2>(total);
    return total[0];
  }

  /// Keeps lanes >= first, clears the others; 0 <= first <= kCount.
  [[gnu::always_inline]] static inline void clear_below(int first, Vector& value) {
    Bits mask;
    std::memcpy(&mask, kMaskWords.data() + kCount - first, sizeof(Bits));
    value = (Vector)((Bits)value & mask);
  }

  /// Sums of kCount vectors, the sum of partial[l] in lane l of partial[0]; the others are spent.
  [[gnu::always_inline]] static inline void sums_across(Vector* partial) { sum_stage<1>(partial); }
};

}  // namespace vindex::cpu
