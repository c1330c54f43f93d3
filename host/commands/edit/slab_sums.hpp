// Owns going through a stored matrix in slabs of whole rows as stored, and what is summed over
// them: its product with a vector, and its outputs for many inputs, whichever way round it is
// stored.
#pragma once

#include "low_rank_edit.hpp"

#include "engine/units/matrix_loader.hpp"
#include "engine/units/row_slabs.hpp"
#include "model/model_index.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::edit {

/// Inputs whose outputs are watched.
struct Probe {
  std::int64_t count = 0;
  std::vector<float> inputs;  ///< in x count, row-major
  std::vector<float> wanted;  ///< out x count: what (W' - W) X is meant to be; empty: nothing
};

/// What an edit did to the outputs of a probe: Frobenius norms.
struct ProbeChange {
  double before = 0.0;  ///< W X
  double change = 0.0;  ///< (W' - W) X
  double miss = 0.0;    ///< (W' - W) X - wanted
  double wanted = 0.0;
  /// Of change / before, if the probe's vectors are independent draws: the jackknife that leaves
  /// out one vector at a time. NaN for one vector, or where the others have no outputs.
  double standard_error = 0.0;
};

/// What an edit did to outputs of inputs x with E[x x^T] = C: roots of the expected square.
struct CovarianceChange {
  double before = 0.0;  ///< of W x: sqrt(tr(W C W^T)); NaN where C is not positive there
  double change = 0.0;  ///< of (W' - W) x
};

/// A direction that is watched: W v (right) or W^T u (left).
struct Direction {
  Side side = Side::kRight;
  std::vector<double> unit;
};

/// Stored rows of one slab, decoded.
struct Slab {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t cols = 0;
  decode::EncodedMatrix encoded;
  std::span<const float> values;  ///< count x cols
};

/// Calls `use(slab)` for every slab in order, until one call returns false. Slabs begin where
/// blocks of rows that share a scale do. Errors: FormatError E-EDIT-VALUES where a weight is not
/// finite.
template <typename Use>
bool each_slab(engine::SourceWatch& watch, const model::MatrixRecord& matrix, Use use) {
  const auto input = engine::make_streamed_input(watch, matrix);
  const std::int64_t unit = std::max<std::int64_t>(1, matrix.encoding.block_rows);
  return engine::for_each_slab(
      *input, unit, [&](const decode::EncodedMatrix& slab, std::span<const float> values) {
        if (!all_finite(values)) {
          throw FormatError("E-EDIT-VALUES", model::matrix_name(matrix),
                            "holds weights that are not finite: it cannot be edited");
        }
        return use(Slab{slab.first_row, slab.rows, slab.cols, slab, values});
      });
}

/// W v or W^T u.
class VectorImage {
 public:
  VectorImage(const model::MatrixRecord& matrix, const Direction& direction);
  /// `values`: the slab's weights or those that replace them.
  void add(const Slab& slab, std::span<const float> values);
  const std::vector<double>& image() const { return image_; }
  double norm() const;

 private:
  const Direction& direction_;
  bool by_rows_;  ///< the vector lies along stored rows
  std::vector<double> image_;
};

/// Norms over inputs of a covariance: sums of w^T C w over outputs.
class CovarianceSums {
 public:
  CovarianceSums(const model::MatrixRecord& matrix, const Matrix& covariance);
  void add(const Slab& slab, std::span<const float> difference);
  CovarianceChange finish();

 private:
  /// Of one of W and W' - W.
  struct Sum {
    double form = 0.0;          ///< sum of w^T C w
    double norm = 0.0;          ///< sum of w^T w
    std::vector<float> stored;  ///< of a transposed matrix: what was added, in x out
  };
  void add_rows(Sum& sum, std::span<const float> values);
  void add_columns(Sum& sum);
  void add_forms(Sum& sum, std::int64_t count);
  double root_of(const Sum& sum) const;

  const Matrix& covariance_;
  bool transposed_;
  double size_ = 0.0;  ///< Frobenius norm of C
  Sum before_, change_;
  std::vector<double> rows_, images_;  ///< outputs' weights, count x in, and times C
};

/// Norms of W X, D X and D X - wanted for D = W' - W.
class ProbeSums {
 public:
  ProbeSums(const model::MatrixRecord& matrix, const Probe& probe);
  void add(const Slab& slab, std::span<const float> difference);
  ProbeChange finish();

 private:
  void multiply(const Slab& slab, std::span<const float> values, std::vector<float>& out) const;
  void sum(std::span<const float> before, std::span<const float> change, std::size_t first_output);
  double standard_error() const;

  const Probe& probe_;
  bool transposed_;
  std::vector<float> before_, change_;
  std::vector<double> before_of_, change_of_;  ///< squared norms, a vector each
  double before_sum_ = 0.0, change_sum_ = 0.0, miss_sum_ = 0.0, wanted_sum_ = 0.0;
};

}  // namespace vindex::edit
