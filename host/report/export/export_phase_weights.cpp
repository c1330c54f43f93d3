// Owns phase1_moe_svd.json, phase2_router_svd.json and moe_config.json: what a file of spectra says
// in the export `phase-json`.
#include "export_phase_weights.hpp"

#include "export_input.hpp"

#include "commands/spectra/draw_lines.hpp"
#include "core/json/json.hpp"
#include "statistics/layers/layer_statistics.hpp"
#include "statistics/samples/quantile.hpp"

#include <fmt/format.h>

#include <set>

namespace vindex::report {

using model::Block;
using statistics::Metric;

namespace {

double ratio(const results::StoredRow& row) {
  return commands::metric_of(row, Metric::kSigmaRatio12);
}
double effective_rank(const results::StoredRow& row) {
  return commands::metric_of(row, Metric::kEffectiveRank);
}
double stable_rank(const results::StoredRow& row) {
  return commands::metric_of(row, Metric::kStableRank);
}

Json summary(const Rows& rows) {
  Json out;
  const double null = common_null(rows);
  const std::vector<double> var64 = values_of(rows, var_at_64);
  const statistics::DrawnGroup drawn = drawn_rows(rows);
  const auto add = [&](const char* name, const std::vector<double>& values) {
    add_quantiles(out, name, values);
    if (drawn.is_drawn()) {
      const statistics::MetricEstimates of = statistics::estimates_of(values, drawn.untried());
      out[fmt::format("median_{}_se", name)] = Json(of.median.error);
      out[fmt::format("q25_{}_se", name)] = Json(of.q25.error);
      out[fmt::format("q75_{}_se", name)] = Json(of.q75.error);
    }
  };
  out["count"] = var64.size();
  if (drawn.is_drawn()) {
    out["n_measured"] = var64.size();
    out["n_total"] = drawn.total;
  }
  add("var64", var64);
  out["var64_null"] = null;
  out["median_var64_ratio"] = Json(statistics::quantile(var64, 0.5) / null);
  add("s0_s1", values_of(rows, ratio));
  add("effective_rank", values_of(rows, effective_rank));
  add("stable_rank", values_of(rows, stable_rank));
  return out;
}

Json one_matrix(const results::StoredRow& row) {
  Json out;
  if (row.expert >= 0) {
    out["expert"] = row.expert;
  } else if (row.slice >= 0) {
    out["expert"] = row.slice;
  }
  out["name"] = row.tensor;
  out["status"] = results::kStatusNames[static_cast<std::size_t>(row.status)];
  out["shape"] = {row.rows, row.cols};
  out["var64"] = Json(var_at_64(row));
  out["var64_null"] = Json(var_at_64_null(row));
  out["s0_s1"] = Json(ratio(row));
  out["effective_rank"] = Json(effective_rank(row));
  out["stable_rank"] = Json(stable_rank(row));
  return out;
}

struct Part {
  Block block;
  const char* name;
};
constexpr Part kParts[] = {{Block::kRoutedExpert, "routed"},
                           {Block::kSharedExpert, "shared"},
                           {Block::kRouter, "router"},
                           {Block::kDenseMlp, "dense"}};

/// The run's own JSON.
Json parsed(const std::string& text, const std::string& where) {
  return Json::of(parse_json(text, where, {}));
}

}  // namespace

double common_null(const Rows& rows) {
  for (const results::StoredRow* row : rows) {
    if (row->shorter() != rows.front()->shorter() || row->longer() != rows.front()->longer()) {
      return std::nan("");
    }
  }
  return rows.empty() ? std::nan("") : var_at_64_null(*rows.front());
}

void add_quantiles(Json& out, const char* name, const std::vector<double>& values) {
  out[fmt::format("median_{}", name)] = Json(statistics::quantile(values, 0.5));
  out[fmt::format("q25_{}", name)] = Json(statistics::quantile(values, 0.25));
  out[fmt::format("q75_{}", name)] = Json(statistics::quantile(values, 0.75));
}

std::vector<double> values_of(const Rows& rows, double (*value)(const results::StoredRow&)) {
  std::vector<double> out;
  const statistics::DrawnGroup drawn = drawn_rows(rows);
  for (const results::StoredRow* row : rows) {
    if (row->status == MatrixStatus::kMeasured && (!drawn.is_drawn() || drawn.holds(row->draw))) {
      out.push_back(value(*row));
    }
  }
  return out;
}

statistics::DrawnGroup drawn_rows(const Rows& rows) {
  std::vector<statistics::DrawnMember> members;
  for (const results::StoredRow* row : rows) {
    members.push_back(commands::drawn_member(*row));
  }
  return statistics::drawn_group(members);
}

Layers by_layer(const std::vector<results::StoredRow>& rows) {
  Layers layers;
  for (const results::StoredRow& row : rows) {
    if (row.layer >= 0) {
      layers[row.layer][row.block][row.role].push_back(&row);
    }
  }
  return layers;
}

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

Json phase_head(const results::FileDescription& description, const char* phase) {
  Json out;
  out["schema"] = fmt::format("vindex-{}/1", phase);
  out["model"] = description.model;
  out["mode"] = description.mode;
  out["var64_denominator"] = "squared Frobenius norm (all singular values)";
  out["effective_rank"] = "exp of the entropy of s^2 / sum s^2";
  out["quantiles"] = "linear interpolation";
  if (const auto seed = commands::draw_seed(description.fingerprint)) {
    out["sample"] = {
        {"seed", *seed},
        {"what",
         "matrices of each layer and role drawn at random, n_measured of n_total; _se: "
         "standard errors, finite-population corrected"}};
  }
  return out;
}

Json phase1_document(const results::FileDescription& description, const Layers& layers) {
  Json out = phase_head(description, "phase1");
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
        for (const results::StoredRow* row : members) {
          matrices.push_back(one_matrix(*row));
        }
        entry[name][part_role] = std::move(part);
      }
    }
    all[std::to_string(layer)] = std::move(entry);
  }
  return out;
}

Json phase2_document(const results::FileDescription& description, const Layers& layers) {
  Json out = phase_head(description, "phase2");
  Json& all = out["layers"] = Json::object();
  for (const auto& [layer, blocks] : layers) {
    const auto block = blocks.find(Block::kRouter);
    const auto role = block == blocks.end() ? std::map<std::string, Rows>::const_iterator{}
                                            : block->second.find("router");
    if (block == blocks.end() || role == block->second.end()) {
      continue;
    }
    const results::StoredRow& row = *role->second.front();
    Json entry = one_matrix(row);
    Json& top = entry["top_k_variance"] = Json::object();
    Json& null = entry["top_k_variance_null"] = Json::object();
    for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
      top[std::to_string(kVarAtK[i])] = Json(commands::var_at_k_of(row, i));
      null[std::to_string(kVarAtK[i])] = Json(commands::var_at_k_null_of(row, i));
    }
    entry["effective_rank_sigma"] = Json(commands::metric_of(row, Metric::kEffectiveRankSigma));
    entry["s0"] = Json(commands::metric_of(row, Metric::kSpectralNorm));
    all[std::to_string(layer)] = std::move(entry);
  }
  return out;
}

Json moe_config_document(const results::FileDescription& description, const Layers& layers) {
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
      Json samples = Json::object();
      for (const auto& [role, members] : routed->second) {
        for (const results::StoredRow* row : members) {
          experts.insert(row->expert);
        }
        shapes[role] = {members.front()->rows, members.front()->cols};
        if (const statistics::DrawnGroup drawn = drawn_rows(members); drawn.is_drawn()) {
          samples[role] = {{"n_measured", values_of(members, var_at_64).size()},
                           {"n_total", drawn.total}};
        }
      }
      if (!samples.empty()) {
        entry["routed_sample"] = std::move(samples);
      }
      entry["n_routed_experts_measured"] = experts.size();
    }
    entry["has_shared_expert"] = blocks.contains(Block::kSharedExpert);
    entry["has_router"] = blocks.contains(Block::kRouter);
    all[std::to_string(layer)] = std::move(entry);
  }
  return out;
}

}  // namespace vindex::report
