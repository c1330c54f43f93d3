// Owns the export `phase-json`: phase1_moe_svd.json, phase1_moe_svd_agg.json,
// phase2_router_svd.json and moe_config.json, named after the MoE vindex builder's files. The
// builder's exact keys are not public; those its documentation names (median_var64, q25_var64,
// q75_var64, ...) are used as named, the rest is documented in docs/results-file.md.
#include "export_formats.hpp"
#include "text_sink.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/json.hpp>
#include <vindex/measure/metrics.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace vindex::results {

namespace {

using Json = nlohmann::ordered_json;
using measure::Metric;
using model::Block;
using Rows = std::vector<const StoredRow*>;

/// NaN is null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void write_document(const std::string& folder, const char* name, const Json& document) {
  TextSink sink(folder + "/" + name);
  sink.write(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  sink.finish();
}

std::vector<double> values_of(const Rows& rows, double (*value)(const StoredRow&)) {
  std::vector<double> out;
  for (const StoredRow* row : rows) {
    if (row->status == measure::Status::kMeasured) {
      out.push_back(value(*row));
    }
  }
  return out;
}

double ratio(const StoredRow& row) { return row.values[Metric::kSigmaRatio12]; }
double effective_rank(const StoredRow& row) { return row.values[Metric::kEffectiveRank]; }
double stable_rank(const StoredRow& row) { return row.values[Metric::kStableRank]; }

/// NaN where shapes differ: a null is one of a shape.
double common_null(const Rows& rows) {
  for (const StoredRow* row : rows) {
    if (row->shorter() != rows.front()->shorter() || row->longer() != rows.front()->longer()) {
      return std::nan("");
    }
  }
  return rows.empty() ? std::nan("") : var_at_64_null(*rows.front());
}

void add_quantiles(Json& out, const char* name, const std::vector<double>& values) {
  out[fmt::format("median_{}", name)] = number(measure::quantile(values, 0.5));
  out[fmt::format("q25_{}", name)] = number(measure::quantile(values, 0.25));
  out[fmt::format("q75_{}", name)] = number(measure::quantile(values, 0.75));
}

Json summary(const Rows& rows) {
  Json out;
  const double null = common_null(rows);
  const std::vector<double> var64 = values_of(rows, var_at_64);
  out["count"] = var64.size();
  add_quantiles(out, "var64", var64);
  out["var64_null"] = number(null);
  out["median_var64_ratio"] = number(measure::quantile(var64, 0.5) / null);
  add_quantiles(out, "s0_s1", values_of(rows, ratio));
  add_quantiles(out, "effective_rank", values_of(rows, effective_rank));
  add_quantiles(out, "stable_rank", values_of(rows, stable_rank));
  return out;
}

Json one_matrix(const StoredRow& row) {
  Json out;
  if (row.expert >= 0) {
    out["expert"] = row.expert;
  } else if (row.slice >= 0) {
    out["expert"] = row.slice;
  }
  out["name"] = row.tensor;
  out["status"] = kStatusNames[static_cast<std::size_t>(row.status)];
  out["shape"] = {row.rows, row.cols};
  out["var64"] = number(var_at_64(row));
  out["var64_null"] = number(var_at_64_null(row));
  out["s0_s1"] = number(ratio(row));
  out["effective_rank"] = number(effective_rank(row));
  out["stable_rank"] = number(stable_rank(row));
  return out;
}

using Layers = std::map<std::int32_t, std::map<Block, std::map<std::string, Rows>>>;

Layers by_layer(const std::vector<StoredRow>& rows) {
  Layers layers;
  for (const StoredRow& row : rows) {
    if (row.layer >= 0) {
      layers[row.layer][row.block][row.role].push_back(&row);
    }
  }
  return layers;
}

struct Part {
  Block block;
  const char* name;
};
constexpr Part kParts[] = {{Block::kRoutedExpert, "routed"},
                           {Block::kSharedExpert, "shared"},
                           {Block::kRouter, "router"},
                           {Block::kDenseMlp, "dense"}};

/// The matrices that a layer's headline numbers are of: down_proj of the routed experts, of the
/// dense MLP where there are none; without a down_proj, the block's first role.
const Rows* headline(const std::map<Block, std::map<std::string, Rows>>& blocks,
                     std::string& role) {
  for (const Block block : {Block::kRoutedExpert, Block::kDenseMlp}) {
    const auto found = blocks.find(block);
    if (found == blocks.end()) {
      continue;
    }
    const auto down = found->second.find("down_proj");
    const auto chosen = down != found->second.end() ? down : found->second.begin();
    role = chosen->first;
    return &chosen->second;
  }
  return nullptr;
}

Json head(const FileDescription& description, const char* phase) {
  Json out;
  out["schema"] = fmt::format("vindex-{}/1", phase);
  out["model"] = description.model;
  out["mode"] = description.mode;
  out["var64_denominator"] = "squared Frobenius norm (all singular values)";
  out["effective_rank"] = "exp of the entropy of s^2 / sum s^2";
  out["quantiles"] = "linear interpolation";
  return out;
}

Json phase1(const FileDescription& description, const Layers& layers) {
  Json out = head(description, "phase1");
  Json& all = out["layers"] = Json::object();
  for (const auto& [layer, blocks] : layers) {
    std::string role;
    const Rows* rows = headline(blocks, role);
    if (rows == nullptr) {
      continue;
    }
    Json entry = summary(*rows);
    entry["type"] = blocks.contains(Block::kRoutedExpert) ? "moe" : "dense";
    entry["projection"] = role;
    for (const auto& [block, name] : kParts) {
      const auto found = blocks.find(block);
      if (found == blocks.end()) {
        continue;
      }
      for (const auto& [part_role, members] : found->second) {
        Json part = summary(members);
        Json& matrices = part["matrices"] = Json::array();
        for (const StoredRow* row : members) {
          matrices.push_back(one_matrix(*row));
        }
        entry[name][part_role] = std::move(part);
      }
    }
    all[std::to_string(layer)] = std::move(entry);
  }
  return out;
}

Json phase1_aggregate(const FileDescription& description, const Layers& layers) {
  std::vector<double> medians, ratios;
  for (const auto& [layer, blocks] : layers) {
    std::string role;
    if (const Rows* rows = headline(blocks, role)) {
      medians.push_back(measure::quantile(values_of(*rows, var_at_64), 0.5));
      ratios.push_back(medians.back() / common_null(*rows));
    }
  }
  Json out = head(description, "phase1-agg");
  for (const char* name : {"C1", "C2", "C3"}) {
    out[name] = nullptr;
  }
  out["not_from_weights"] = {
      "C1 (activation sparsity) and C2 (output concentration) need "
      "inference; C3 (gate coherence) has no public definition"};
  Json& c4 = out["C4"];
  c4["layers"] = medians.size();
  add_quantiles(c4, "var64", medians);
  c4["min_var64"] = number(measure::quantile(medians, 0.0));
  c4["max_var64"] = number(measure::quantile(medians, 1.0));
  add_quantiles(c4, "var64_ratio", ratios);
  return out;
}

Json phase2(const FileDescription& description, const Layers& layers) {
  Json out = head(description, "phase2");
  Json& all = out["layers"] = Json::object();
  for (const auto& [layer, blocks] : layers) {
    const auto block = blocks.find(Block::kRouter);
    const auto role = block == blocks.end() ? std::map<std::string, Rows>::const_iterator{}
                                            : block->second.find("router");
    if (block == blocks.end() || role == block->second.end()) {
      continue;
    }
    const StoredRow& row = *role->second.front();
    Json entry = one_matrix(row);
    Json& top = entry["top_k_variance"] = Json::object();
    Json& null = entry["top_k_variance_null"] = Json::object();
    for (std::size_t i = 0; i < measure::kVarAtK.size(); ++i) {
      top[std::to_string(measure::kVarAtK[i])] = number(row.values.var_at_k[i]);
      null[std::to_string(measure::kVarAtK[i])] = number(row.nulls.var_at_k[i]);
    }
    entry["effective_rank_sigma"] = number(row.values[Metric::kEffectiveRankSigma]);
    entry["s0"] = number(row.values[Metric::kSpectralNorm]);
    all[std::to_string(layer)] = std::move(entry);
  }
  return out;
}

/// The run's own JSON, checked for depth before the generous parser sees it; null if it is none.
Json parsed(const std::string& text, const std::string& where) {
  parse_json(text, where, {});
  Json out = Json::parse(text, nullptr, false);
  return out.is_discarded() ? Json(nullptr) : out;
}

Json moe_config(const FileDescription& description, const Layers& layers) {
  Json out;
  out["schema"] = "vindex-moe-config/1";
  out["model"] = description.model;
  out["detected"] = parsed(description.config, "/run/config");
  Json& all = out["layers"] = Json::object();
  for (const auto& [layer, blocks] : layers) {
    Json entry;
    const auto routed = blocks.find(Block::kRoutedExpert);
    entry["type"] = routed != blocks.end()              ? "moe"
                    : blocks.contains(Block::kDenseMlp) ? "dense"
                                                        : "other";
    if (routed != blocks.end()) {
      std::set<std::int32_t> experts;
      Json& shapes = entry["expert_shapes"] = Json::object();
      for (const auto& [role, members] : routed->second) {
        for (const StoredRow* row : members) {
          experts.insert(row->expert);
        }
        shapes[role] = {members.front()->rows, members.front()->cols};
      }
      entry["n_routed_experts_measured"] = experts.size();
    }
    entry["has_shared_expert"] = blocks.contains(Block::kSharedExpert);
    entry["has_router"] = blocks.contains(Block::kRouter);
    all[std::to_string(layer)] = std::move(entry);
  }
  return out;
}

}  // namespace

void export_phase_json(ExportInput& input, const std::string& folder) {
  const FileDescription description = input.reader.description();
  const Layers layers = by_layer(input.rows);
  const Json config = moe_config(description, layers);
  make_output_folder(folder);
  write_document(folder, "phase1_moe_svd.json", phase1(description, layers));
  write_document(folder, "phase1_moe_svd_agg.json", phase1_aggregate(description, layers));
  write_document(folder, "phase2_router_svd.json", phase2(description, layers));
  write_document(folder, "moe_config.json", config);
}

}  // namespace vindex::results
