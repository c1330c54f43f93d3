// Owns the checks of a call, and how many rows are summed in float32 before they are added to
// float64.
#include "inner_products.hpp"

#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <numeric>

namespace vindex {

namespace {

/// Weights that are summed in float32 at once, about.
constexpr std::int64_t kDepth = 1024;
/// Rows taken together of codes that lie transposed: a line of the cache holds their words.
constexpr std::int64_t kTransposedRows = 16;

}  // namespace

std::int64_t inner_product_rows(const decode::Encoding& encoding, std::int64_t cols, bool columns) {
  if (columns) {
    return kDepth;
  }
  const bool transposed = decode::code_layout(encoding.scheme) == decode::CodeLayout::kColumns;
  return std::max(transposed ? kTransposedRows : 1,
                  ceil_divide(kDepth, std::max<std::int64_t>(cols, 1)));
}

SlabShape slab_shape(const VectorSlab& slab, std::int64_t vectors) {
  SlabShape shape;
  if (slab.columns) {
    expects(slab.matrices.size() == 1 && slab.matrices[0].encoding != nullptr,
            "inner products of columns: one matrix");
    const decode::EncodedMatrix& matrix = slab.matrices[0];
    expects(matrix.cols == vectors, "inner products of columns: a column for every vector");
    expects(slab.means.empty() || static_cast<std::int64_t>(slab.means.size()) == vectors,
            "inner products of columns: a mean for every vector");
    return {.rows = matrix.rows,
            .cols = vectors,
            .first_row = matrix.first_row,
            .block_rows = inner_product_rows(*matrix.encoding, vectors, true),
            .granularity = 1};
  }
  expects(static_cast<std::int64_t>(slab.matrices.size()) == vectors,
          "inner products: a matrix for every vector");
  expects(slab.means.empty(), "inner products: means are of columns");
  bool first = true;
  for (const decode::EncodedMatrix& matrix : slab.matrices) {
    if (matrix.encoding == nullptr) {
      continue;
    }
    if (first) {
      shape.rows = matrix.rows;
      shape.cols = matrix.cols;
      shape.first_row = matrix.first_row;
      first = false;
    }
    expects(matrix.rows == shape.rows && matrix.cols == shape.cols,
            "inner products: matrices of one shape");
    shape.block_rows =
        std::lcm(shape.block_rows, inner_product_rows(*matrix.encoding, matrix.cols, false));
    shape.granularity = std::lcm(
        shape.granularity, std::max<std::int64_t>(1, decode::column_granularity(*matrix.encoding)));
  }
  return shape;
}

SlabShape slab_shape(const VectorSlab& left, const VectorSlab& right,
                     const InnerProductShape& shape) {
  expects(left.columns == right.columns, "inner products: both sides rows or both columns");
  SlabShape both = slab_shape(left, shape.left);
  const SlabShape other = slab_shape(right, shape.columns());
  if (other.rows == 0 || both.rows == 0) {
    both.rows = 0;  // nothing but zeros on one side
    return both;
  }
  expects(both.rows == other.rows && (left.columns || both.cols == other.cols),
          "inner products: the same components on both sides");
  both.block_rows = std::lcm(both.block_rows, other.block_rows);
  both.granularity = std::lcm(both.granularity, other.granularity);
  return both;
}

CheckedInnerProducts::CheckedInnerProducts(const InnerProductShape& shape) : shape_(shape) {
  expects(shape.left > 0 && shape.right >= 0, "inner products of at least one vector");
}

void CheckedInnerProducts::add(const VectorSlab& left, const VectorSlab& right) {
  expects(!shape_.is_symmetric(), "inner products of a symmetric sum: one slab");
  add_slabs(left, right, slab_shape(left, right, shape_));
}

void CheckedInnerProducts::add(const VectorSlab& both) {
  expects(shape_.is_symmetric(), "inner products of two sides: two slabs");
  add_slabs(both, both, slab_shape(both, shape_.left));
}

void CheckedInnerProducts::read(std::span<double> out) {
  expects(static_cast<std::int64_t>(out.size()) == sum_count(), "inner products: a sum each");
  read_sums(out);
  if (!shape_.is_symmetric()) {
    return;
  }
  const auto n = static_cast<std::size_t>(shape_.left);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      out[j * n + i] = out[i * n + j];
    }
  }
}

}  // namespace vindex
