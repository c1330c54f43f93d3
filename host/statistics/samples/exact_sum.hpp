// Owns a sum of float64 that does not depend on the order of its terms: every bit of every term is
// kept, in digits of 32 bits (Kulisch's long accumulator), and rounded once at the end. So what is
// read in slabs of any size, in any order, by any number of threads has the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vindex::statistics {

/// Of terms >= 0, each 0 or a multiple of 2^-448 below 2^400; at most 2^31 of them. Sums of squares
/// of up to 2^40 float32 weights and of their products fit.
class ExactSum {
 public:
  void add(double term);
  /// To within 2^-52 of the exact sum; the same bits for the same terms in any order.
  double value() const;

 private:
  static constexpr std::int32_t kLowestBit = -448;
  static constexpr std::size_t kDigits = (400 - kLowestBit) / 32 + 3;
  std::array<std::uint64_t, kDigits> digits_ = {};  ///< of 32 bits each, carries not yet moved
};

}  // namespace vindex::statistics
