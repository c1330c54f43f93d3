// Owns the rows of that document and how numbers are written in it.
#include "model_plan.hpp"

#include "core/json/json_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vindex::synth {
namespace {

// Longer spectra are given by their law, first and last values: the file stays small.
constexpr std::size_t kAllValues = 512;
constexpr std::ptrdiff_t kFirstValues = 64;
constexpr std::ptrdiff_t kLastValues = 64;

Json parameters(const Recipe& recipe) {
  Json out = {{"deviation", recipe.deviation}};
  if (recipe.kind == Kind::kPowerlaw) {
    out["exponent"] = recipe.exponent;
  } else if (recipe.kind == Kind::kTrained) {
    out["exponent"] = recipe.exponent;
    out["gap"] = recipe.gap;
    out["condition"] = recipe.condition;
  } else if (recipe.kind == Kind::kSpiked) {
    Json strengths = Json::array();
    for (int k = 0; k < recipe.spikes; ++k) {
      strengths.push_back(recipe.spike_strength(k));
    }
    out["spike_strengths"] = std::move(strengths);
  } else if (recipe.kind == Kind::kRowscale) {
    out["row_spread"] = recipe.row_spread;
  }
  return out;
}

Json row_json(const TruthRow& row) {
  Json out = {{"tensor", row.tensor},
              {"slice", row.slice},
              {"rows", row.rows},
              {"cols", row.cols},
              {"encoding", row.encoding}};
  if (row.part_of.empty()) {
    out["kind"] = kind_name(row.recipe.kind);
    out["parameters"] = parameters(row.recipe);
  } else {
    out["kind"] = "part";
    out["part_of"] = row.part_of;
  }
  out["key"] = fmt::format("{:016x}", row.recipe.key);
  out["frobenius_norm"] = std::sqrt(row.loss.squared_norm);
  out["relative_error"] = row.loss.relative_error();
  out["error_norm"] = std::sqrt(row.loss.squared_error);
  out["largest_step"] = row.loss.largest_step;
  if (!row.part_of.empty()) {
    return out;
  }
  const std::vector<double> planted = planted_singular_values(row.recipe);
  if (!planted.empty()) {
    const bool is_whole = planted.size() <= kAllValues;
    out["singular_values_total"] = planted.size();
    out["singular_values"] = std::vector<double>(
        planted.begin(), is_whole ? planted.end() : planted.begin() + kFirstValues);
    if (!is_whole) {
      out["last_singular_values"] = std::vector<double>(planted.end() - kLastValues, planted.end());
    }
  }
  if (row.recipe.kind == Kind::kSpiked) {
    out["predicted_spike_values"] = predicted_spike_values(row.recipe);
  }
  return out;
}

}  // namespace

std::string truth_text(const std::string& spec, std::uint64_t seed,
                       const std::vector<TruthRow>& rows) {
  const Json head = {
      {"schema", "vindex-truth/1"},
      {"spec", spec},
      {"seed", seed},
      {"generator", "philox4x32-10 keyed by FNV-1a(name) and seed; Box-Muller in float32"},
      {"expect",
       "singular_values before encoding; after it sqrt(sum (s_i - planted_i)^2) <= error_norm, and "
       "var_at_k about (planted + e^2 null_k)/(1 + e^2) with e = relative_error"}};
  // One line per tensor: readable, and a diff names the tensor.
  std::string text = head.dump(1);
  text.erase(text.find_last_of('\n'));
  text += ",\n \"tensors\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += (i == 0 ? "\n  " : ",\n  ") + row_json(rows[i]).dump();
  }
  return text + "\n ]\n}\n";
}

}  // namespace vindex::synth
