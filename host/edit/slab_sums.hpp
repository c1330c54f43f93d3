// Owns what is summed over the slabs of a matrix: its product with a vector, and its outputs for
// many inputs, whichever way round it is stored.
#pragma once

#include "slabs.hpp"

#include <vindex/edit/matrix_edit.hpp>

#include <span>
#include <vector>

namespace vindex::edit {

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
