// Owns the block iteration that finds the dominant eigenvectors of a float32 Gram matrix G: a block
// X is multiplied by a polynomial of G that is small on [0, cut] and large above, then rotated to
// its Ritz vectors. With c = cut / 2 the filter is T_d((G - c) / c) over its value at `top`, by the
// scaled recurrence of Zhou, Saad, Tiago, Chelikowsky 2006:
//
//   s_1 = c / (top - c),              X_1 = (s_1 / c) (G - c) X_0
//   s_(j+1) = 1 / (2 / s_1 - s_j),    X_(j+1) = (2 s_(j+1) / c) (G - c) X_j - s_j s_(j+1) X_(j-1)
//
// Scaled, the filter is 1 at `top`, so that nothing overflows whatever its degree d. Between the
// top and the cut it grows by T_d(2 top / cut - 1) = cosh(d acosh(2 top / cut - 1)), from which
// degree_for() has the largest d that keeps the ratio below kMaxGrowth.
//
// Why not power steps on W (randomised SVD, Halko, Martinsson, Tropp 2011): a product with W costs
// n / p times one with G, and flat spectra, noise above all, need more than eight of them, where a
// polynomial of degree d does the work of d^2 near the cut. Why not Lanczos with one vector: it
// reads G for every product with a vector and is bound by memory.
#include "chebyshev.hpp"

#include "orthonormal.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/integers.hpp"
#include "core/philox.hpp"
#include "core/process/stop.hpp"
#include "cpu/gram/gram.hpp"
#include "cpu/plan/svd_plan.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::cpu {
namespace {

constexpr std::int32_t kMaxChebyshevRounds = 8;
constexpr int kMaxDegree = 10;
constexpr int kFirstDegree = 4;
/// Largest ratio a filter may put between two directions of the block: float32 keeps the smaller
/// one to 1e-3, and the next round repairs that. Without the cap a steep spectrum destroys the
/// block.
constexpr double kMaxGrowth = 1e4;

int degree_for(double top, double cut) {
  const double rate = std::acosh(std::max(2.0 * top / cut - 1.0, 1.0 + 1e-6));
  return std::clamp(static_cast<int>(std::acosh(kMaxGrowth) / rate), 2, kMaxDegree);
}

/// One Rayleigh-Ritz step and one filter step on a block, in preallocated arrays.
class BlockIteration {
 public:
  BlockIteration(float* gram, std::int64_t p, std::int64_t width, Workspace& workspace)
      : gram_(gram),
        p_(p),
        width_(width),
        workspace_(workspace),
        block_(workspace, p * width, "the filtered block"),
        other_(workspace, p * width, "the filtered block"),
        basis_(workspace, p * width, "an orthonormal basis"),
        image_(workspace, p * width, "the basis times the Gram matrix"),
        projected_(workspace, width * width, "the projected matrix"),
        small_(workspace, width * (kLapackBlock + 6), "Rayleigh-Ritz"),
        diagonal_(workspace, p, "the diagonal") {
    for (std::int64_t j = 0; j < p; ++j) {
      diagonal_[j] = gram[j * p + j];
    }
    for (std::int64_t i = 0; i < p * width; i += 4) {
      const PhiloxBlock words = philox4x32_10({{static_cast<std::uint32_t>(i / 4), 0, 0, 1}}, 0);
      for (std::int64_t k = 0; k < std::min<std::int64_t>(4, p * width - i); ++k) {
        block_[i + k] = static_cast<float>(words.word[k]) * 0x1p-31F - 1.0F;
      }
    }
  }

  /// Damps what belongs to eigenvalues in [0, cut]; the filter is 1 at `top`.
  void filter(double cut, double top, int degree) {
    const double half = cut / 2.0;
    // G - c I in place: the product then needs no second term.
    for (std::int64_t j = 0; j < p_; ++j) {
      gram_[j * p_ + j] = static_cast<float>(static_cast<double>(diagonal_[j]) - half);
    }
    const double first = half / (top - half);
    double ratio = first;
    multiply(ratio / half, block_, 0.0, other_);
    std::swap(block_, other_);
    for (int step = 2; step <= degree; ++step) {
      const double next = 1.0 / (2.0 / first - ratio);
      multiply(2.0 * next / half, block_, -ratio * next, other_);
      std::swap(block_, other_);
      ratio = next;
    }
    for (std::int64_t j = 0; j < p_; ++j) {
      gram_[j * p_ + j] = diagonal_[j];
    }
  }

  /// Replaces the block by Ritz vectors, descending, and fills values and residuals.
  void rayleigh_ritz(std::vector<double>& values, std::vector<double>& residuals) {
    const auto n = static_cast<lapack_int>(width_);
    const auto work_size = static_cast<lapack_int>(width_ * kLapackBlock);
    double* const work = small_.data();
    double* const ascending = work + width_ * kLapackBlock;
    lapack_int info = 0;
    std::copy_n(block_.data(), p_ * width_, basis_.data());
    orthonormalise(basis_.data(), p_, width_, workspace_);
    narrow(basis_, block_);
    multiply(1.0, block_, 0.0, other_);
    std::copy_n(other_.data(), p_ * width_, image_.data());
    // Columns are the rows of a row-major matrix.
    blas::steps::gemm(CblasNoTrans, CblasTrans, width_, width_, p_, image_.data(), basis_.data(),
                      projected_.data(), workspace_.stop());
    blas::blas().LAPACK_dsyev("V", "U", &n, projected_.data(), &n, ascending, work, &work_size,
                              &info);
    expects(info == 0, "dsyev converges on a small projected matrix");
    reverse_columns();
    values.assign(static_cast<std::size_t>(width_), 0.0);
    residuals = values;
    for (std::int64_t j = 0; j < width_; ++j) {
      values[static_cast<std::size_t>(j)] = ascending[width_ - 1 - j];
    }
    rotate(basis_, block_);
    rotate(image_, other_);
    for (std::int64_t j = 0; j < width_; ++j) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < p_; ++i) {
        const double rest =
            static_cast<double>(other_[j * p_ + i]) -
            values[static_cast<std::size_t>(j)] * static_cast<double>(block_[j * p_ + i]);
        sum += rest * rest;
      }
      residuals[static_cast<std::size_t>(j)] = std::sqrt(sum);
    }
  }

  WorkArray<float> take_block() { return std::move(block_); }

 private:
  /// out = factor G in + keep out, by as many columns as take half a second: float32 is twice as
  /// fast.
  void multiply(double factor, const WorkArray<float>& in, double keep, WorkArray<float>& out) {
    const double flop_each = 2.0 * static_cast<double>(p_) * static_cast<double>(p_);
    const std::int64_t most =
        blas::steps::piece_of(width_, flop_each, 2 * blas::steps::kWholeProduct);
    for (std::int64_t first = 0; first < width_; first += most) {
      throw_if_stopped(workspace_.stop());
      blas::blas().cblas_ssymm(CblasColMajor, CblasLeft, CblasUpper, as_int(p_),
                               as_int(std::min(most, width_ - first)), static_cast<float>(factor),
                               gram_, as_int(p_), in.data() + first * p_, as_int(p_),
                               static_cast<float>(keep), out.data() + first * p_, as_int(p_));
    }
  }
  void narrow(const WorkArray<double>& from, WorkArray<float>& to) const {
    for (std::int64_t i = 0; i < p_ * width_; ++i) {
      to[i] = static_cast<float>(from[i]);
    }
  }
  void reverse_columns() {
    for (std::int64_t j = 0; j < width_ / 2; ++j) {
      double* const left = projected_.data() + j * width_;
      std::swap_ranges(left, left + width_, projected_.data() + (width_ - 1 - j) * width_);
    }
  }
  /// to = from * projected_, rounded to float32.
  void rotate(const WorkArray<double>& from, WorkArray<float>& to) {
    std::vector<double> row(static_cast<std::size_t>(width_ * kRotateRows));
    for (std::int64_t first = 0; first < p_; first += kRotateRows) {
      const std::int64_t count = std::min(kRotateRows, p_ - first);
      blas::blas().cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, as_int(count),
                               as_int(width_), as_int(width_), 1.0, from.data() + first, as_int(p_),
                               projected_.data(), as_int(width_), 0.0, row.data(), as_int(count));
      for (std::int64_t j = 0; j < width_; ++j) {
        for (std::int64_t i = 0; i < count; ++i) {
          to[j * p_ + first + i] = static_cast<float>(row[static_cast<std::size_t>(j * count + i)]);
        }
      }
    }
  }
  static constexpr std::int64_t kRotateRows = 256;

  float* gram_;
  std::int64_t p_;
  std::int64_t width_;
  Workspace& workspace_;
  WorkArray<float> block_, other_;
  WorkArray<double> basis_, image_, projected_, small_;
  WorkArray<float> diagonal_;
};

}  // namespace

std::uint64_t top_subspace_bytes(std::int64_t p, std::int64_t width) {
  return 2 * array_bytes(p * width, sizeof(float)) + 2 * array_bytes(p * width, sizeof(double)) +
         array_bytes(width * width, sizeof(double)) +
         array_bytes(width * (kLapackBlock + 6), sizeof(double)) + array_bytes(p, sizeof(float)) +
         orthonormal_bytes(width) + array_bytes(width * 256, sizeof(double));
}

TopSubspace top_subspace(
    float* gram, std::int64_t p, std::int64_t width,
    const std::function<bool(std::span<const double>, std::span<const double>)>& enough,
    Workspace& workspace) {
  expects(width >= 1 && width <= p, "top_subspace: a block no wider than the matrix");
  double trace = 0.0;
  for (std::int64_t j = 0; j < p; ++j) {
    trace += static_cast<double>(gram[j * p + j]);
  }
  const double norm = std::sqrt(symmetric_norm_squared(gram, p));
  expects(norm > 0.0, "top_subspace: a matrix that is not zero");
  TopSubspace top;
  BlockIteration iteration(gram, p, width, workspace);
  // The mean eigenvalue lies below the wanted ones, the Frobenius norm above all.
  iteration.filter(trace / static_cast<double>(p), norm, kFirstDegree);
  for (;;) {
    iteration.rayleigh_ritz(top.values, top.residuals);
    ++top.rounds;
    if (top.rounds == kMaxChebyshevRounds || enough(top.values, top.residuals)) {
      break;
    }
    const double highest = top.values.front() + top.residuals.front();
    // The last Ritz value is the best known edge of what is to be damped. In a matrix of low rank
    // it is rounding, and a filter of [0, rounding] damps nothing.
    const double cut = std::max(top.values.back(), 1e-4 * highest);
    iteration.filter(cut, highest, degree_for(highest, cut));
  }
  top.basis = iteration.take_block();
  return top;
}

}  // namespace vindex::cpu
