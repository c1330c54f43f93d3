// Owns what back ends can compute of a spectrum, what a step found out about one matrix, and under
// which circumstances.
#pragma once

#include "spectrum_error.hpp"

#include "backend/backend.hpp"
#include "decode/moments.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::statistics {

/// What a back end can compute.
enum class Step : std::uint8_t {
  kTop,     ///< the largest values and bounds of them, by iteration on a Gram (`fast`)
  kGram32,  ///< all values of a float32 Gram
  kGram64,  ///< all values of a float64 Gram: that of `strict` up to a condition of 10 p
  kTail,    ///< the smallest of the values that a Gram gave, again, by float64 products
  kQr,      ///< all values by QR and a bidiagonal form: that of `strict` for any condition
};

/// What a step found out about one matrix.
struct StepResult {
  std::vector<double> sigma = {};  ///< descending; empty where an iteration did not converge
  bool negative = false;           ///< an eigenvalue beside the exact zeros came out negative
  std::int64_t zero_rows = 0;      ///< values that are 0 exactly, because a row or column is
  decode::Moments moments = {};    ///< of the weights
  /// ||G||_F^2 in units of w^4; NaN where no Gram was formed.
  double gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
  std::string method = {};
  SpectrumBounds bounds = {};  ///< of kTop
  Rounding rounding = {};      ///< of the Gram that gave the values; kTail: the others
  /// kTail: error of each of the last values, as many as were asked for; empty: it did not settle.
  /// kQr: the same where it found only those again; empty: all are its own.
  std::vector<double> tail_errors = {};
  /// kGram32 in `fast`, where it ended early: trace and squared norm, in units of s^2 and s^4, of
  /// all that it turned the Gram into; NaN: not summed.
  double reduced_trace = std::numeric_limits<double>::quiet_NaN();
  double reduced_norm_squared = std::numeric_limits<double>::quiet_NaN();
  /// kGram32 in `fast`: error of every s^2 where it found the largest values alone, with `bounds`
  /// of them; empty: all values.
  std::vector<double> top_errors = {};
  /// kGram32: its products and sums are those of kGram64; its reduction need not be.
  bool has_float64_sums = false;
};

/// Under which circumstances it was found.
struct StepContext {
  Step step = Step::kGram32;
  Step before = Step::kGram32;  ///< of kTail: what it follows
  std::int64_t rows = 0, cols = 0;
  SpectrumMode mode = SpectrumMode::kDefault;
  bool escalate = true;
  bool is_strict = false;            ///< on the route of `strict`
  double sum_terms = 0.0;            ///< roundings in an entry of this back end's float64 Gram
  std::int64_t max_tail_values = 0;  ///< that kTail of this back end takes on; 0: it has none
  bool tail_leaves_zeros = false;    ///< kTail of this back end leaves out lines that are zero

  std::int64_t p() const { return rows < cols ? rows : cols; }
};

/// What is to be done after a step.
struct NextStep {
  std::optional<Step> next = {};  ///< nothing: the report is complete
  /// Where that is kTail or kQr: how many of the smallest values, exact zeros among them, the Gram
  /// cannot hold while it holds the others; 0 where it holds none.
  std::int64_t lost = 0;
};

/// Eigenvalues of a Gram matrix as a solver leaves them, in either order: true ones are 2^exponent
/// times these.
struct RawSpectrum {
  std::span<const double> eigenvalues = {};
  int exponent = 0;
  std::int64_t zero_rows = 0;  ///< of the matrix that was solved: so many are 0 exactly
  std::int64_t left_out = 0;   ///< rows that are zero and were taken out before it was solved
  bool failed = false;         ///< the iteration did not converge
};

/// Sets sigma, negative and zero_rows; sigma stays empty where the iteration failed or gave no
/// numbers.
void take_eigenvalues(const RawSpectrum& raw, StepResult& found);

}  // namespace vindex::statistics
