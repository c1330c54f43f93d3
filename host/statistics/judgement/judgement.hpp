// Owns the judgement that back ends share, as pure functions: what a step's result becomes in a
// report, whether it is doubtful, what comes next, what `fast` and sign flips keep. Back ends
// compute what they are asked to and decide nothing.
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
// (statistics/judgement/spectrum_error.hpp) exceeds what the metrics contract promises, or leaves
// open what it says must be decided. kTail finds the smallest values again, where they are few
// enough for the back end and all others good. kGram32 goes to kQr at once where its products were
// formed in float64 as those of kGram64 are, and more values than kTail takes on are seen to lie
// below all that a float64 Gram resolves: kGram64 would find the same again, and go there.
//
// A check that refutes the errors stated (statistics/judgement/spectrum_checks.hpp) is a doubt of
// every value, in every mode. Where nothing takes over, behind kQr and with --no-escalate, the
// report says so, and answers for no more than the norm of the matrix.
//
// --no-escalate keeps the first route of `fast` and `default` with what it has, kTail included; QR
// is a part of the route of `strict` and stays (metrics contract, "Accuracy promised").
#pragma once

#include "spectrum_checks.hpp"
#include "step_result.hpp"

#include "backend/backend.hpp"

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

/// The same for a draw of the sign-flip null.
NextStep judge_draw(const StepResult& found, const StepContext& situation);

}  // namespace vindex::statistics
