// Owns what a comparison of matrices says of those that differ: where they do first, and how often
// by block, since an error of a layout shows as a pattern (one quadrant of a tile, every eighth
// row, one half).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vindex::kernels {

class WrongEntries {
 public:
  void add(std::int64_t row, std::int64_t col, double got, double wanted) {
    if (count_ == 0) {
      char text[96];
      std::snprintf(text, sizeof text, "first at (%lld, %lld): %.6g, not %.6g",
                    static_cast<long long>(row), static_cast<long long>(col), got, wanted);
      first_ = text;
    }
    ++count_;
    ++blocks_[{row / kSide, col / kSide}];
    ++rows_[static_cast<std::size_t>(row % kRows)];
  }
  bool none() const { return count_ == 0; }

  /// "12 wrong, first at (0, 64): 1, not 2; by 64 x 64: (0, 1) 12; by row modulo 8: 12 0 0 0 0 0 0
  /// 0", the worst blocks first.
  std::string text() const {
    using Block = std::pair<std::pair<std::int64_t, std::int64_t>, std::int64_t>;
    std::vector<Block> sorted(blocks_.begin(), blocks_.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Block& a, const Block& b) { return a.second > b.second; });
    std::string out = std::to_string(count_) + " wrong, " + first_ + "; by 64 x 64:";
    constexpr std::size_t kMax = 8;
    for (std::size_t i = 0; i < std::min(kMax, sorted.size()); ++i) {
      out += " (" + std::to_string(sorted[i].first.first) + ", " +
             std::to_string(sorted[i].first.second) + ") " + std::to_string(sorted[i].second);
    }
    out += sorted.size() > kMax ? " ..." : "";
    out += "; by row modulo 8:";
    for (const std::int64_t wrong : rows_) {
      out += " " + std::to_string(wrong);
    }
    return out;
  }

 private:
  static constexpr std::int64_t kSide = 64;
  static constexpr std::int64_t kRows = 8;
  std::int64_t count_ = 0;
  std::string first_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> blocks_;
  std::int64_t rows_[kRows] = {};
};

}  // namespace vindex::kernels
