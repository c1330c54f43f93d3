// Owns the report of measured models for people, in the shape of the published ones, with the null
// of every figure beside it.
#include "fleet_tables.hpp"
#include "measure_fleet.hpp"

#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace vindex::fleet {

namespace {

constexpr std::size_t kExtremes = 6;
constexpr std::size_t kMaxUnmeasured = 40;

std::string markdown_number(double value, int digits = 2) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string measured_of(const ModelMeasure& model) {
  return fmt::format("{}/{}", model.tensors.size(), model.tensors_total);
}

std::string range(const Spread& spread) {
  return spread.count() == 0 ? "-" : fmt::format("{:.1f}..{:.1f}", spread.min(), spread.max());
}

std::string signed_range(const Spread& spread) {
  return spread.count() == 0 ? "-" : fmt::format("{:.2f}..{:.2f}", spread.min(), spread.max());
}

std::string parameters_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  for (const auto& [unit, name] : {std::pair{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}}) {
    if (value >= unit) {
      return fmt::format("{:.3g}{}", value / unit, name);
    }
  }
  return std::to_string(count);
}

/// A name in a cell: pipes would end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char letter : printable(text)) {
    out += letter == '|' ? std::string("\\|") : std::string(1, letter);
  }
  return out;
}

/// A table: `rows` with the first as headings, what a row lacks empty; columns named in `texts` are
/// aligned to the left.
std::string markdown_table(const std::vector<std::vector<std::string>>& rows,
                           std::span<const std::size_t> texts) {
  std::string out;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    out += fmt::format("| {} |", fmt::join(rows[row], " | "));
    for (std::size_t i = rows[row].size(); i < rows[0].size(); ++i) {
      out += " |";
    }
    out += "\n";
    for (std::size_t i = 0; row == 0 && i < rows[0].size(); ++i) {
      out += std::find(texts.begin(), texts.end(), i) == texts.end() ? "|--:" : "|---";
    }
    out += row == 0 ? "|\n" : "";
  }
  return out;
}

/// `cells`, then the figures of matrices, with `extra`, where it is given, behind the null of
/// theta.
std::vector<std::string> with_figures(std::vector<std::string> cells, std::int64_t parameters,
                                      const GroupStatistics& group, const std::string& extra = {}) {
  for (const std::string& figure :
       {parameters_text(parameters), markdown_number(group.theta_weighted.mean()),
        markdown_number(group.theta_null.mean()), extra, markdown_number(group.signal.mean(), 3),
        markdown_number(group.theta_seed.mean()), markdown_number(group.theta_seed_null.mean())}) {
    if (!figure.empty()) {
      cells.push_back(figure);
    }
  }
  return cells;
}

std::string ranking_table(std::span<const FleetModel> models) {
  std::vector<std::vector<std::string>> rows = {{"#", "model", "params", "theta", "null",
                                                 "theta, tensors alike", "signal", "theta_seed",
                                                 "null", "tensors"}};
  for (const FleetModel* model : ranking(models)) {
    if (model->measure) {
      const GroupStatistics group = group_statistics(*model->measure);
      rows.push_back(with_figures({std::to_string(rows.size()), cell(model->name)},
                                  model->measure->parameters(), group,
                                  markdown_number(group.theta.mean())));
      rows.back().push_back(measured_of(*model->measure));
    }
  }
  return markdown_table(rows, std::to_array<std::size_t>({1}));
}

std::string class_table(const ModelMeasure& model) {
  std::vector<std::vector<std::string>> rows = {
      {"class", "matrices", "params", "theta", "null", "range", "signal", "theta_seed", "null"}};
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const auto organ_class = static_cast<organ::OrganClass>(i);
    const GroupStatistics group = group_statistics(model, &organ_class);
    if (group.tensors > 0) {
      rows.push_back(
          with_figures({std::string(organ::class_name(organ_class)), std::to_string(group.tensors)},
                       group.parameters, group, range(group.theta)));
    }
  }
  return markdown_table(rows, std::to_array<std::size_t>({0, 5}));
}

std::string vector_table(const ModelMeasure& model) {
  std::vector<std::vector<std::string>> rows = {
      {"class", "1-D tensors", "theta_qq", "null", "range", "theta_seed", "null"}};
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const auto organ_class = static_cast<organ::OrganClass>(i);
    const VectorStatistics group = vector_statistics(model, &organ_class);
    if (group.tensors > 0) {
      rows.push_back({std::string(organ::class_name(organ_class)), std::to_string(group.tensors),
                      markdown_number(group.theta_qq.mean()),
                      markdown_number(group.theta_qq_null.mean()), range(group.theta_qq),
                      markdown_number(group.theta_seed.mean()),
                      markdown_number(group.theta_seed_null.mean())});
    }
  }
  return markdown_table(rows, std::to_array<std::size_t>({0, 4}));
}

/// `tensors` of class `name`: what the mean of noise would be is 0, to the standard deviation
/// given.
void add_scale_row(const std::string& name, const ScaleSpread& scales,
                   std::vector<std::vector<std::string>>& rows) {
  if (scales.z_modulus.count() + scales.csci.count() > 0) {
    rows.push_back({name, std::to_string(scales.z_modulus.count()),
                    markdown_number(scales.z_modulus.mean(), 4),
                    markdown_number(scales.z_null_sd(), 4), signed_range(scales.z_modulus),
                    markdown_number(scales.csci.mean(), 4),
                    markdown_number(scales.csci_signflip.mean(), 4),
                    markdown_number(scales.csci_null_sd(), 4), signed_range(scales.csci)});
  }
}

/// How energy changes with scale, and how sizes go together across scales; empty where no tensor is
/// long enough.
std::string scale_table(const ModelMeasure& model) {
  std::vector<std::vector<std::string>> rows = {{"class", "tensors", "z_modulus", "noise sd",
                                                 "range", "csci", "signs flipped", "noise sd",
                                                 "range"}};
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const auto organ_class = static_cast<organ::OrganClass>(i);
    add_scale_row(std::string(organ::class_name(organ_class)),
                  group_statistics(model, &organ_class).scales, rows);
  }
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const auto organ_class = static_cast<organ::OrganClass>(i);
    add_scale_row(std::string(organ::class_name(organ_class)) + ", 1-D",
                  vector_statistics(model, &organ_class).scales, rows);
  }
  return rows.size() == 1 ? "" : markdown_table(rows, std::to_array<std::size_t>({0, 4, 8}));
}

/// The tensors with the least and the largest theta.
std::string extremes_table(const ModelMeasure& model) {
  std::vector<const MeasuredTensor*> order;
  for (const MeasuredTensor& tensor : model.tensors) {
    if (!std::isnan(tensor[TensorFigure::kTheta].mean())) {
      order.push_back(&tensor);
    }
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return (*a)[TensorFigure::kTheta].mean() > (*b)[TensorFigure::kTheta].mean();
  });
  std::vector<std::vector<std::string>> rows = {
      {"theta", "null", "rank", "tensor", "type", "KS to noise", "theta_seed"}};
  const std::size_t shown = std::min(kExtremes, order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t last = std::max(shown, order.size() - shown);
    if (i == shown && order.size() > 2 * kExtremes) {
      rows.push_back({"..."});
    }
    i = i == shown ? last : i;
    const MeasuredTensor& tensor = *order[i];
    const std::string slices = tensor.slices > 1 ? fmt::format(" ({} slices)", tensor.slices) : "";
    rows.push_back(
        {markdown_number(tensor[TensorFigure::kTheta].mean()),
         markdown_number(tensor[TensorFigure::kThetaNull].mean()),
         markdown_number(tensor[TensorFigure::kRankGd].mean(), tensor.slices > 1 ? 1 : 0),
         cell(tensor.name) + slices, cell(tensor.type),
         markdown_number(tensor[TensorFigure::kMpKs].mean(), 3),
         markdown_number(tensor[TensorFigure::kThetaSeed].mean())});
  }
  return markdown_table(rows, std::to_array<std::size_t>({3, 4}));
}

std::string unmeasured_text(const ModelMeasure& model) {
  if (model.unmeasured.empty()) {
    return "Every tensor is measured.\n";
  }
  std::string out =
      fmt::format("Not measured, {} of {}:\n\n", model.unmeasured.size(), model.tensors_total);
  for (std::size_t i = 0; i < std::min(kMaxUnmeasured, model.unmeasured.size()); ++i) {
    out += fmt::format("- `{}`: {}\n", printable(model.unmeasured[i].name),
                       printable(model.unmeasured[i].reason));
  }
  if (model.unmeasured.size() > kMaxUnmeasured) {
    out += fmt::format("- and {} more, in the JSON report\n",
                       model.unmeasured.size() - kMaxUnmeasured);
  }
  return out;
}

}  // namespace

std::string report_markdown(std::span<const FleetModel> models) {
  const auto measured = std::count_if(models.begin(), models.end(), [](const FleetModel& model) {
    return model.measure.has_value();
  });
  std::string out = fmt::format(
      "# Measure report\n\n"
      "theta is the angle between a matrix and the noise in it, from its singular values: 0 "
      "degrees "
      "all noise, 45 equal power, 90 no noise; signal is its sine. `null` is what independent "
      "normal "
      "numbers of the same shape give. Norms that differ between rows or columns count as signal, "
      "too; a KS distance of more than about 0.1 says that the bulk is not plain noise, and theta "
      "then says little. Means are over matrices, weighted by their parameters (`tensors alike`: "
      "unweighted); 1-D tensors have no spectrum and stand apart.\n\n"
      "{}\n\n## Ranking, {} {}\n\n{}\n",
      kSeedWarning, measured, measured == 1 ? "model" : "models", ranking_table(models));
  if (static_cast<std::size_t>(measured) < models.size()) {
    out += "Not measured:\n\n";
    for (const FleetModel& model : models) {
      if (!model.measure) {
        out += fmt::format("- {} (`{}`): {}\n", cell(model.name), printable(model.path),
                           printable(model.failure));
      }
    }
    out += "\n";
  }
  for (const FleetTable& table : fleet_tables(models)) {
    out += fmt::format("## {}\n\n{}\n{}\n\n", table.title, markdown_table(table.rows, table.texts),
                       table.note);
  }
  for (const FleetModel* model : ranking(models)) {
    if (!model->measure) {
      continue;
    }
    const ModelMeasure& measure = *model->measure;
    out +=
        fmt::format("## {}\n\nArchitecture {}, {} parameters in {} tensors, {} measured.\n\n{}\n",
                    printable(model->name), printable(measure.architecture),
                    parameters_text(measure.parameters()), measure.tensors_total,
                    measure.tensors.size(), class_table(measure));
    if (vector_statistics(measure).tensors > 0) {
      out += vector_table(measure) + "\n";
    }
    if (const std::string scales = scale_table(measure); !scales.empty()) {
      out += "Across scales, means over tensors (" + std::string(kScaleMeaning) + "):\n\n" +
             scales + "\n";
    }
    out +=
        "Largest and smallest theta (rank: values above the threshold of Gavish and Donoho):\n\n" +
        extremes_table(measure) + "\n" + unmeasured_text(measure) + "\n";
  }
  out += "## Time\n\n| model | MB | seconds | MB/s |\n|---|--:|--:|--:|\n";
  for (const FleetModel& model : models) {
    if (model.measure) {
      const double megabytes = 1e-6 * static_cast<double>(model.measure->bytes);
      out += fmt::format("| {} | {:.1f} | {} | {} |\n", cell(model.name), megabytes,
                         markdown_number(model.measure->seconds, 1),
                         markdown_number(megabytes / model.measure->seconds, 1));
    }
  }
  return out;
}

std::string ranking_text(std::span<const FleetModel> models, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"model", "params", "theta", "noise", "signal", "theta_seed", "noise", "measured"}};
  for (const FleetModel* model : ranking(models)) {
    if (!model->measure) {
      rows.push_back({printable(model->name), "-", "-", "-", "-", "-", "-", "failed"});
      continue;
    }
    rows.push_back(with_figures({printable(model->name)}, model->measure->parameters(),
                                group_statistics(*model->measure)));
    rows.back().push_back(measured_of(*model->measure));
  }
  const TextColumn figures{.right = true};
  std::string more;
  for (const FleetTable& table : fleet_tables(models)) {
    if (table.is_short) {
      std::vector<TextColumn> columns(table.rows.front().size(), {.right = true, .is_close = true});
      for (const std::size_t words : table.texts) {
        columns[words].right = false;
        columns[words].min_width = 12;
      }
      if (table.rows.front().back() == part_name(ModelPart::kOther)) {
        columns.back().dropped_as = 1;
      }
      more +=
          "\n" + wrapped_text(table.title, width) + "\n" + table_text(table.rows, columns, width);
    }
  }
  return table_text(
             rows,
             {{.min_width = 12}, figures, figures, figures, figures, figures, figures, figures},
             width) +
         wrapped_text(kSeedWarning, width) + "\n" + more;
}

}  // namespace vindex::fleet
