// Owns the question whether a graft that loads can also work: the checks of two models' keys,
// tables and weights beside each other, as pure functions. Every finding says both values and what
// to do about it; a level of error keeps the result from being written.
#pragma once

#include <vindex/organ/graft_plan.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::organ {

/// A key's value as far as it is compared and shown.
struct KeyFact {
  std::string text;                         ///< GgufValue::text()
  std::string digest;                       ///< GgufValue::digest()
  std::optional<double> number = {};        ///< of numbers and bools: f32 1 and f64 1 are equal
  std::vector<std::int64_t> integers = {};  ///< of an array of at most 4096
};

/// What the checks look at.
struct ModelFacts {
  std::string architecture;
  std::map<std::string, KeyFact, std::less<>> keys = {};
  std::vector<TensorFact> tensors = {};
  /// Digests of rope_freqs and rope_factors tensors, by name.
  std::map<std::string, std::string, std::less<>> rope_tables = {};
};

enum class Level : std::uint8_t { kError, kWarning, kNote };
/// "error", "warn", "note".
std::string_view level_name(Level level);

struct Finding {
  std::string id;  ///< "architecture", "heads", "rope", "tokenizer", "ancestry", ...
  Level level = Level::kNote;
  std::string what;
  std::string host = {}, donor = {};  ///< both values, where there are such
  std::string advice = {};
  bool can_be_forced = true;  ///< errors of structure stay errors
};

/// The similarity of a tensor of the donor and the host's of the same name.
struct Likeness {
  std::string tensor;
  std::optional<double> cosine = {};  ///< nothing where weights are zero, not finite or not decoded
  std::uint64_t values = 0, of = 0;   ///< weights compared, weights there are
};

/// Cosines below these are a warning and an error. Unrelated matrices have 0 with a standard
/// deviation of 1 / sqrt(values), fine-tunes of one model more than .9.
inline constexpr double kUnlikeCosine = 0.5;
inline constexpr double kUnrelatedCosine = 0.05;

/// Findings of the keys and tables, worst first.
std::vector<Finding> check_graft(const ModelFacts& host, const ModelFacts& donor,
                                 const GraftPlan& plan);

/// Findings of the weights: at most one of each level, naming the tensors of lowest similarity.
std::vector<Finding> check_ancestry(std::span<const Likeness> likeness);

/// Whether what was found keeps a graft from being written.
bool is_refused(std::span<const Finding> findings, bool force);

}  // namespace vindex::organ
