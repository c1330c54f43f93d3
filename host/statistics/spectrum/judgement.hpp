// Owns every judgement that back ends share, as pure functions: what a step's finding becomes in a
// report, whether it is doubtful, what comes next, what `fast` and sign flips keep, what is refused
// and what may be measured together. Back ends compute what they are asked to and decide nothing.
//
//   step      doubtful where                                                next
//   kTop      not converged, or its bounds are further apart than 1e-5      kGram64
//   kGram32   not converged, a check; `default`: a value known too badly    kTail, kGram64, kQr
//             `fast`: bounds further apart than 1e-5                        kGram64
//   kGram64   not converged, a check; `default`: a value known too badly    kTail, kQr
//             `strict`: negative, condition above 10 p, a value known       kTail, kQr
//             too badly
//   kTail     a value known too badly still                                 the step after the one
//                                                                           that it came to help
//   kQr       never
//
// A value is known too badly where the error that its route answers for
// (statistics/spectrum/spectrum_error.hpp) exceeds what the metrics contract promises, or leaves
// open what it says must be decided. kTail finds the smallest values again, where they are few
// enough for the back end and all others good. kGram32 goes to kQr at once where its products were
// formed in float64 as those of kGram64 are, and more values than kTail takes on are seen to lie
// below all that a float64 Gram resolves: kGram64 would find the same again, and go there.
//
// A check that refutes the errors stated (statistics/spectrum/spectrum_checks.hpp) is a doubt of
// every value, in every mode. Where nothing takes over, behind kQr and with --no-escalate, the
// report says so, and answers for no more than the norm of the matrix.
//
// --no-escalate keeps the first route of `fast` and `default` with what it has, kTail included; QR
// is a part of the route of `strict` and stays (metrics contract, "Accuracy promised").
#pragma once

#include "spectrum_checks.hpp"
#include "spectrum_error.hpp"

#include "backend/backend.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::statistics {

/// `default`, in units of s_1: error of any value of a matrix whose condition is above
/// kModestCondition, and the value below which the promise of `strict` holds.
inline constexpr double kDefaultError = 4e-6;
inline constexpr double kModestCondition = 100.0;
inline constexpr double kMinDecided = 10.0 * kDefaultError;
/// Short sides up to this are measured in float64 at once: it costs less than a second thought.
inline constexpr std::int64_t kFloat64Size = 512;
/// A float64 Gram holds the promise of `strict` up to this many times p; QR beyond.
inline constexpr double kStrictConditionPerSize = 10.0;

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

/// s_1 / s_p of a rows x cols matrix of pure noise: the edges sqrt(n) +- sqrt(p) of its spectrum,
/// the lower one with p - 1, which is the size of the smallest value of a square matrix too (n = p:
/// 4 p here, a median of 3.7 p for large p). For n > p it lies above the median of drawn noise,
/// most where n is nearest to p: by a fifth for p = 64 and more, by somewhat less than a third for
/// p = 16. Source: Rudelson and Vershynin, "Smallest singular value of a random rectangular matrix"
/// (2009); Edelman (1988) for n = p.
double noise_condition(std::int64_t rows, std::int64_t cols);

/// True where `fast` and `default` begin in float64: a short side up to kFloat64Size, unless a
/// route was asked for by name; or, of `default` where the back end has no kTail, a shape whose
/// noise already, which is better conditioned than what training leaves, lies so far beyond
/// kModestCondition that a float32 step would be thrown away.
bool begins_in_float64(std::int64_t rows, std::int64_t cols, const MeasureOptions& options,
                       std::int64_t max_tail_values);

/// What a back end says of itself.
struct BackEndReach {
  double sum_terms = 0.0;            ///< of Situation
  std::int64_t max_tail_values = 0;  ///< of Situation
  bool tail_leaves_zeros = false;    ///< of Situation
};

/// Where the measurement of a rows x cols matrix begins if `first` is the first step of the back
/// end's route for that mode: there, or at kGram64 by begins_in_float64().
StepContext begin_measurement(Step first, std::int64_t rows, std::int64_t cols,
                              const MeasureOptions& options, const BackEndReach& reach);

/// The situation of the step that a verdict asks for.
StepContext next_step_context(const StepContext& situation, Step next);

/// Error that the route of `found` answers for, of every value in the units of s; NaN where it says
/// nothing.
std::vector<double> sigma_errors(const StepResult& found, const StepContext& situation);

/// True where the last `errors.size()` values of `sigma` are known as well as they must be: kTail
/// need not go on.
bool is_tail_enough(std::span<const double> sigma, std::span<const double> errors,
                    const StepContext& situation);

/// By how much `default` promises at most that value `i` (from 0; of size `s`, s_1 `largest`, all
/// in the same units) is off, relative promises included, whatever is known of clusters.
double promised_error(std::size_t i, double s, double largest, bool is_modest);
/// Whether all values but exact zeros lie within kModestCondition.
bool is_modest(const StepResult& found);

/// Puts a finding into the report: status, reason, values, checks, bounds; and says what is next.
/// Called for every step of a matrix in turn with the same report.
NextStep judge(const StepResult& found, const StepContext& situation, MatrixReport& report);

/// What a report becomes whose errors a check refuted and which stands all the same: `sigma_error`
/// is the norm of the matrix, which bounds any error; bounds and tail are nothing; `reason` says
/// it.
void take_refuted(const SpectrumChecks& checks, MatrixReport& report);

/// The same for a draw of the sign-flip null, which begins with `first` whatever the shape and is
/// not escalated: nothing that is kept of it depends on its smallest values. QR is a part of
/// `strict`.
StepContext begin_draw(Step first, std::int64_t rows, std::int64_t cols,
                       const MeasureOptions& options);
NextStep judge_draw(const StepResult& found, const StepContext& situation);

/// Whether `tail` can be the smallest values of a spectrum that a Gram gave as `sigma`, so that
/// they may replace its last ones: squares agree to within `allowed`.
bool is_tail_of(std::span<const double> tail, std::span<const double> sigma, double allowed);
/// What a float64 Gram's squares are known to: 50 p eps64 s_1^2.
double gram64_square_error(std::span<const double> sigma);

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
void take_eigenvalues(const RawSpectrum& raw, StepResult& found);

/// One pass over the weights on a subspace near the smallest singular vectors. Arrays descend.
struct TailBasis {
  std::span<const double> sigma = {};      ///< singular values of W on it
  std::span<const double> residuals = {};  ///< |W^T W v - s^2 v| of each
  std::int64_t max_settled = 0;            ///< of the smallest; the others guard them
  /// Of each s^2, by the arithmetic of the pass; empty: nothing worth adding.
  std::span<const double> square_errors = {};
};

/// Puts the last `lost` values of `before` in `found` again, and `tail_errors`; all others are
/// those of `before`. False where the basis contradicts `before`, a spectrum with a known rounding:
/// `found` is then `before` and has no tail_errors.
bool take_tail(const TailBasis& basis, std::int64_t lost, const StepResult& before,
               StepResult& found);

}  // namespace vindex::statistics
