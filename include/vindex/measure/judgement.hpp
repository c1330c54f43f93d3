// Owns every judgement that back ends share, as pure functions: what a step's finding becomes in a
// report, whether it is doubtful, what comes next, what `fast` and sign flips keep, what is refused
// and what may be measured together. Back ends compute what they are told to and decide nothing.
//
//   step      doubtful where                                                            next
//   kTop      not converged, or its bounds are further apart than 1e-5                  kGram64
//   kGram32   not converged, a negative eigenvalue, a check, condition above 100        kGram64
//   kGram64   not converged; but for `fast`: negative, a check, condition above 10 p    kQr
//   kQr       never
//
// --no-escalate keeps the first step of `fast` and `default` with what it has; QR is a part of the
// route of `strict` and stays (metrics contract, "Accuracy promised").
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::measure {

/// Alarm of both self-checks, and condition above which `default` hands over to `strict`.
inline constexpr double kCheckAlarm = 3e-6;
inline constexpr double kEscalationCondition = 100.0;
/// A float64 Gram holds the promise of `strict` up to this many times p; QR beyond.
inline constexpr double kStrictConditionPerSize = 10.0;

/// What a back end can compute, each more exact than the one before.
enum class Step : std::uint8_t {
  kTop,     ///< the largest values and bounds of them, by iteration on a Gram (`fast`)
  kGram32,  ///< all values of a float32 Gram: the promise of `default`
  kGram64,  ///< all values of a float64 Gram: that of `strict` up to a condition of 10 p
  kQr,      ///< all values by QR and a bidiagonal form: that of `strict` for any condition
};

/// What a step found out about one matrix.
struct Finding {
  std::vector<double> sigma = {};  ///< descending; empty where an iteration did not converge
  bool negative = false;           ///< an eigenvalue beside the exact zeros came out negative
  std::int64_t zero_rows = 0;      ///< values that are 0 exactly, because a row or column is
  decode::Moments moments = {};    ///< of the weights
  /// ||G||_F^2 in units of w^4; NaN where no Gram was formed.
  double gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
  std::string method = {};
  SpectrumBounds bounds = {};  ///< of kTop
};

/// Under which circumstances it was found.
struct Situation {
  Step step = Step::kGram32;
  std::int64_t rows = 0, cols = 0;
  Mode mode = Mode::kDefault;
  bool escalate = true;
  bool is_strict = false;  ///< on the route of `strict`: in that mode, or by the shape
  double sum_terms = 0.0;  ///< roundings in an entry of this back end's float64 Gram

  std::int64_t p() const { return rows < cols ? rows : cols; }
};

/// What is to be done after a step.
struct Verdict {
  std::optional<Step> next = {};  ///< nothing: the report is complete
  /// Where that is kQr: how many of the smallest values the Gram cannot hold while it holds the
  /// others, found with a margin of two; 0 where it holds none.
  std::int64_t lost = 0;
};

/// s_1 / s_p of a rows x cols matrix of pure noise: the edges sqrt(n) +- sqrt(p) of its spectrum,
/// the lower one with p - 1, which is the size of the smallest value of a square matrix too (n = p:
/// 4 p here, a median of 3.7 p for large p). For n > p it lies above the median of drawn noise,
/// most where n is nearest to p: by a fifth for p = 64 and more, by somewhat less than a third for
/// p = 16. Source: Rudelson and Vershynin, "Smallest singular value of a random rectangular matrix"
/// (2009); Edelman (1988) for n = p.
double noise_condition(std::int64_t rows, std::int64_t cols);

/// True where the shape alone says that `default` would throw its first step away: even noise,
/// which is better conditioned than what training leaves, lies beyond kEscalationCondition, with a
/// margin for the spread of its smallest value. The route of `strict` is then taken at once.
bool is_strict_by_shape(std::int64_t rows, std::int64_t cols, const MeasureOptions& options);

/// Where the measurement of a rows x cols matrix begins if `first` is the first step of the back
/// end's route for that mode: there, or at kGram64 by the shape.
Situation begin_measurement(Step first, std::int64_t rows, std::int64_t cols,
                            const MeasureOptions& options, double sum_terms);

/// Puts a finding into the report: status, reason, values, checks, bounds; and says what is next.
/// Called for every step of a matrix in turn with the same report.
Verdict judge(const Finding& found, const Situation& situation, MatrixReport& report);

/// The same for a draw of the sign-flip null, which begins with `first` whatever the shape and is
/// not escalated: nothing that is kept of it depends on its smallest values. QR is a part of
/// `strict`.
Situation begin_draw(Step first, std::int64_t rows, std::int64_t cols,
                     const MeasureOptions& options);
Verdict judge_draw(const Finding& found, const Situation& situation);

/// Whether `tail` can be the smallest values of a spectrum that a float64 Gram gave as `sigma`, so
/// that they may replace its last ones: both are squares known to about p eps64 s_1^2. Empty: no.
bool is_tail_of(std::span<const double> tail, std::span<const double> sigma);

/// Begins the sign-flip null of a report whose judgement is complete. True where draws are to be
/// computed; what is not measured has none, and those of a zero matrix are that matrix.
bool begin_draws(const MeasureOptions& options, const SignFlipCollector& collector,
                 MatrixReport& report);

/// The same of singular vectors: true where there are some to compute.
bool begin_vectors(const MeasureOptions& options, MatrixReport& report);

/// True where there is nothing to measure; the report then says why.
bool is_refused(const MatrixInput& input, MatrixReport& report);

/// True where one batch may hold both: the same shape, orientation and encoding.
struct InputKind {
  std::int64_t rows = 0, cols = 0;
  bool transposed = false;
  const decode::Encoding* encoding = nullptr;
};
bool is_same_kind(const InputKind& a, const InputKind& b);
bool is_same_kind(const MatrixInput& a, const MatrixInput& b);

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
void take_eigenvalues(const RawSpectrum& raw, Finding& found);

}  // namespace vindex::measure
