// Owns the tridiagonal form of a symmetric matrix. A panel reads half of the rest of the matrix for
// each of its columns and takes 0.8 s at 7168.
#include "steps.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

namespace vindex::blas::steps {
namespace {

/// Up to this order without blocks; ILAENV's is the size of a block.
constexpr std::int64_t kTridiagonalCrossover = kBlock;

struct Library64 {
  static constexpr auto latrd = &BlasFunctions::dlatrd_;
  static constexpr auto syr2k = &BlasFunctions::cblas_dsyr2k;
  static constexpr auto sytrd = &BlasFunctions::dsytrd_;
};

struct Library32 {
  static constexpr auto latrd = &BlasFunctions::slatrd_;
  static constexpr auto syr2k = &BlasFunctions::cblas_ssyr2k;
  static constexpr auto sytrd = &BlasFunctions::ssytrd_;
};

template <typename Library, typename Real>
void reduce(std::int64_t n, Columns<Real> a, Real* d, Real* e, Real* tau, Real* work,
            const std::stop_token& stop) {
  const BlasFunctions& library = blas();
  const auto lda = as_int(a.stride);
  const auto ldw = as_int(n);
  const auto block = as_int(kBlock);
  std::int64_t left = n;
  for (; left > kTridiagonalCrossover; left -= kBlock) {  // from the last column to the first
    throw_if_stopped(stop);
    const std::int64_t rest = left - kBlock;
    const auto order = as_int(left);
    (library.*Library::latrd)("U", &order, &block, a.values, &lda, e, tau, work, &ldw, 1);
    throw_if_stopped(stop);
    (library.*Library::syr2k)(CblasColMajor, CblasUpper, CblasNoTrans, as_int(rest), block,
                              Real{-1}, a.at(0, rest), lda, work, ldw, Real{1}, a.values, lda);
    for (std::int64_t j = rest; j < left; ++j) {
      *a.at(j - 1, j) = e[j - 1];
      d[j] = *a.at(j, j);
    }
  }
  throw_if_stopped(stop);
  const auto order = as_int(left);
  const auto work_size = as_int(n * kBlock);
  int info = 0;
  (library.*Library::sytrd)("U", &order, a.values, &lda, d, e, tau, work, &work_size, &info, 1);
  expects(info == 0, "xSYTRD accepts its arguments");
}

}  // namespace

void sytrd(std::int64_t n, Columns<double> a, double* d, double* e, double* tau, double* work,
           const std::stop_token& stop) {
  reduce<Library64>(n, a, d, e, tau, work, stop);
}

void sytrd(std::int64_t n, Columns<float> a, float* d, float* e, float* tau, float* work,
           const std::stop_token& stop) {
  reduce<Library32>(n, a, d, e, tau, work, stop);
}

}  // namespace vindex::blas::steps
