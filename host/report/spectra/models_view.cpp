// Owns gathering roles over layers and files, and tables that fit.
#include "models_view.hpp"

#include "core/files/path_kind.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::report {

namespace {

constexpr std::size_t kNameWidth = 24;

/// In the order of their first appearance, over all models.
using Roles = std::vector<std::pair<model::Block, std::string>>;

void add_role(Roles& roles, const MetricGroup& group) {
  const std::pair role(group.block, group.role);
  if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
    roles.push_back(role);
  }
}

ModelView model_of(const SpectraView& view) {
  std::vector<MatrixView> matrices;
  for (const MatrixView& matrix : view.matrices) {
    if (matrix.measured) {
      matrices.push_back(matrix);
      // Of any layer, and all that there are.
      matrices.back().layer = matrices.back().draw = matrices.back().draw_of = -1;
    }
  }
  return {.path = view.path,
          .model = view.model,
          .metric = view.metric,
          .roles = metric_groups(matrices)};
}

/// "routed" of routed_expert, "dense" of dense_mlp.
std::string short_block(model::Block block) {
  const std::string name(block_name(block));
  return name.substr(0, name.find('_'));
}

/// A role's name; with its block where a role stands in several.
std::string heading(const Roles& roles, std::size_t index) {
  const auto& [block, role] = roles[index];
  const auto same = std::count_if(roles.begin(), roles.end(),
                                  [&](const auto& other) { return other.second == role; });
  const std::string name = printable(role.empty() ? std::string(block_name(block)) : role);
  return same > 1 && !role.empty() ? fmt::format("{} {}", short_block(block), name) : name;
}

std::string cell_of(const ModelView& model, const std::pair<model::Block, std::string>& role) {
  const auto found =
      std::find_if(model.roles.begin(), model.roles.end(), [&](const MetricGroup& group) {
        return group.block == role.first && group.role == role.second;
      });
  const double value = found == model.roles.end() ? std::numeric_limits<double>::quiet_NaN()
                       : model.metric.has_null    ? found->ratio
                                                  : found->median;
  return std::isnan(value) ? "-" : fmt::format("{:.3g}", value);
}

}  // namespace

std::vector<ModelView> read_model_views(const std::vector<std::string>& paths,
                                        const ShowQuery& query) {
  std::vector<ModelView> models;
  for (const std::string& path : paths) {
    models.push_back(model_of(read_spectra_view(path, query)));
  }
  return models;
}

std::string models_text(const std::vector<ModelView>& models, std::size_t width) {
  Roles roles;
  for (const ModelView& model : models) {
    for (const MetricGroup& group : model.roles) {
      add_role(roles, group);
    }
  }
  const ViewedMetric& metric = models.front().metric;
  const bool one_k = std::all_of(models.begin(), models.end(), [&](const ModelView& model) {
    return model.metric.k && model.metric.k == metric.k;
  });
  const std::string label =
      metric.is_by_k() && !one_k ? "var@k (k by the shape; --k fixes it)" : metric.label();
  std::string out =
      wrapped_text(
          metric.has_null
              ? fmt::format("{} over its noise: medians over the layers; 1 is noise of that shape",
                            label)
              : fmt::format("{}: medians over the layers; it has no null", label),
          width) +
      "\n";
  std::vector<std::string> names;
  std::size_t widest = 0;
  for (const ModelView& model : models) {
    const std::string file = file_name_of(model.path);
    names.push_back(printable(file.substr(0, file.rfind(".h5"))));
    widest = std::max(widest, std::min(kNameWidth, display_width(names.back())));
  }
  for (std::size_t first = 0; first < roles.size();) {
    std::vector<std::vector<std::string>> rows = {{"file"}};
    for (const std::string& name : names) {
      rows.push_back({name});
    }
    std::size_t used = widest;
    std::size_t next = first;
    while (next < roles.size()) {
      const std::string title = heading(roles, next);
      used += 2 + std::max<std::size_t>(display_width(title), 5);
      if (used > width && next > first) {
        break;
      }
      rows.front().push_back(title);
      for (std::size_t i = 0; i < models.size(); ++i) {
        rows[i + 1].push_back(cell_of(models[i], roles[next]));
      }
      ++next;
    }
    std::vector<TextColumn> columns(rows.front().size(), {.right = true});
    columns.front() = {.min_width = 12};
    out += (first == 0 ? "" : "\n") + table_text(rows, columns, width);
    first = next;
  }
  return out;
}

std::string models_json(const std::vector<ModelView>& models) {
  const auto role = [](const MetricGroup& group) {
    return Json{{"block", block_name(group.block)}, {"role", group.role},
                {"values", group.values},           {"median", group.median},
                {"null", group.median_null},        {"ratio", group.ratio}};
  };
  const auto one = [&](const ModelView& model) {
    return Json{
        {"path", model.path}, {"model", model.model}, {"roles", Json::list(model.roles, role)}};
  };
  const ViewedMetric& metric = models.front().metric;
  const Json document = {{"schema", "vindex-show-models/1"},
                         {"metric", metric.name},
                         {"k", Json::given(metric.k)},
                         {"files", Json::list(models, one)}};
  return document.dump(2) + "\n";
}

}  // namespace vindex::report
