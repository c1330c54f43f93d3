// Owns the loops, for registers of two and of four float64. Differential quotient-difference
// steps with shifts (Fernando and Parlett, "Accurate singular values and differential qd
// algorithms", 1994), on squares q_i and e_i:
//
//   d = q_1 - shift;   q'_i = d + e_i,   e'_i = e_i q_(i+1) / q'_i,   d <- d q_(i+1) / q'_i - shift
//
// Nothing is subtracted but the shift, so small values keep their digits.
#include "bidiagonal_draws.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace vindex::statistics {

namespace {

template <std::size_t Width>
class BidiagonalSolver {
 public:
  [[gnu::always_inline]] explicit BidiagonalSolver(BidiagonalDraws& draws) : size_(draws.size) {
    std::memcpy(q_, draws.squares.data(), size_ * sizeof(BidiagonalDraws::Row));
    std::memcpy(e_, draws.above.data(), size_ * sizeof(BidiagonalDraws::Row));
  }

  /// A lane whose last value has come off waits for the others and so does what it would do alone.
  [[gnu::always_inline]] void find(BidiagonalDraws& draws) {
    Row shifted = {};
    for (std::size_t count = size_; count > 1; --count) {
      MaskRow open;
      for (std::size_t step = 0; is_open(count, shifted, open); ++step) {
        expects(step <= kMaxSteps * size_, "qd steps of noise converge");
        transform(count, open, shifted);
      }
      come_off(count - 1, shifted, draws);
    }
    come_off(0, shifted, draws);
  }

 private:
  typedef double Doubles __attribute__((vector_size(Width * sizeof(double))));
  typedef std::int64_t Mask __attribute__((vector_size(Width * sizeof(double))));
  static constexpr std::size_t kParts = BidiagonalDraws::kLanes / Width;
  static constexpr std::size_t kMaxSize = BidiagonalDraws::kMaxSize;
  static constexpr double kSmall = 0x1p-53;
  static constexpr std::size_t kMaxSteps = 1000;  // of one value
  struct Row {
    Doubles part[kParts];
  };
  struct MaskRow {
    Mask part[kParts];
  };

  [[gnu::always_inline]] void come_off(std::size_t i, const Row& shifted, BidiagonalDraws& draws) {
    Row value = q_[i];
    for (std::size_t k = 0; k < kParts; ++k) {
      value.part[k] += shifted.part[k];
    }
    std::memcpy(draws.squares[i].data(), &value, sizeof value);
  }

  [[gnu::always_inline]] static bool any_of(const MaskRow& mask) {
    Mask any = mask.part[0];
    for (std::size_t k = 1; k < kParts; ++k) {
      any |= mask.part[k];
    }
    std::array<std::int64_t, Width> lanes;
    std::memcpy(lanes.data(), &any, sizeof any);
    std::int64_t bits = 0;
    for (const std::int64_t lane : lanes) {
      bits |= lane;
    }
    return bits != 0;
  }

  /// The lanes whose last value of the first `count` has not come off.
  [[gnu::always_inline]] bool is_open(std::size_t count, const Row& shifted, MaskRow& open) const {
    for (std::size_t k = 0; k < kParts; ++k) {
      open.part[k] = ~(e_[count - 2].part[k] <= kSmall * (q_[count - 1].part[k] + shifted.part[k]));
    }
    return any_of(open);
  }

  /// One step on the first `count` values of the lanes `open`, which it shuts; what it takes off
  /// them goes to `shifted`.
  [[gnu::always_inline]] void transform(std::size_t count, MaskRow& open, Row& shifted) {
    Row shift = last_shift(count);
    for (;;) {
      const MaskRow good = step(count, shift, open);
      for (std::size_t k = 0; k < kParts; ++k) {
        open.part[k] &= ~good.part[k];
        shifted.part[k] = good.part[k] ? shifted.part[k] + shift.part[k] : shifted.part[k];
      }
      if (!any_of(open)) {
        std::swap(q_, next_q_);
        std::swap(e_, next_e_);
        return;
      }
      // A shift above the smallest value shows as a negative d; those lanes take a smaller one.
      for (std::size_t k = 0; k < kParts; ++k) {
        for (std::size_t i = 0; i < count; ++i) {
          q_[i].part[k] = good.part[k] ? next_q_[i].part[k] : q_[i].part[k];
          e_[i].part[k] = good.part[k] ? next_e_[i].part[k] : e_[i].part[k];
        }
        shift.part[k] =
            shift.part[k] > kSmall * q_[count - 1].part[k] ? 0.25 * shift.part[k] : Doubles{};
      }
    }
  }

  /// Nearly the smaller value of the last two by two; a step that finds it too large is repeated.
  [[gnu::always_inline]] Row last_shift(std::size_t count) const {
    Row shift;
    for (std::size_t k = 0; k < kParts; ++k) {
      const Doubles a = q_[count - 2].part[k];
      const Doubles b = e_[count - 2].part[k];
      const Doubles c = q_[count - 1].part[k];
      const Doubles half = 0.5 * (a + b + c);
      Doubles root = half * half - a * c;
      std::array<double, Width> lanes;
      std::memcpy(lanes.data(), &root, sizeof root);
      for (double& value : lanes) {
        value = std::sqrt(std::max(value, 0.0));
      }
      std::memcpy(&root, lanes.data(), sizeof root);
      shift.part[k] = a * c / (half + root) * 0.999;
    }
    return shift;
  }

  /// The step of the lanes `open` into next_q_ and next_e_, which take the others as they are; the
  /// lanes whose shift was not too large.
  [[gnu::always_inline]] MaskRow step(std::size_t count, const Row& shift, const MaskRow& open) {
    Row d;
    MaskRow good = open;
    for (std::size_t k = 0; k < kParts; ++k) {
      d.part[k] = q_[0].part[k] - shift.part[k];
    }
    for (std::size_t i = 0; i + 1 < count; ++i) {
      for (std::size_t k = 0; k < kParts; ++k) {
        good.part[k] &= ~((d.part[k] < 0.0) | ((d.part[k] == 0.0) & (shift.part[k] > 0.0)));
        const Doubles next = d.part[k] + e_[i].part[k];
        const Doubles ratio = q_[i + 1].part[k] / next;
        next_q_[i].part[k] = open.part[k] ? next : q_[i].part[k];
        next_e_[i].part[k] = open.part[k] ? e_[i].part[k] * ratio : e_[i].part[k];
        d.part[k] = d.part[k] * ratio - shift.part[k];
      }
    }
    for (std::size_t k = 0; k < kParts; ++k) {
      good.part[k] &= d.part[k] >= 0.0;
      next_q_[count - 1].part[k] = open.part[k] ? d.part[k] : q_[count - 1].part[k];
    }
    return good;
  }

  std::size_t size_;
  Row first_q_[kMaxSize], first_e_[kMaxSize], second_q_[kMaxSize], second_e_[kMaxSize];
  Row *q_ = first_q_, *e_ = first_e_, *next_q_ = second_q_, *next_e_ = second_e_;
};

[[gnu::flatten]] void find_baseline(BidiagonalDraws& draws) {
  BidiagonalSolver<2>(draws).find(draws);
}
[[gnu::flatten, gnu::target("avx2")]] void find_avx2(BidiagonalDraws& draws) {
  BidiagonalSolver<4>(draws).find(draws);
}

using DrawsLoop = void (*)(BidiagonalDraws&);
// Of eight, g++ 12 made loops that took half again as long.
constexpr std::array<DrawsLoop, static_cast<std::size_t>(decode::SimdLevel::kCount)> kDrawsLoops = {
    find_baseline, find_avx2, find_avx2};

}  // namespace

void find_squared_values_at(decode::SimdLevel level, BidiagonalDraws& draws) {
  expects(decode::is_supported(level), "a level that this processor has");
  expects(draws.size >= 1 && draws.size <= BidiagonalDraws::kMaxSize,
          "bidiagonal draws of 1 to 63 values");
  kDrawsLoops[static_cast<std::size_t>(level)](draws);
}

void find_squared_values(BidiagonalDraws& draws) {
  static const decode::SimdLevel best = decode::best_simd_level();
  find_squared_values_at(best, draws);
}

}  // namespace vindex::statistics
