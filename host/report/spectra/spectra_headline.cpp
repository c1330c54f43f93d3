// Owns what is said of the run and the metric before any number.
#include "spectra_headline.hpp"

#include "statistics/spectrum/metric_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::report {

namespace {

std::string rows_text(model::ResultTable table) {
  return table == model::ResultTable::kMatrix
             ? "matrices"
             : fmt::format("rows of /{}/", model::table_name(table));
}

std::string other_tables_text(const SpectraView& view) {
  std::string text;
  for (const model::ResultTable table : view.other_tables) {
    text += fmt::format("{}--table {}", text.empty() ? "others: " : ", ", model::table_name(table));
  }
  return text.empty() ? text : text + "\n";
}

/// What the numbers are not, where they are not of all that was selected.
std::string standing_text(const SpectraView& view) {
  if (view.n_total > view.rows_total) {
    return fmt::format("a sample: {} of {} matrices of the model\n", view.rows_total, view.n_total);
  }
  return view.n_total == 0 && view.state != "complete" && view.state != "finished"
             ? "unfinished: what is not whole is no random sample (measure --order sampled)\n"
             : "";
}

}  // namespace

std::string spectra_headline(const SpectraView& view) {
  std::string about;
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    if (row.name == view.metric.name) {
      about = row.long_name;
    }
  }
  if (view.metric.is_by_k()) {
    about = fmt::format("share of the squared norm in the first {} singular values",
                        view.metric.k ? std::to_string(*view.metric.k) : "k");
  }
  const std::string sample = standing_text(view);
  return fmt::format("{}: {}, {} of {} {} measured (mode {}, back end {})\n{}{}{}{}{}\n",
                     printable(view.path), view.state, view.rows_measured, view.rows_total,
                     rows_text(view.table), printable(view.mode), printable(view.backend), sample,
                     other_tables_text(view), view.metric.label(), about.empty() ? "" : ": ",
                     about);
}

}  // namespace vindex::report
