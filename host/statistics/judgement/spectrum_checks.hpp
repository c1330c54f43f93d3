// Owns the two self-checks of a spectrum: sums over it against sums from another source, and by how
// much they may differ while every stated error holds. Pure arithmetic, shared by back ends.
//
//   check_trace   |sum s_i^2 - F2| / F2,                F2 from the decoded weights
//   check_gram    |sum s_i^4 - ||G||_F^2| / ||G||_F^2,  from the Gram matrix itself
//
// If no s_i is further than e_i from a true singular value t_i, then |s_i^2 - t_i^2| is at most
// 2 s_i e_i + e_i^2, and the sum of these bounds the miss of the trace, whatever the matrix and the
// route are. A larger miss therefore refutes at least one e_i; it does not say which, nor by how
// much. The like holds for the fourth powers, as far as G is what the errors e_i allow for.
//
// What they cannot see: an error of the smallest values, too small in any such sum (the promises of
// the metrics contract decide about those); an entry of G beside the diagonal that was wrong before
// its norm was summed, which changes neither trace.
#pragma once

#include "spectrum_error.hpp"

#include <cstdint>
#include <limits>
#include <span>

namespace vindex::statistics {

/// What a spectrum is checked against. NaN: not there.
struct CheckSources {
  double sum_squares = std::numeric_limits<double>::quiet_NaN();  ///< F2, units of s^2
  double gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
  std::int64_t p = 0, n = 0;  ///< short and long side
  /// Where the values are of another route than G: roundings in an entry of it, in float64.
  double gram_terms = 0.0;
};

struct SpectrumChecks {
  double trace = std::numeric_limits<double>::quiet_NaN();  ///< check_trace; NaN: not made
  double gram = std::numeric_limits<double>::quiet_NaN();   ///< check_gram
  double trace_allowed = std::numeric_limits<double>::infinity();
  double gram_allowed = std::numeric_limits<double>::infinity();

  bool trace_refutes() const { return trace > trace_allowed; }
  bool gram_refutes() const { return gram > gram_allowed; }
  bool refute() const { return trace_refutes() || gram_refutes(); }
};

/// Of all p values (`sigma` descending), each known to within its entry of `errors`. An error that
/// is not known (NaN) cannot be refuted: the check is made and allows anything.
SpectrumChecks check_spectrum(std::span<const double> sigma, std::span<const double> errors,
                              const CheckSources& sources);

/// Where there are the largest values alone, what they leave of both sums must be room for the
/// others, none of which exceeds the last one. `trace` and `gram` are then by how much it is not,
/// relative as those of check_spectrum(); 0 where it is.
SpectrumChecks check_largest(std::span<const double> sigma, std::span<const double> errors,
                             const CheckSources& sources);

/// Trace and squared Frobenius norm of a matrix that is similar to G but for rounding that moves no
/// eigenvalue by more than `error` says; against F2 and ||G||_F^2.
SpectrumChecks check_similar(double trace, double norm_squared, const ErrorParts& error,
                             const CheckSources& sources);

}  // namespace vindex::statistics
