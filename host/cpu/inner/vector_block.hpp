// Owns the decoded block of one side of inner products, brought into a range in which products
// neither overflow nor vanish.
#pragma once

#include "backend/inner_products.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::cpu {

/// Where a block lies in its slab.
struct BlockPlace {
  std::int64_t first_row = 0, rows = 0;  ///< in the slab
  std::int64_t first_col = 0, cols = 0;  ///< of the slab's matrices; all of them for columns
  bool columns = false;
  std::int64_t depth() const { return columns ? rows : rows * cols; }
};

class VectorBlock {
 public:
  /// Most components of a block.
  static constexpr std::int64_t kMaxDepth = 2048;
  static std::uint64_t memory_bytes(std::int64_t vectors);

  VectorBlock(Workspace& workspace, std::int64_t vectors);

  /// Decodes `place` of `slab` on up to `threads` threads. Rows: component k of vector i is
  /// values()[i depth + k]; columns: values()[k vectors + i].
  void load(const VectorSlab& slab, const BlockPlace& place, std::size_t threads);

  const float* values() const { return values_.data(); }
  std::int64_t vectors() const { return vectors_; }
  /// The true components are those of values() times 2^exponents()[i].
  std::span<const int> exponents() const { return {exponents_.data(), count()}; }
  bool is_scaled() const { return is_scaled_; }
  /// Of the true components, float64.
  std::span<const double> squares() const { return {squares_.data(), count()}; }

 private:
  std::size_t count() const { return static_cast<std::size_t>(vectors_); }
  void load_rows(const VectorSlab& slab, const BlockPlace& place, std::size_t threads);
  void load_columns(const VectorSlab& slab, const BlockPlace& place, std::size_t threads);
  void scale(const BlockPlace& place);

  std::int64_t vectors_;
  WorkArray<float> values_;
  WorkArray<float> largest_;
  WorkArray<int> exponents_;
  WorkArray<double> squares_;
  bool is_scaled_ = false;
};

}  // namespace vindex::cpu
