// Owns rows and notes of each table.
#include "fleet_tables.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::fleet {

namespace {

std::string number(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

/// A name in a cell of Markdown, too.
std::string name_cell(const std::string& text) {
  std::string out = printable(text);
  std::replace(out.begin(), out.end(), '|', '/');
  return out;
}

std::vector<const FleetModel*> ranked_models(std::span<const FleetModel> models) {
  std::vector<const FleetModel*> order = ranking(models);
  std::erase_if(order, [](const FleetModel* model) { return !model->measure; });
  return order;
}

/// Without columns that have nothing but "-".
void drop_empty_columns(std::vector<std::vector<std::string>>& rows) {
  for (std::size_t column = rows.front().size(); column-- > 1;) {
    const bool empty = std::all_of(rows.begin() + 1, rows.end(),
                                   [&](const auto& row) { return row[column] == "-"; });
    if (empty) {
      for (std::vector<std::string>& row : rows) {
        row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
      }
    }
  }
}

FleetTable part_table(const std::vector<const FleetModel*>& models) {
  FleetTable table{.title = "theta of the parts (in brackets: of noise)",
                   .rows = {{"model"}},
                   .texts = {0},
                   .note =
                       "Means over matrices, weighted by their parameters. `dense`: feed-forward "
                       "matrices of every token; `routed`, `shared`: experts.",
                   .is_short = true};
  for (std::size_t i = 0; i < kModelParts; ++i) {
    table.rows.front().emplace_back(part_name(static_cast<ModelPart>(i)));
  }
  for (const FleetModel* model : models) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(name_cell(model->name));
    for (std::size_t i = 0; i < kModelParts; ++i) {
      const GroupStatistics part = part_statistics(*model->measure, static_cast<ModelPart>(i));
      const double theta = part.theta_weighted.mean();
      row.push_back(
          std::isnan(theta) ? "-" : fmt::format("{:.1f} ({:.1f})", theta, part.theta_null.mean()));
    }
  }
  drop_empty_columns(table.rows);
  return table;
}

FleetTable attention_table(const std::vector<const FleetModel*>& models) {
  FleetTable table{.title = "What the models claim",
                   .rows = {{"model", "architecture", "context", "RoPE", "heads", "KV heads"}},
                   .texts = {0, 1, 3, 5},
                   .note =
                       "From their configurations, `-` where they say nothing. `MLA r`: latent "
                       "attention, keys and values from r dimensions.",
                   .is_short = true};
  for (const FleetModel* model : models) {
    const model::ArchitectureFacts& facts = model->measure->attention;
    table.rows.push_back({name_cell(model->name), name_cell(model->measure->architecture),
                          facts.context_length ? std::to_string(*facts.context_length) : "-",
                          name_cell(model::rope_text(facts)),
                          facts.heads ? std::to_string(facts.heads->most) : "-",
                          model::kv_text(facts)});
  }
  return table;
}

FleetTable card_table(const std::vector<const FleetModel*>& models) {
  FleetTable table{
      .title = "Classes of the published cards",
      .rows = {{"stored as", "model", "var@64", "null", "ratio", "class", "class of noise"}},
      .texts = {0, 1, 5, 6},
      .note = fmt::format(
          "Of the feed-forward matrices. The cards call a model dissolved where var@64 is below "
          "{}, "
          "and say that training in few bits does it. The rule ignores shapes: where noise of the "
          "same shapes has the same class, the class says nothing of the model; the ratio does. A "
          "file says what weights are stored in, not what they were trained in.",
          kCardThreshold)};
  std::vector<std::vector<std::string>> rows;
  for (const FleetModel* model : models) {
    const GroupStatistics figures = feed_forward_statistics(*model->measure);
    const double value = figures.var64.mean();
    if (std::isnan(value)) {
      continue;
    }
    const double null = figures.var64_null.mean();
    rows.push_back({name_cell(feed_forward_encoding(*model->measure)), name_cell(model->name),
                    number(value, 4), number(null, 4), number(value / null, 2), card_class(value),
                    card_class(null)});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.front() < b.front(); });
  table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  return table;
}

std::vector<std::string> fit_cells(const std::string& name, const char* of, const ScaleFit& fit) {
  return {name,
          of,
          std::to_string(fit.models),
          std::isnan(fit.slope) ? "-" : fmt::format("{:+.3f}", fit.slope),
          !fit.reason.empty()   ? fit.reason
          : std::isnan(fit.low) ? "-"
                                : fmt::format("{:+.3f}..{:+.3f}", fit.low, fit.high),
          std::isnan(fit.p) ? "-" : fmt::format("{:.4f}", fit.p)};
}

FleetTable scale_law_table(std::span<const FleetModel> models) {
  FleetTable table{
      .title = "Law of scale: figures against ln(parameters); ratios change with shapes, too",
      .rows = {{"figure", "models", "n", "slope", "95 %", "p"}},
      .texts = {0, 1, 4},
      .note =
          "The slope is per factor e of parameters. p: how often the figures, exchanged among "
          "the models (within architectures: among those of one), give a slope as steep; "
          "without a small p there is no law to report. "
          "Ratios to a null change with the shapes even where the share of signal does not: it "
          "takes theta or var64_excess, (var@64 - null) / (1 - null), to speak of one. "
          "Fine-tunes of one model are not "
          "independent, and count as one at most.",
      .is_short = true};
  for (const ScaleLaw& law : scale_laws(measured_models(models))) {
    table.rows.push_back(fit_cells(law.name, "all", law.all));
    if (law.within.groups > 0 && law.within.reason.empty()) {
      table.rows.push_back(fit_cells(law.name, "within architectures", law.within));
    }
  }
  return table;
}

}  // namespace

std::vector<const ModelMeasure*> measured_models(std::span<const FleetModel> models) {
  std::vector<const ModelMeasure*> measured;
  for (const FleetModel& model : models) {
    if (model.measure) {
      measured.push_back(&*model.measure);
    }
  }
  return measured;
}

std::string card_class(double var64) {
  if (std::isnan(var64)) {
    return {};
  }
  return var64 < kCardThreshold ? "dissolved" : "not dissolved";
}

std::vector<FleetTable> fleet_tables(std::span<const FleetModel> models) {
  const std::vector<const FleetModel*> order = ranked_models(models);
  if (order.size() < 2) {
    return {};
  }
  return {part_table(order), attention_table(order), card_table(order), scale_law_table(models)};
}

}  // namespace vindex::fleet
