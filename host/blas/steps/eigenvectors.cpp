// Owns eigenvectors of the largest eigenvalues: xSYEVR above an order that it takes a second for.
//
// Why not its own way, inverse iteration (xSTEIN) wherever not all of them are asked for: that
// makes every vector orthogonal to those before, 17 s for a quarter of those of order 7168 and
// minutes for more of them, where relatively robust representations (xSTEMR), its way to all of
// them, take seconds. Source: Dhillon and Parlett, "Multiple representations to compute orthogonal
// eigenvectors of symmetric tridiagonal matrices" (2004).
#include "steps.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::blas::steps {
namespace {

struct Found {
  int count = 0;
  int info = 0;
};

Found whole_syevr(std::int64_t n, Columns<double> a, std::int64_t count, double* values,
                  double* vectors, double* work, int* integers) {
  const auto order = as_int(n);
  const auto lda = as_int(a.stride);
  const auto first = as_int(n - count + 1);
  const auto work_size = as_int(34 * n);  // its blocks, and so its bits, follow from it
  const auto integer_size = as_int(10 * n);
  const double unused = 0.0;
  Found found;
  blas().LAPACK_dsyevr("V", "I", "U", &order, a.values, &lda, &unused, &unused, &first, &order,
                       &unused, &found.count, values, vectors, &order, integers + 10 * n, work,
                       &work_size, integers, &integer_size, &found.info);
  return found;
}

/// Of the tridiagonal form, which is destroyed.
Found tridiagonal_vectors(std::int64_t n, double* d, double* e, std::int64_t count, double* values,
                          double* vectors, double* work, int* integers) {
  const auto order = as_int(n);
  const auto first = as_int(n - count + 1);
  const auto columns = as_int(count);
  const auto work_size = as_int(18 * n);
  const auto integer_size = as_int(10 * n);
  const double unused = 0.0;
  lapack_logical relatively = 1;  // as xSYEVR asks for
  Found found;
  blas().LAPACK_dstemr("V", "I", &order, d, e, &unused, &unused, &first, &order, &found.count,
                       values, vectors, &order, &columns, integers + 10 * n, &relatively, work,
                       &work_size, integers, &integer_size, &found.info);
  return found;
}

/// Vectors of the tridiagonal form become those of the matrix. Source: LAPACK dormtr, dormql.
void turn_back(std::int64_t n, Columns<double> a, const double* tau, std::int64_t count,
               double* vectors, double* work, const std::stop_token& stop) {
  const std::int64_t reflectors = n - 1;
  double* const t = work + count * kBlock;
  const auto ldt = as_int(kBlock);
  const auto columns = as_int(count);
  const auto lda = as_int(a.stride);
  const auto ldv = as_int(n);
  for (std::int64_t done = 0; done < reflectors; done += kBlock) {
    throw_if_stopped(stop);
    const auto block = as_int(std::min(kBlock, reflectors - done));
    const auto length = as_int(done + block);
    blas().LAPACK_dlarft("B", "C", &length, &block, a.at(0, done + 1), &lda, tau + done, t, &ldt);
    blas().LAPACK_dlarfb("L", "N", "B", "C", &length, &columns, &block, a.at(0, done + 1), &lda, t,
                         &ldt, vectors, &ldv, work, &columns);
  }
}

}  // namespace

void syevr(std::int64_t n, Columns<double> a, std::int64_t count, double* values, double* vectors,
           double* work, int* integers, const std::stop_token& stop, std::int64_t whole) {
  throw_if_stopped(stop);
  Found found;
  if (n <= whole) {
    found = whole_syevr(n, a, count, values, vectors, work, integers);
  } else {
    double* const d = work;
    double* const e = d + n;
    double* const tau = e + n;
    double* const rest = tau + n;
    sytrd(n, a, d, e, tau, rest, stop);
    found = tridiagonal_vectors(n, d, e, count, values, vectors, rest, integers);
    turn_back(n, a, tau, count, vectors, rest, stop);
  }
  expects(found.info == 0 && found.count == count, "LAPACK finds the largest eigenvalues");
}

}  // namespace vindex::blas::steps
