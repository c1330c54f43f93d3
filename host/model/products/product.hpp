// Owns what a row of /product/ is made of: windows of stored matrices and the order in which they
// are multiplied.
#pragma once
#include "model/model_index.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace vindex::model {

/// Roles of the rows that `--heads` adds.
inline constexpr std::string_view kQkHead = "qk_head";
inline constexpr std::string_view kOvHead = "ov_head";
constexpr bool is_head_role(std::string_view role) { return role == kQkHead || role == kOvHead; }

/// A window of a stored matrix, in logical (out x in) rows and columns, as one factor.
struct ProductFactor {
  std::shared_ptr<const MatrixRecord> matrix;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t first_col = 0, cols = 0;
  bool transposed = false;    ///< enters the product as its transpose
  std::int64_t col_step = 1;  ///< of `cols` columns every col_step-th; more than 1: as stored
  /// Heads of the attention that end in this very window; a caller that measures them in order
  /// reads and reduces it once (engine/units/derived_rows.hpp).
  std::int64_t shared_by = 1;

  std::int64_t left() const { return transposed ? cols : rows; }
  std::int64_t right() const { return transposed ? rows : cols; }
};

/// scale * factors[0] * factors[1] * ...
struct Product {
  std::vector<ProductFactor> factors;
  double scale = 1.0;

  /// Rows of the first factor, then the columns of every factor.
  std::vector<std::int64_t> sides() const;
  /// The least side: how many singular values may differ from zero.
  std::int64_t rank() const;
};

}  // namespace vindex::model
