// Owns whether a donor's weights can work in a host's graph, by keys and tables.
#pragma once

#include "graft_finding.hpp"
#include "graft_plan.hpp"

#include "gguf/writing/writer.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vindex::organ {

/// A key's value as far as it is compared and shown.
struct KeyFact {
  std::string text;                         ///< gguf::Value::text()
  std::string digest;                       ///< gguf::Value::digest()
  std::optional<double> number = {};        ///< of numbers and bools: f32 1 and f64 1 are equal
  std::vector<std::int64_t> integers = {};  ///< of an array of at most 4096
};

/// What the checks look at.
struct ModelFacts {
  std::string architecture;
  std::map<std::string, KeyFact, std::less<>> keys = {};
  std::vector<gguf::TensorLayout> tensors = {};
  /// Digests of rope_freqs and rope_factors tensors, by name.
  std::map<std::string, std::string, std::less<>> rope_tables = {};
};

/// Findings of the keys and tables, worst first.
std::vector<GraftFinding> check_graft(const ModelFacts& host, const ModelFacts& donor,
                                      const GraftPlan& plan);

}  // namespace vindex::organ
