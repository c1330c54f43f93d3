// Owns QR and LQ decompositions by blocks of reflectors, and Q made of them. A block on the rest of
// a 7168 x 7168 matrix is 6.6 Gflop.
#include "steps.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::blas::steps {
namespace {

constexpr std::int64_t kReflectorCrossover = 128;  ///< up to so many reflectors without blocks

/// kBlock reflectors of `length` as one: I - V T V^T. `store`: 'C' columns of V, 'R' its rows.
/// T (kBlock x kBlock) begins `work`, whose rest is for apply(); both have the stride of LAPACK's
/// drivers.
class BlockReflector {
 public:
  BlockReflector(char store, std::int64_t length, Columns<double> v, const double* tau,
                 Columns<double> work)
      : store_(store), length_(as_int(length)), v_(v), work_(work) {
    const auto ldv = as_int(v_.stride);
    const auto ldw = as_int(work_.stride);
    blas().LAPACK_dlarft("F", &store_, &length_, &block_, v_.values, &ldv, tau, work_.values, &ldw);
  }

  /// To `count` columns of `c` from the left ('T': its transpose), or to as many rows from the
  /// right.
  void apply(char side, char turn, std::int64_t count, Columns<double> c) const {
    const auto other = as_int(count);
    const auto ldv = as_int(v_.stride);
    const auto ldc = as_int(c.stride);
    const auto ldw = as_int(work_.stride);
    const bool left = side == 'L';
    blas().LAPACK_dlarfb(&side, &turn, "F", &store_, left ? &length_ : &other,
                         left ? &other : &length_, &block_, v_.values, &ldv, work_.values, &ldw,
                         c.values, &ldc, work_.values + kBlock, &ldw);
  }

 private:
  char store_;
  int length_;
  int block_ = static_cast<int>(kBlock);
  Columns<double> v_, work_;
};

// One call of the library each; whole where there are at most kReflectorCrossover reflectors.

void whole_geqrf(std::int64_t m, std::int64_t n, Columns<double> a, double* tau, double* work) {
  const auto rows = as_int(m);
  const auto cols = as_int(n);
  const auto lda = as_int(a.stride);
  const auto work_size = as_int(n * kBlock);
  int info = 0;
  blas().LAPACK_dgeqrf(&rows, &cols, a.values, &lda, tau, work, &work_size, &info);
  expects(info == 0, "dgeqrf accepts its arguments");
}

void whole_gelqf(std::int64_t m, std::int64_t n, Columns<double> a, double* tau, double* work) {
  const auto rows = as_int(m);
  const auto cols = as_int(n);
  const auto lda = as_int(a.stride);
  const auto work_size = as_int(m * kBlock);
  int info = 0;
  blas().LAPACK_dgelqf(&rows, &cols, a.values, &lda, tau, work, &work_size, &info);
  expects(info == 0, "dgelqf accepts its arguments");
}

void whole_orgqr(std::int64_t m, std::int64_t n, Columns<double> a, const double* tau,
                 double* work) {
  const auto rows = as_int(m);
  const auto cols = as_int(n);
  const auto lda = as_int(a.stride);
  const auto work_size = as_int(n * kBlock);
  int info = 0;
  blas().LAPACK_dorgqr(&rows, &cols, &cols, a.values, &lda, tau, work, &work_size, &info);
  expects(info == 0, "dorgqr accepts its arguments");
}

}  // namespace

void geqrf(std::int64_t m, std::int64_t n, Columns<double> a, double* tau, double* work,
           const std::stop_token& stop) {
  std::int64_t done = 0;
  for (; done < std::min(m, n) - kReflectorCrossover; done += kBlock) {
    throw_if_stopped(stop);
    const Columns<double> left = a.from(done, done);
    whole_geqrf(m - done, kBlock, left, tau + done, work);
    BlockReflector('C', m - done, left, tau + done, {work, n})
        .apply('L', 'T', n - done - kBlock, left.from(0, kBlock));
  }
  throw_if_stopped(stop);
  whole_geqrf(m - done, n - done, a.from(done, done), tau + done, work);
}

void gelqf(std::int64_t m, std::int64_t n, Columns<double> a, double* tau, double* work,
           const std::stop_token& stop) {
  std::int64_t done = 0;
  for (; done < std::min(m, n) - kReflectorCrossover; done += kBlock) {
    throw_if_stopped(stop);
    const Columns<double> left = a.from(done, done);
    whole_gelqf(kBlock, n - done, left, tau + done, work);
    BlockReflector('R', n - done, left, tau + done, {work, m})
        .apply('R', 'N', m - done - kBlock, left.from(kBlock, 0));
  }
  throw_if_stopped(stop);
  whole_gelqf(m - done, n - done, a.from(done, done), tau + done, work);
}

void orgqr(std::int64_t m, std::int64_t n, Columns<double> a, const double* tau, double* work,
           const std::stop_token& stop) {
  // From the last reflectors to the first: those behind `done` without blocks, at most
  // kReflectorCrossover.
  std::int64_t done =
      ceil_divide(std::max(n - kReflectorCrossover, std::int64_t{0}), kBlock) * kBlock;
  const auto clear_above = [&](std::int64_t rows, std::int64_t first, std::int64_t end) {
    for (std::int64_t j = first; j < end; ++j) {
      std::fill_n(a.at(0, j), rows, 0.0);
    }
  };
  throw_if_stopped(stop);
  clear_above(done, done, n);
  whole_orgqr(m - done, n - done, a.from(done, done), tau + done, work);
  while (done > 0) {
    throw_if_stopped(stop);
    done -= kBlock;
    const Columns<double> left = a.from(done, done);
    BlockReflector('C', m - done, left, tau + done, {work, n})
        .apply('L', 'N', n - done - kBlock, left.from(0, kBlock));
    whole_orgqr(m - done, kBlock, left, tau + done, work);
    clear_above(done, done, done + kBlock);
  }
}

void tpqrt(std::int64_t m, std::int64_t n, Columns<double> r, Columns<double> b, double* reflectors,
           double* work, const std::stop_token& stop) {
  const auto rows = as_int(m);
  const auto ldr = as_int(r.stride);
  const auto ldb = as_int(b.stride);
  const auto ldt = as_int(std::min(n, kBlock));
  const int no_triangle = 0;  // b is a plain rectangle
  for (std::int64_t done = 0; done < n; done += kBlock) {
    throw_if_stopped(stop);
    const auto block = as_int(std::min(kBlock, n - done));
    double* const t = reflectors + done * ldt;
    int info = 0;
    blas().LAPACK_dtpqrt(&rows, &block, &no_triangle, &block, r.at(done, done), &ldr, b.at(0, done),
                         &ldb, t, &ldt, work, &info);
    expects(info == 0, "dtpqrt accepts its arguments");
    const std::int64_t next = done + block;
    const auto rest = as_int(n - next);
    if (rest > 0) {
      blas().LAPACK_dtprfb("L", "T", "F", "C", &rows, &rest, &block, &no_triangle, b.at(0, done),
                           &ldb, t, &ldt, r.at(done, next), &ldr, b.at(0, next), &ldb, work,
                           &block);
    }
  }
}

}  // namespace vindex::blas::steps
