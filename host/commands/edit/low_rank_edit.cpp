// Owns deletion, insertion and bounded edits as factors, and their spectra.
#include "low_rank_edit.hpp"

#include "blas/steps/steps.hpp"
#include "cpu/product/product_spectrum.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace vindex::edit {
namespace {

std::vector<float> rounded(std::span<const double> values, double scale) {
  std::vector<float> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(),
                 [scale](double value) { return static_cast<float>(scale * value); });
  return out;
}

double norm_of(std::span<const double> values) {
  // Scaled, so that neither huge nor tiny vectors lose their length.
  double largest = 0.0;
  for (const double value : values) {
    largest = std::max(largest, std::fabs(value));
  }
  if (largest == 0.0 || !std::isfinite(largest)) {
    return largest;
  }
  double sum = 0.0;
  for (const double value : values) {
    sum += (value / largest) * (value / largest);
  }
  return largest * std::sqrt(sum);
}

}  // namespace

std::vector<double> unit_vector(std::span<const double> values, const std::string& where) {
  const double norm = norm_of(values);
  if (!all_finite(values)) {
    throw FormatError("E-EDIT-DIRECTION", where, "a component is not finite");
  }
  if (!(norm > 0.0)) {
    throw FormatError("E-EDIT-DIRECTION", where, "the vector is zero: it has no direction");
  }
  std::vector<double> out(values.begin(), values.end());
  for (double& value : out) {
    value /= norm;
  }
  return out;
}

LowRankEdit deletion(Side side, std::span<const double> direction, std::span<const double> image,
                     double alpha) {
  LowRankEdit edit;
  edit.rank = 1;
  const bool right = side == Side::kRight;
  edit.rows = static_cast<std::int64_t>(right ? image.size() : direction.size());
  edit.cols = static_cast<std::int64_t>(right ? direction.size() : image.size());
  edit.a = rounded(right ? direction : image, right ? 1.0 : -alpha);
  edit.b = rounded(right ? image : direction, right ? -alpha : 1.0);
  return edit;
}

LowRankEdit factors_of(std::span<const double> product, std::int64_t rows, std::int64_t cols) {
  LowRankEdit edit;
  edit.rows = rows;
  edit.cols = cols;
  edit.rank = std::min(rows, cols);
  std::vector<float> identity(static_cast<std::size_t>(edit.rank * edit.rank));
  for (std::int64_t i = 0; i < edit.rank; ++i) {
    identity[static_cast<std::size_t>(i * (edit.rank + 1))] = 1.0F;
  }
  edit.a = rows <= cols ? rounded(product, 1.0) : identity;
  edit.b = rows <= cols ? std::move(identity) : rounded(product, 1.0);
  return edit;
}

LowRankEdit insertion(std::span<const double> key, std::span<const double> value) {
  const std::vector<double> unit = unit_vector(key, "the key");
  LowRankEdit edit;
  edit.rank = 1;
  edit.rows = static_cast<std::int64_t>(value.size());
  edit.cols = static_cast<std::int64_t>(key.size());
  edit.a = rounded(unit, 1.0 / norm_of(key));
  edit.b = rounded(value, 1.0);
  return edit;
}

EditSpectrum spectrum_of(const LowRankEdit& edit, const std::stop_token& stop) {
  EditSpectrum out;
  if (edit.rank == 0 || edit.rows == 0 || edit.cols == 0) {
    return out;
  }
  const cpu::Factor left{edit.rows, edit.rank, {edit.b.begin(), edit.b.end()}};
  const cpu::Factor right{edit.rank, edit.cols, {edit.a.begin(), edit.a.end()}};
  const cpu::Factor* const chain[] = {&left, &right};
  MatrixReport found = cpu::product_spectrum(chain, 1.0, stop);
  if (found.status != MatrixStatus::kMeasured) {
    throw DeviceError("E-LAPACK", "no singular values of an edit's factors: " + found.reason);
  }
  out.sigma = std::move(found.sigma);
  out.norm = norm_of(out.sigma);
  const double least = out.sigma.front() * static_cast<double>(std::max(edit.rows, edit.cols)) *
                       static_cast<double>(std::numeric_limits<float>::epsilon());
  out.rank = std::count_if(out.sigma.begin(), out.sigma.end(),
                           [least](double value) { return value > least; });
  return out;
}

LowRankEdit bounded(LowRankEdit edit, const std::stop_token& stop) {
  const std::int64_t most = std::min(edit.rows, edit.cols);
  if (edit.rank <= most) {
    return edit;
  }
  const std::vector<double> a(edit.a.begin(), edit.a.end());
  const std::vector<double> b(edit.b.begin(), edit.b.end());
  std::vector<double> product(static_cast<std::size_t>(edit.rows * edit.cols));
  blas::steps::gemm(CblasNoTrans, CblasNoTrans, edit.rows, edit.cols, edit.rank, b.data(), a.data(),
                    product.data(), stop);
  return factors_of(product, edit.rows, edit.cols);
}

LowRankEdit scaled(LowRankEdit edit, double scale) {
  for (float& value : edit.b) {
    value = static_cast<float>(scale * static_cast<double>(value));
  }
  return edit;
}

}  // namespace vindex::edit
