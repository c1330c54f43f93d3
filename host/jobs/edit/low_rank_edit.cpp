// Owns deletion, insertion and bounded edits as factors, and their spectra from small Gram
// matrices.
#include "matrix_edit.hpp"

#include "blas/blas.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

/// rank x rank: inner products of the `rank` rows of a factor, or of its columns; `length`: of
/// each.
std::vector<double> gram_of(const std::vector<float>& factor, std::int64_t rank,
                            std::int64_t length, bool of_rows) {
  const auto r = static_cast<int>(rank);
  const auto k = static_cast<int>(length);
  const int stride = of_rows ? k : r;
  const std::vector<double> values(factor.begin(), factor.end());
  std::vector<double> gram(static_cast<std::size_t>(rank * rank));
  blas::blas().cblas_dgemm(CblasRowMajor, of_rows ? CblasNoTrans : CblasTrans,
                           of_rows ? CblasTrans : CblasNoTrans, r, r, k, 1.0, values.data(), stride,
                           values.data(), stride, 0.0, gram.data(), r);
  return gram;
}

std::vector<double> eigen(std::vector<double>& matrix, std::int64_t side, bool with_vectors) {
  auto values = symmetric_eigenvalues(matrix, side, with_vectors);
  if (!values) {
    throw DeviceError("E-LAPACK", "dsyev found no eigenvalues of an edit's factors");
  }
  return std::move(*values);
}

}  // namespace

std::optional<std::vector<double>> symmetric_eigenvalues(std::vector<double>& matrix,
                                                         std::int64_t side, bool with_vectors) {
  std::vector<double> values(static_cast<std::size_t>(side));
  const int n = static_cast<int>(side);
  int info = 0;
  int wanted = -1;
  double size = 0.0;
  const char job = with_vectors ? 'V' : 'N';
  blas::blas().LAPACK_dsyev(&job, "U", &n, matrix.data(), &n, values.data(), &size, &wanted, &info);
  wanted = static_cast<int>(size);
  std::vector<double> work(static_cast<std::size_t>(wanted));
  blas::blas().LAPACK_dsyev(&job, "U", &n, matrix.data(), &n, values.data(), work.data(), &wanted,
                            &info);
  return info == 0 ? std::optional(std::move(values)) : std::nullopt;
}

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

EditSpectrum spectrum_of(const LowRankEdit& edit) {
  EditSpectrum out;
  if (edit.rank == 0 || edit.rows == 0 || edit.cols == 0) {
    return out;
  }
  // The singular values of b a are the roots of the eigenvalues of S (a a^T) S, S^2 = b^T b.
  const auto r = static_cast<std::size_t>(edit.rank);
  std::vector<double> vectors = gram_of(edit.b, edit.rank, edit.rows, false);
  const std::vector<double> values = eigen(vectors, edit.rank, true);
  const std::vector<double> rows = gram_of(edit.a, edit.rank, edit.cols, true);
  const auto n = static_cast<int>(edit.rank);
  for (std::size_t k = 0; k < r; ++k) {
    const double root = std::sqrt(std::max(values[k], 0.0));
    for (std::size_t i = 0; i < r; ++i) {
      vectors[k * r + i] *= root;  // row k (row-major): sqrt(value) times vector k
    }
  }
  std::vector<double> half(r * r);
  std::vector<double> core(r * r);
  blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, vectors.data(),
                           n, rows.data(), n, 0.0, half.data(), n);
  blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1.0, half.data(), n,
                           vectors.data(), n, 0.0, core.data(), n);
  out.sigma = eigen(core, edit.rank, false);
  std::reverse(out.sigma.begin(), out.sigma.end());
  double sum = 0.0;
  for (double& value : out.sigma) {
    value = std::max(value, 0.0);
    sum += value;
    value = std::sqrt(value);
  }
  out.norm = std::sqrt(sum);
  const double least = out.sigma.front() * static_cast<double>(std::max(edit.rows, edit.cols)) *
                       static_cast<double>(std::numeric_limits<float>::epsilon());
  out.rank = std::count_if(out.sigma.begin(), out.sigma.end(),
                           [least](double value) { return value > least; });
  return out;
}

LowRankEdit bounded(LowRankEdit edit) {
  const std::int64_t most = std::min(edit.rows, edit.cols);
  if (edit.rank <= most) {
    return edit;
  }
  const auto rank = static_cast<int>(edit.rank);
  const auto rows = static_cast<int>(edit.rows);
  const auto cols = static_cast<int>(edit.cols);
  const std::vector<double> a(edit.a.begin(), edit.a.end());
  const std::vector<double> b(edit.b.begin(), edit.b.end());
  std::vector<double> product(static_cast<std::size_t>(edit.rows * edit.cols));
  blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, rank, 1.0,
                           b.data(), rank, a.data(), cols, 0.0, product.data(), cols);
  return factors_of(product, edit.rows, edit.cols);
}

LowRankEdit scaled(LowRankEdit edit, double scale) {
  for (float& value : edit.b) {
    value = static_cast<float>(scale * static_cast<double>(value));
  }
  return edit;
}

}  // namespace vindex::edit
