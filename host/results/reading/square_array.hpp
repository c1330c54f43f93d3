// Owns what checks ask of square arrays of experts beside experts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vindex::results {

/// The corner of a square array of side `side` that holds `experts` experts.
class Square {
 public:
  Square(const std::vector<float>& values, std::size_t experts)
      : values_(values),
        side_(static_cast<std::size_t>(std::sqrt(static_cast<double>(values.size())))),
        experts_(std::min(experts, side_)) {}
  /// Where it is not, only the square that fits is looked at.
  bool is_square() const { return side_ * side_ == values_.size(); }
  bool is_symmetric(double slack) const {
    return all([&](std::size_t i, std::size_t j) {
      return std::isnan(at(i, j)) ? std::isnan(at(j, i)) : std::abs(at(i, j) - at(j, i)) <= slack;
    });
  }
  bool has_diagonal(double value, double slack) const {
    return all([&](std::size_t i, std::size_t j) {
      return i != j || std::isnan(at(i, i)) || std::abs(at(i, i) - value) <= slack;
    });
  }

 private:
  double at(std::size_t i, std::size_t j) const {
    return static_cast<double>(values_[i * side_ + j]);
  }
  template <typename Holds>
  bool all(Holds holds) const {
    for (std::size_t i = 0; i < experts_; ++i) {
      for (std::size_t j = 0; j < experts_; ++j) {
        if (!holds(i, j)) {
          return false;
        }
      }
    }
    return true;
  }
  const std::vector<float>& values_;
  std::size_t side_, experts_;
};

}  // namespace vindex::results
