// Owns the layout of those tables.
#include "cka_tables.hpp"

#include "cka_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace vindex::commands {

namespace {

constexpr TextColumn kCkaNumber{.right = true};
constexpr TextColumn kCkaClose{.right = true, .is_close = true};

/// Hundredths; a dot where the value is not above what permuted prompts give in 95 of 100 draws.
std::string cell_text(double cka, double noise) {
  return std::isnan(cka) ? "-" : cka <= noise ? "." : fmt::format("{:.0f}", 100.0 * cka);
}

results::SummaryTable matrix_table(const results::ResultsView& shown,
                                   const std::vector<std::int64_t>& layers_b) {
  results::SummaryTable table{
      .title = "CKA in hundredths, layers of A down and of B across; . is within noise (95 %)",
      .otherwise = fmt::format("matrix of {} x {} layers: too wide for this terminal, --wide "
                               "prints it",
                               shown.rows.size(), layers_b.size())};
  std::vector<std::string> head = {"A\\B"};
  table.layout.push_back(kCkaNumber);
  for (const std::int64_t layer : layers_b) {
    head.push_back(std::to_string(layer));
    table.layout.push_back(kCkaClose);
  }
  table.cells.push_back(std::move(head));
  for (const results::ViewRow& row : shown.rows) {
    std::vector<std::string> line = {std::to_string(row.layer)};
    for (const std::int64_t layer : layers_b) {
      const auto at = static_cast<double>(layer);
      line.push_back(cell_text(cka_number(row, "cka", layers_b, at),
                               cka_number(row, "null_q95", layers_b, at)));
    }
    table.cells.push_back(std::move(line));
  }
  return table;
}

std::string interval_text(double low, double high) {
  return std::isnan(low) || std::isnan(high) ? "-" : fmt::format("{:.3g} .. {:.3g}", low, high);
}

/// Several depths fall on one pair of layers where a model has few: it stands at the first.
results::SummaryTable matched_table(const results::ResultsView& shown,
                                    const std::vector<std::int64_t>& layers_b,
                                    const CkaFindings& findings) {
  results::SummaryTable table = {
      .cells = {{"depth", "A", "B", "cka", "95 % interval", "noise 95 %", "p"}},
      .layout = {kCkaNumber, kCkaNumber, kCkaNumber, kCkaNumber, kCkaNumber, kCkaClose, kCkaNumber},
      .title = "layers of A and B at the same depth"};
  std::pair<std::int64_t, std::int64_t> last = {-1, -1};
  for (const MatchedLayer& layer : findings.matched) {
    const auto row =
        std::find_if(shown.rows.begin(), shown.rows.end(),
                     [&](const results::ViewRow& one) { return one.layer == layer.layer_a; });
    if (row == shown.rows.end() || std::exchange(last, {layer.layer_a, layer.layer_b}) ==
                                       std::pair(layer.layer_a, layer.layer_b)) {
      continue;
    }
    const auto at = static_cast<double>(layer.layer_b);
    table.cells.push_back({fmt::format("{:.0f} %", 100.0 * layer.depth),
                           std::to_string(layer.layer_a), std::to_string(layer.layer_b),
                           results::number_text(layer.cka),
                           interval_text(cka_number(*row, "ci_low", layers_b, at),
                                         cka_number(*row, "ci_high", layers_b, at)),
                           results::number_text(layer.null_q95), results::number_text(layer.p)});
  }
  return table;
}

}  // namespace

std::vector<std::int64_t> cka_scale(const results::ResultsView& shown) {
  const auto scale = shown.scales.find("layers_b");
  return scale == shown.scales.end() ? std::vector<std::int64_t>() : scale->second.integers;
}

double cka_number(const results::ViewRow& row, std::string_view name,
                  const std::vector<std::int64_t>& layers_b, double layer_b) {
  const std::vector<double>& values = row.arrays.at(results::column_number(kCkaTable.arrays, name));
  for (std::size_t i = 0; i < std::min(values.size(), layers_b.size()); ++i) {
    if (static_cast<double>(layers_b[i]) == layer_b) {
      return values[i];
    }
  }
  return std::nan("");
}

std::vector<results::SummaryTable> cka_tables(const results::ResultsView& shown,
                                              const CkaFindings& findings) {
  const std::vector<std::int64_t> layers_b = cka_scale(shown);
  std::vector<results::SummaryTable> tables;
  if (!layers_b.empty()) {
    tables.push_back(matrix_table(shown, layers_b));
  }
  tables.push_back(matched_table(shown, layers_b, findings));
  return tables;
}

}  // namespace vindex::commands
