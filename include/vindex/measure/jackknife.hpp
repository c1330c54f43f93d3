// Owns what a delete-one-group jackknife says of a CKA: its standard error and an interval.
//
// With t the estimate, t_(-g) the estimate without group g and G groups (Quenouille, Tukey;
// Efron and Stein 1981):
//   error^2 = (G - 1) / G sum_g (t_(-g) - mean)^2
// The interval is taken for z = atanh t, whose spread near 1 does not depend on t. Towards 0 the
// spread does: where one direction dominates, t is a squared correlation, whose variance is
// proportional to itself but for what it is at 0, and samples with a small t are those with a small
// error too. So, as in Wilson's interval of a share, the variance is that of the value asked about:
//   (z(x) - z(t))^2 <= q^2 error_z^2 (x+ + c) / (t+ + c),    x+ = max(x, 0),
// q Student's quantile; a sum of squares of kurtosis k has 2 G / (k - 1) degrees of freedom
// (Satterthwaite 1946), which G - 1 bounds. c is what the variance at 0 is worth: of d
// independent directions it is d^2 times and the rest d times that of one, c = d / (2 G), while the
// jackknife's error at 0 is 2 / G (it doubles a variance of the second order): c = d error / 4, and
// d error / 2 is taken, which is less wide. docs/cka.md has the coverage.
#pragma once

#include <cstdint>
#include <span>

namespace vindex::measure {

/// Groups below which there is no error: its own would be as large.
inline constexpr std::int64_t kMinGroups = 5;

/// NaN where the value or one of the others is, and below kMinGroups.
struct JackknifeError {
  double error = 0.0;  ///< standard error of the value
  double low = 0.0;    ///< 95 % interval, which holds the value and lies within [-1, 1]
  double high = 0.0;
};

/// Of `value` in [-1, 1] and the values `without` each group in turn; `directions` >= 1: d above.
JackknifeError jackknife_error(double value, std::span<const double> without, double directions);

/// How many directions a layer varies in: tr(C)^2 / tr(C^2) of its covariance C, without bias, from
/// the trace of its kernel and the squared norm of the U-centred one (measure/cka.hpp); at least 1.
double varying_directions(std::int64_t rows, double trace, double u_centred);

/// 97.5 % point of Student's t, `freedom` >= 4: Cornish and Fisher's series to the fourth power of
/// 1 / freedom (Abramowitz and Stegun 26.7.5), within 1e-3 of it.
double student_quantile(double freedom);

}  // namespace vindex::measure
