// Owns the way from eigenvalues of a Gram matrix to singular values in a report, and the judgement
// whether they are good enough. Host code without a device.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::kernels {

/// Eigenvalues as a solver leaves them, in either order: true ones are 2^exponent times these.
struct RawSpectrum {
  std::span<const double> eigenvalues;
  int exponent = 0;
  std::int64_t zero_rows = 0;  ///< rows of the Gram that are zero: so many values are 0 exactly
  bool failed = false;         ///< the iteration did not converge
};

/// Singular values, descending; empty where the iteration failed or gave no numbers.
struct JudgedSpectrum {
  std::vector<double> sigma;
  bool negative = false;  ///< an eigenvalue beside the exact zeros came out negative
};
JudgedSpectrum singular_values_of(const RawSpectrum& raw);

/// True where a float64 Gram cannot hold the promise of `strict`: a negative eigenvalue, or a
/// condition, exact zeros aside, beyond 10 p.
bool beyond_gram64(const JudgedSpectrum& spectrum, std::int64_t zero_rows);

/// Fills sigma, status, reason and the checks from `spectrum`; moments and gram_norm_squared are
/// there already. Zero and not finite matrices get their own outcome.
void fill_report(const JudgedSpectrum& spectrum, std::int64_t p, measure::MatrixReport& report);

/// True where `default` wants a second opinion.
bool is_doubtful(const JudgedSpectrum& spectrum, const measure::MatrixReport& report);

/// Turns a full spectrum from float64 into what `fast` reports: bounds, and the top 64 values.
/// `n` is the long side. Rounding of the Gram moves an eigenvalue by at most n eps F2 (each entry
/// carries at most n rounding errors of |W|^T |W|, whose norm is at most F2), the solver by a small
/// multiple of p eps lambda_1; 100 p is twice LAPACK's test threshold. Source: Weyl's inequality;
/// Higham 2002, section 3.5.
void keep_fast(std::int64_t n, std::int64_t p, measure::MatrixReport& report);

}  // namespace vindex::kernels
