#include "slab_sums.hpp"

#include <vindex/blas/blas.hpp>

#include <cmath>

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

ProbeSums::ProbeSums(const model::MatrixRecord& matrix, const Probe& probe)
    : probe_(probe), transposed_(matrix.transposed) {
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
    const double old = before[i];
    const double difference = change[i];
    before_sum_ += old * old;
    change_sum_ += difference * difference;
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
  return {std::sqrt(before_sum_), std::sqrt(change_sum_), std::sqrt(miss_sum_),
          std::sqrt(wanted_sum_)};
}

}  // namespace vindex::edit
