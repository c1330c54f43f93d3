// Owns the few smallest singular values of a triangle R, by inverse iteration with a block on both
// sides:
//
//   U = orth(R^-T V),   V = orth(R^-1 U),   several times;     U^T R V = P diag(s) Y^T
//   residuals |R v - s u| and |R^T u - s v|, at most p eps64 s_1 for each that is sought
//
// A value with such residuals lies within them of a singular value of R: it is an eigenvalue of [0,
// R; R^T, 0] disturbed by that much (Weyl). Source: Golub and Van Loan, Matrix Computations, 8.2.4
// and 8.6; BLAS trsm, LAPACK gesvd.
//
// Why not gebrd of R: it finds all p values for 8/3 p^3 flop, half of them bound by memory, where a
// handful is lost; a solve costs p^2 for each column. Why the iteration is on R and not on R^T R:
// the smallest values are those that squaring would lose again.
#include "strict_qr.hpp"

#include "blas/blas.hpp"
#include "core/constants.hpp"
#include "core/integers.hpp"
#include "core/philox.hpp"
#include "core/process/stop.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/top/orthonormal.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::cpu {
namespace {

constexpr int kMaxTailRounds = 8;
constexpr int kSolvesPerRound = 3;

std::int64_t tail_qr_work(std::int64_t width) { return width * (kLapackBlock + 8); }

class InverseIteration {
 public:
  InverseIteration(double* r, std::int64_t p, std::int64_t width, double largest,
                   Workspace& workspace)
      : r_(r),
        p_(p),
        width_(width),
        floor_(kEps64 * largest),
        workspace_(workspace),
        basis_(workspace, p * width, "the smallest singular vectors"),
        left_(workspace, p * width, "the smallest singular vectors"),
        image_(workspace, p * width, "the smallest singular vectors"),
        left_image_(workspace, p * width, "the smallest singular vectors"),
        other_(workspace, p * width, "the smallest singular vectors"),
        small_(workspace, 3 * width * width, "a small decomposition"),
        work_(workspace, tail_qr_work(width), "a small decomposition"),
        diagonal_(workspace, p, "the diagonal") {
    for (std::int64_t j = 0; j < p; ++j) {
      diagonal_[j] = r[j * p + j];
    }
    for (std::int64_t i = 0; i < p * width; ++i) {
      const PhiloxBlock words = philox4x32_10({{static_cast<std::uint32_t>(i), 0, 0, 2}}, 0);
      basis_[i] = static_cast<double>(words.word[0]) * 0x1p-31 - 1.0;
    }
  }

  /// left = orthonormal columns of R^-T basis, basis = those of R^-1 left, several times: both
  /// sides come from solves, since R times a vector of a tiny value is mostly rounding. A diagonal
  /// entry below eps64 s_1 counts as that: a perturbation within the rounding of R, no division by
  /// zero.
  void solve() {
    for (std::int64_t j = 0; j < p_; ++j) {
      const double value = diagonal_[j];
      r_[j * p_ + j] = std::abs(value) < floor_ ? std::copysign(floor_, value) : value;
    }
    for (int step = 0; step < kSolvesPerRound; ++step) {
      std::copy_n(basis_.data(), p_ * width_, left_.data());
      triangular_solve(CblasTrans, left_);
      orthonormalise(left_.data(), p_, width_, workspace_);
      std::copy_n(left_.data(), p_ * width_, basis_.data());
      triangular_solve(CblasNoTrans, basis_);
      orthonormalise(basis_.data(), p_, width_, workspace_);
    }
    for (std::int64_t j = 0; j < p_; ++j) {
      r_[j * p_ + j] = diagonal_[j];
    }
  }

  /// Singular values of left^T R basis, ascending, with the larger of |R v - s u| and |R^T u - s v|
  /// of each. False where that small matrix is not finite.
  bool project(std::vector<double>& values, std::vector<double>& residuals) {
    const std::int64_t square = width_ * width_;
    double* const projected = small_.data();
    double* const left_rotation = projected + square;
    double* const right_rotation = left_rotation + square;  // rows are right vectors
    // R V and R^T U once each serve the small matrix and both residuals.
    std::copy_n(basis_.data(), p_ * width_, image_.data());
    triangular_multiply(CblasNoTrans, image_);
    std::copy_n(left_.data(), p_ * width_, left_image_.data());
    triangular_multiply(CblasTrans, left_image_);
    blas::blas().cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, as_int(width_),
                             as_int(width_), as_int(p_), 1.0, left_.data(), as_int(p_),
                             image_.data(), as_int(p_), 0.0, projected, as_int(width_));
    if (!std::all_of(projected, projected + square, [](double x) { return std::isfinite(x); })) {
      return false;
    }
    values.assign(static_cast<std::size_t>(width_), 0.0);
    const auto n = static_cast<lapack_int>(width_);
    const auto work_size = static_cast<lapack_int>(work_.size());
    lapack_int info = 0;
    blas::blas().LAPACK_dgesvd("A", "A", &n, &n, projected, &n, values.data(), left_rotation, &n,
                               right_rotation, &n, work_.data(), &work_size, &info);
    expects(info == 0, "dgesvd converges on a small matrix");
    // Smallest first: the next solves blow up that direction most, and orthogonalisation must take
    // it out of the columns behind it, not spread it over them.
    std::reverse(values.begin(), values.end());
    for (std::int64_t j = 0; j < width_ / 2; ++j) {
      double* const column = left_rotation + j * width_;
      std::swap_ranges(column, column + width_, left_rotation + (width_ - 1 - j) * width_);
    }
    for (std::int64_t j = 0; j < width_; ++j) {
      std::reverse(right_rotation + j * width_, right_rotation + (j + 1) * width_);
    }
    rotate(left_, CblasNoTrans, left_rotation);
    rotate(left_image_, CblasNoTrans, left_rotation);
    rotate(basis_, CblasTrans, right_rotation);
    rotate(image_, CblasTrans, right_rotation);
    residuals.clear();
    for (std::int64_t j = 0; j < width_; ++j) {
      const double value = values[static_cast<std::size_t>(j)];
      residuals.push_back(
          std::max(distance(image_, left_, j, value), distance(left_image_, basis_, j, value)));
    }
    return true;
  }

 private:
  /// |a_j - value b_j|
  double distance(const WorkArray<double>& a, const WorkArray<double>& b, std::int64_t j,
                  double value) const {
    double sum = 0.0;
    for (std::int64_t i = j * p_; i < (j + 1) * p_; ++i) {
      const double rest = a[i] - value * b[i];
      sum += rest * rest;
    }
    return std::sqrt(sum);
  }
  void triangular_solve(CBLAS_TRANSPOSE side, WorkArray<double>& columns) {
    throw_if_stopped(workspace_.stop());
    blas::blas().cblas_dtrsm(CblasColMajor, CblasLeft, CblasUpper, side, CblasNonUnit, as_int(p_),
                             as_int(width_), 1.0, r_, as_int(p_), columns.data(), as_int(p_));
  }
  void triangular_multiply(CBLAS_TRANSPOSE side, WorkArray<double>& columns) {
    blas::blas().cblas_dtrmm(CblasColMajor, CblasLeft, CblasUpper, side, CblasNonUnit, as_int(p_),
                             as_int(width_), 1.0, r_, as_int(p_), columns.data(), as_int(p_));
  }
  /// columns = columns * rotation (or its transpose).
  void rotate(WorkArray<double>& columns, CBLAS_TRANSPOSE side, const double* rotation) {
    blas::blas().cblas_dgemm(CblasColMajor, CblasNoTrans, side, as_int(p_), as_int(width_),
                             as_int(width_), 1.0, columns.data(), as_int(p_), rotation,
                             as_int(width_), 0.0, other_.data(), as_int(p_));
    std::copy_n(other_.data(), p_ * width_, columns.data());
  }

  double* r_;
  std::int64_t p_;
  std::int64_t width_;
  double floor_;
  Workspace& workspace_;
  WorkArray<double> basis_, left_, image_, left_image_, other_, small_, work_, diagonal_;
};

}  // namespace

std::uint64_t tail_bytes(std::int64_t p) {
  const std::int64_t width = carried_columns(std::max<std::int64_t>(max_tail_values(p), 1), p);
  return 5 * array_bytes(p * width, sizeof(double)) +
         array_bytes(3 * width * width, sizeof(double)) +
         array_bytes(tail_qr_work(width), sizeof(double)) + array_bytes(p, sizeof(double)) +
         orthonormal_bytes(width);
}

std::vector<double> smallest_singular_values(double* r, std::int64_t p, std::int64_t count,
                                             double largest, Workspace& workspace) {
  expects(count >= 1 && count <= p, "smallest_singular_values: some of the values");
  InverseIteration iteration(r, p, carried_columns(count, p), largest, workspace);
  std::vector<double> values;
  std::vector<double> residuals;
  const double enough = static_cast<double>(p) * kEps64 * largest;
  for (int round = 0; round < kMaxTailRounds; ++round) {
    iteration.solve();
    if (!iteration.project(values, residuals)) {
      return {};
    }
    if (*std::max_element(residuals.begin(), residuals.begin() + count) <= enough) {
      values.resize(static_cast<std::size_t>(count));
      std::reverse(values.begin(), values.end());
      return values;
    }
  }
  return {};
}

}  // namespace vindex::cpu
