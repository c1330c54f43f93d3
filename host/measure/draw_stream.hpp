// Owns random numbers of one stream for nulls that are drawn: the same ones in every run.
#pragma once

#include <vindex/core/philox.hpp>
#include <vindex/measure/sample_angles.hpp>

#include <cstdint>

namespace vindex::measure {

class DrawStream {
 public:
  /// `draw` numbers independent streams of one key.
  explicit DrawStream(std::uint64_t key, std::uint64_t draw = 0) : key_(key), draw_(draw) {}

  std::uint32_t word() {
    if (left_ == 0) {
      block_ = philox_block(key_, counter_++, draw_);
      left_ = 4;
    }
    return block_.word[4 - left_--];
  }
  /// 0 .. count-1, count < 2^32; biased by less than count / 2^32.
  std::uint32_t below(std::uint64_t count) {
    return static_cast<std::uint32_t>(word() * count >> 32U);
  }
  /// In (0, 1), 52 bits.
  double uniform() {
    const std::uint64_t high = word();
    return (static_cast<double>((high << 32U | word()) >> 12U) + 0.5) * 0x1p-52;
  }
  double normal() { return normal_quantile(uniform()); }

 private:
  std::uint64_t key_, draw_;
  PhiloxBlock block_{};
  std::uint64_t counter_ = 0;
  int left_ = 0;
};

}  // namespace vindex::measure
