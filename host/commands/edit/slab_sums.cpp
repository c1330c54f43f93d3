// Owns those sums, for row slabs and column slabs alike.
#include "slab_sums.hpp"

#include "blas/blas.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vindex::edit {

VectorImage::VectorImage(const model::MatrixRecord& matrix, const Direction& direction)
    : direction_(direction),
      by_rows_((direction.side == Side::kRight) != matrix.transposed),
      image_(static_cast<std::size_t>(direction.side == Side::kRight ? matrix.rows : matrix.cols)) {
}

void VectorImage::add(const Slab& slab, std::span<const float> values) {
  const auto cols = static_cast<std::size_t>(slab.cols);
  for (std::int64_t row = 0; row < slab.count; ++row) {
    const float* const weights = values.data() + row * slab.cols;
    const auto at = static_cast<std::size_t>(slab.first + row);
    if (by_rows_) {
      double sum = 0.0;
      for (std::size_t j = 0; j < cols; ++j) {
        sum += static_cast<double>(weights[j]) * direction_.unit[j];
      }
      image_[at] = sum;
    } else {
      const double share = direction_.unit[at];
      for (std::size_t j = 0; j < cols; ++j) {
        image_[j] += share * static_cast<double>(weights[j]);
      }
    }
  }
}

double VectorImage::norm() const {
  double sum = 0.0;
  for (const double value : image_) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

CovarianceSums::CovarianceSums(const model::MatrixRecord& matrix, const Matrix& covariance)
    : covariance_(covariance), transposed_(matrix.transposed) {
  for (const double value : covariance.values) {
    size_ += value * value;
  }
  size_ = std::sqrt(size_);
}

void CovarianceSums::add(const Slab& slab, std::span<const float> difference) {
  add_rows(before_, slab.values);
  add_rows(change_, difference);
}

void CovarianceSums::add_rows(Sum& sum, std::span<const float> values) {
  if (transposed_) {  // an output's weights are in every slab
    sum.stored.insert(sum.stored.end(), values.begin(), values.end());
    return;
  }
  rows_.assign(values.begin(), values.end());
  add_forms(sum, static_cast<std::int64_t>(values.size()) / covariance_.rows);
}

void CovarianceSums::add_columns(Sum& sum) {
  const auto in = static_cast<std::size_t>(covariance_.rows);
  const std::size_t outputs = sum.stored.size() / in;
  const std::size_t step =
      std::max<std::size_t>(1, static_cast<std::size_t>(engine::kSlabValues) / in);
  for (std::size_t first = 0; first < outputs; first += step) {
    const std::size_t count = std::min(step, outputs - first);
    rows_.resize(count * in);
    for (std::size_t i = 0; i < in; ++i) {
      for (std::size_t k = 0; k < count; ++k) {
        rows_[k * in + i] = sum.stored[i * outputs + first + k];
      }
    }
    add_forms(sum, static_cast<std::int64_t>(count));
  }
}

void CovarianceSums::add_forms(Sum& sum, std::int64_t count) {
  const auto in = static_cast<int>(covariance_.rows);
  images_.resize(rows_.size());
  blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(count), in,
                           in, 1.0, rows_.data(), in, covariance_.values.data(), in, 0.0,
                           images_.data(), in);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    sum.form += rows_[i] * images_[i];
    sum.norm += rows_[i] * rows_[i];
  }
}

/// A sum below zero is rounding where it is small beside its bound, |C|_F |W|_F^2; else C is none.
double CovarianceSums::root_of(const Sum& sum) const {
  constexpr double kRounding = 1e-12;
  return sum.form < 0.0 && sum.form > -kRounding * size_ * sum.norm ? 0.0 : std::sqrt(sum.form);
}

CovarianceChange CovarianceSums::finish() {
  if (transposed_) {
    add_columns(before_);
    add_columns(change_);
  }
  return {root_of(before_), root_of(change_)};
}

ProbeSums::ProbeSums(const model::MatrixRecord& matrix, const Probe& probe)
    : probe_(probe),
      transposed_(matrix.transposed),
      before_of_(static_cast<std::size_t>(probe.count)),
      change_of_(static_cast<std::size_t>(probe.count)) {
  if (transposed_) {  // outputs grow with every slab
    before_.resize(static_cast<std::size_t>(matrix.rows * probe.count));
    change_.resize(before_.size());
  }
}

void ProbeSums::multiply(const Slab& slab, std::span<const float> values,
                         std::vector<float>& out) const {
  const auto rows = static_cast<int>(slab.count);
  const auto cols = static_cast<int>(slab.cols);
  const auto count = static_cast<int>(probe_.count);
  if (transposed_) {
    blas::blas().cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, cols, count, rows, 1.0F,
                             values.data(), cols, probe_.inputs.data() + slab.first * probe_.count,
                             count, 1.0F, out.data(), count);
  } else {
    out.resize(static_cast<std::size_t>(slab.count * probe_.count));
    blas::blas().cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, count, cols, 1.0F,
                             values.data(), cols, probe_.inputs.data(), count, 0.0F, out.data(),
                             count);
  }
}

void ProbeSums::add(const Slab& slab, std::span<const float> difference) {
  multiply(slab, slab.values, before_);
  multiply(slab, difference, change_);
  if (!transposed_) {
    sum(before_, change_, static_cast<std::size_t>(slab.first * probe_.count));
  }
}

void ProbeSums::sum(std::span<const float> before, std::span<const float> change,
                    std::size_t first_output) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t vector = i % before_of_.size();
    const double old = before[i];
    const double difference = change[i];
    before_of_[vector] += old * old;
    change_of_[vector] += difference * difference;
    if (!probe_.wanted.empty()) {
      const double wanted = probe_.wanted[first_output + i];
      wanted_sum_ += wanted * wanted;
      miss_sum_ += (difference - wanted) * (difference - wanted);
    }
  }
}

ProbeChange ProbeSums::finish() {
  if (transposed_) {
    sum(before_, change_, 0);
  }
  before_sum_ = std::accumulate(before_of_.begin(), before_of_.end(), 0.0);
  change_sum_ = std::accumulate(change_of_.begin(), change_of_.end(), 0.0);
  return {std::sqrt(before_sum_), std::sqrt(change_sum_), std::sqrt(miss_sum_),
          std::sqrt(wanted_sum_), standard_error()};
}

/// Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11.
double ProbeSums::standard_error() const {
  const auto count = static_cast<double>(before_of_.size());
  std::vector<double> without(before_of_.size());
  double mean = 0.0;
  for (std::size_t i = 0; i < without.size(); ++i) {
    const double before = before_sum_ - before_of_[i];
    if (!(before > 0.0)) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    without[i] = std::sqrt(std::max(change_sum_ - change_of_[i], 0.0) / before);
    mean += without[i] / count;
  }
  double squares = 0.0;
  for (const double value : without) {
    squares += (value - mean) * (value - mean);
  }
  return std::sqrt((count - 1.0) / count * squares);
}

}  // namespace vindex::edit
