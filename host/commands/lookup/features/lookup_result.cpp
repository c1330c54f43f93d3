// Owns the names of lists and of circuits.
#include "lookup_result.hpp"

#include <cmath>

namespace vindex::commands {

std::string_view list_name(LookupOrder order, std::size_t list) {
  switch (order) {
    case LookupOrder::kApart:
      return list == 0 ? "positive" : "negative";
    case LookupOrder::kPositive:
      return "positive";
    case LookupOrder::kNegative:
      return "negative";
    case LookupOrder::kCosine:
      return "cosine";
    case LookupOrder::kScore:
      break;
  }
  return "score";
}

std::string_view circuit_type(double gate_down_cosine) {
  constexpr double kSame = 0.5, kRelated = 0.2;
  if (std::isnan(gate_down_cosine)) {
    return "";
  }
  if (std::abs(gate_down_cosine) < kRelated) {
    return "projector";
  }
  if (std::abs(gate_down_cosine) <= kSame) {
    return gate_down_cosine > 0.0 ? "transform" : "suppressor";
  }
  return gate_down_cosine > 0.0 ? "identity" : "inverter";
}

std::size_t list_count(LookupOrder order) { return order == LookupOrder::kApart ? 2 : 1; }

}  // namespace vindex::commands
