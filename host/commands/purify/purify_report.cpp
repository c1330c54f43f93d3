// Owns the report of what purification did, for programs and for readers. Doing nothing stands
// beside it.
#include "purify.hpp"

#include "core/json/json_document.hpp"
#include "core/text/short_names.hpp"
#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace vindex::purify {
namespace {

/// Over the matrices that changed.
struct Totals {
  std::size_t tried = 0, matrices = 0, purified = 0, visible = 0;
  double norm = 0.0, removed = 0.0, difference = 0.0, stored = 0.0, nothing = 0.0;

  void add(const PurifiedMatrix& matrix) {
    ++matrices;
    if (!matrix.changed) {
      return;
    }
    ++purified;
    visible += matrix.visible ? 1 : 0;
    const double weight = matrix.norm_squared;
    norm += weight;
    removed += weight * matrix.change->energy_removed;
    difference += weight * std::pow(matrix.change->relative_change, 2);
    stored += weight * std::pow(matrix.written_change.value_or(0.0), 2);
    nothing += weight * std::pow(matrix.nothing_error, 2);
  }
  double share(double sum) const { return norm > 0.0 ? sum / norm : 0.0; }
  double root(double sum) const { return std::sqrt(share(sum)); }
};

Totals totals_of(const PurifyResult& result) {
  Totals totals;
  for (const PurifiedTensor& tensor : result.tensors) {
    totals.tried += tensor.skipped.empty() ? 1 : 0;
    for (const PurifiedMatrix& matrix : tensor.matrices) {
      totals.add(matrix);
    }
  }
  return totals;
}

Json matrix_json(const PurifiedMatrix& matrix) {
  Json out = {{"outcome", matrix.outcome}, {"reason", matrix.reason}, {"changed", matrix.changed}};
  out["gate"] = matrix.verdict ? Json(verdict_name(*matrix.verdict)) : Json(nullptr);
  const bool fitted = matrix.fit.has_value();
  out["sigma_hat"] = fitted ? Json(matrix.fit->sigma) : Json(nullptr);
  out["ks"] = fitted && matrix.fit->sigma > 0.0 ? Json(matrix.fit->ks) : Json(nullptr);
  out["rank_edge"] = fitted ? Json(matrix.fit->rank_edge) : Json(nullptr);
  out["rank_gd"] = fitted ? Json(matrix.fit->rank_gd) : Json(nullptr);
  out["rank"] = matrix.rank >= 0 ? Json(matrix.rank) : Json(nullptr);
  const bool figures = matrix.change.has_value();
  out["energy_removed"] = figures ? Json(matrix.change->energy_removed) : Json(nullptr);
  out["cosine"] = figures ? Json(matrix.change->cosine) : Json(nullptr);
  out["relative_change"] = figures ? Json(matrix.change->relative_change) : Json(nullptr);
  out["residual"] = matrix.changed && matrix.rank >= 0 ? Json(matrix.residual) : Json(nullptr);
  out["requantisation_error"] = Json::given(matrix.requantisation_error);
  out["written_change"] = Json::given(matrix.written_change);
  out["visible"] = matrix.changed && matrix.written_change ? Json(matrix.visible) : Json(nullptr);
  out["do_nothing"] = {{"energy_removed", 0.0},
                       {"relative_change", 0.0},
                       {"requantisation_error", matrix.nothing_error}};
  return out;
}

Json purified_tensor_json(const organ::GgufSource& source, const PurifiedTensor& tensor) {
  const organ::OrganTensor& stored = source.tensors()[tensor.tensor];
  Json out = {
      {"name", stored.name},
      {"class", organ::class_name(tensor.organ_class)},
      {"block", tensor.block >= 0 ? Json(tensor.block) : Json(nullptr)},
      {"dimensions", stored.dimensions},
      {"type", decode::element_type_name(stored.type)},
      {"out_type", decode::element_type_name(tensor.changed() ? tensor.out_type : stored.type)},
      {"changed", tensor.changed()},
      {"skipped", Json::given(tensor.skipped)},
      {"noise_kept", Json::given(tensor.noise_kept)}};
  out["matrices"] = Json::list(tensor.matrices, matrix_json);
  return out;
}

std::string percent(double share) { return fmt::format("{:.2f}", 100.0 * share); }

/// "purified", or "3/64 purified" of a stack; where none changed, the outcome that most have, and
/// how many: "60/64 no bulk".
std::string outcome_text(const PurifiedTensor& tensor) {
  std::map<std::string, std::size_t> counts;
  std::size_t changed = 0;
  for (const PurifiedMatrix& matrix : tensor.matrices) {
    ++counts[matrix.outcome];
    changed += matrix.changed ? 1 : 0;
  }
  if (tensor.matrices.size() == 1) {
    const PurifiedMatrix& only = tensor.matrices.front();
    return only.verdict == GateVerdict::kForced && only.changed ? "forced" : only.outcome;
  }
  if (changed > 0) {
    return fmt::format("{}/{} purified", changed, tensor.matrices.size());
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return counts.size() == 1
             ? most->first
             : fmt::format("{}/{} {}", most->second, tensor.matrices.size(), most->first);
}

/// Mean over the matrices of a stack that have the number, as text; "-" where none has.
template <typename Get>
std::string mean_text(const PurifiedTensor& tensor, Get get, const char* format, double scale) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const PurifiedMatrix& matrix : tensor.matrices) {
    const std::optional<double> value = get(matrix);
    if (value && (matrix.changed || !tensor.changed())) {
      sum += *value;
      ++count;
    }
  }
  return count == 0 ? "-"
                    : fmt::format(fmt::runtime(format), scale * sum / static_cast<double>(count));
}

std::vector<std::string> table_row(const organ::GgufSource& source, const PurifiedTensor& tensor) {
  using Matrix = const PurifiedMatrix&;
  const auto change = [](auto member) {
    return [member](Matrix matrix) {
      return matrix.change ? std::optional((*matrix.change).*member) : std::nullopt;
    };
  };
  return {
      printable(source.tensors()[tensor.tensor].name),
      outcome_text(tensor),
      mean_text(
          tensor,
          [](Matrix matrix) {
            return matrix.rank < 0 ? std::nullopt : std::optional(static_cast<double>(matrix.rank));
          },
          "{:.0f}", 1.0),
      mean_text(
          tensor,
          [](Matrix matrix) {
            return matrix.fit && matrix.fit->sigma > 0.0 ? std::optional(matrix.fit->ks)
                                                         : std::nullopt;
          },
          "{:.3f}", 1.0),
      mean_text(tensor, change(&ChangeStatistics::energy_removed), "{:.2f}", 100.0),
      mean_text(tensor, change(&ChangeStatistics::cosine), "{:.4f}", 1.0),
      mean_text(tensor, change(&ChangeStatistics::relative_change), "{:.2f}", 100.0),
      mean_text(
          tensor, [](Matrix matrix) { return matrix.requantisation_error; }, "{:.2f}", 100.0),
  };
}

/// What the method keeps of noise, of the shapes that were tried: the null of what it removed.
std::string noise_sentence(const PurifyResult& result) {
  double least = 2.0;
  double most = -1.0;
  for (const PurifiedTensor& tensor : result.tensors) {
    if (tensor.noise_kept) {
      least = std::min(least, *tensor.noise_kept);
      most = std::max(most, *tensor.noise_kept);
    }
  }
  if (most < 0.0) {
    return {};
  }
  const std::string from = fmt::format("{:.3g}", 100.0 * least);
  const std::string to = fmt::format("{:.3g}", 100.0 * most);
  return fmt::format("of pure noise of these shapes {} keeps {} % of the energy",
                     method_name(result.options.rule.method),
                     from == to ? from : from + " to " + to);
}

}  // namespace

std::string purify_json(const organ::GgufSource& source, const PurifyResult& result,
                        const PurifyTargets& targets) {
  const PurifyOptions& options = result.options;
  const Totals totals = totals_of(result);
  Json out = {{"schema", "organ-purify/1"}, {"model", source.path()}};
  out["output"] = targets.output.empty() ? Json(nullptr) : Json(targets.output);
  out["factors"] = targets.factors.empty() ? Json(nullptr) : Json(targets.factors);
  out["method"] = method_name(options.rule.method);
  out["parameters"] = Json::object();
  if (options.rule.method == PurifyMethod::kFft) {
    out["parameters"]["energy_share"] = options.rule.energy_share;
  } else if (options.rule.method == PurifyMethod::kLaser) {
    out["parameters"]["rank_share"] = options.rule.rank_share;
  } else if (!is_spectral(options.rule.method) &&
             options.rule.method != PurifyMethod::kFftUniversal) {
    out["parameters"]["levels"] = options.rule.levels;
    if (options.rule.method == PurifyMethod::kHaar) {
      out["parameters"]["tau"] = options.rule.tau;
    }
  }
  out["gate"] = {{"largest_ks", options.gate.largest_ks},
                 {"energy_cap", options.gate.energy_cap},
                 {"least_short_side", options.gate.min_short_side},
                 {"force", options.gate.force}};
  out["out_type"] =
      options.out_type ? Json(decode::element_type_name(*options.out_type)) : Json("same");
  out["totals"] = {{"tensors_tried", totals.tried},
                   {"tensors_changed", result.changed_count()},
                   {"matrices", totals.matrices},
                   {"purified", totals.purified},
                   {"visible", totals.visible},
                   {"energy_removed", totals.share(totals.removed)},
                   {"relative_change", totals.root(totals.difference)},
                   {"written_change", totals.root(totals.stored)},
                   {"do_nothing",
                    {{"energy_removed", 0.0},
                     {"relative_change", 0.0},
                     {"written_change", totals.root(totals.nothing)}}}};
  out["tensors"] = Json::list(result.tensors, [&](const PurifiedTensor& tensor) {
    return purified_tensor_json(source, tensor);
  });
  return out.dump(2) + "\n";
}

std::string purify_text(const organ::GgufSource& source, const PurifyResult& result,
                        const PurifyTargets& targets, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"tensor", "outcome", "rank", "KS", "removed %", "cosine", "change %", "stored %"}};
  std::map<std::string, std::size_t> skipped;
  for (const PurifiedTensor& tensor : result.tensors) {
    if (tensor.skipped.empty()) {
      rows.push_back(table_row(source, tensor));
    } else {
      ++skipped[tensor.skipped];
    }
  }
  std::string out;
  if (rows.size() > 1) {
    out = names_table_text(rows,
                           {{.min_width = 12},
                            {.min_width = 8, .keep = Keep::kStart, .is_close = true},
                            {.right = true, .is_close = true},
                            {.right = true, .is_close = true},
                            {.right = true, .is_close = true},
                            {.right = true, .is_close = true},
                            {.right = true, .is_close = true},
                            {.right = true, .is_close = true}},
                           width);
    out += "\n";
  }
  for (const auto& [reason, count] : skipped) {
    out +=
        wrapped_text(fmt::format("not tried, {}: {}", count, printable(reason)), width, 2) + "\n";
  }
  const Totals totals = totals_of(result);
  out += wrapped_text(
             fmt::format("{}: {} of {} matrices purified, in {} tensors; the others keep their "
                         "bytes",
                         method_name(result.options.rule.method), totals.purified, totals.matrices,
                         result.changed_count()),
             width, 2) +
         "\n";
  if (totals.purified > 0) {
    out += wrapped_text(
               fmt::format("of those: {} % of the energy removed, relative change {} %, as stored "
                           "{} %, larger than what storing loses in {} of {}",
                           percent(totals.share(totals.removed)),
                           percent(totals.root(totals.difference)),
                           percent(totals.root(totals.stored)), totals.visible, totals.purified),
               width, 2) +
           "\n";
    out += wrapped_text(fmt::format("doing nothing: 0 % removed, as stored {} %. Whether less is "
                                    "more is for perplexity to say.",
                                    percent(totals.root(totals.nothing))),
                        width, 2) +
           "\n";
  }
  const std::string model = printable(source.path());
  const auto sentence = [&](const std::string& text) {
    out += wrapped_text(text, width, 2) + "\n";
  };
  if (const std::string noise = noise_sentence(result); !noise.empty()) {
    sentence(noise);
  }
  if (!targets.output.empty()) {
    sentence(totals.purified == 0 ? fmt::format("nothing was changed: {} has the weights of {}",
                                                printable(targets.output), model)
                                  : fmt::format("written: {}", printable(targets.output)));
  } else if (totals.purified == 0) {
    sentence("nothing would be changed");
  }
  if (!targets.factors.empty()) {
    sentence(totals.purified == 0
                 ? fmt::format("no factors: {} has none", printable(targets.factors))
                 : fmt::format("factors: {}", printable(targets.factors)));
  }
  return out;
}

}  // namespace vindex::purify
