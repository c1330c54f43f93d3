// What `show` says to people: tables of numbers with four digits, `-` where there is none.
#include "spectra_view.hpp"

#include "core/text/short_names.hpp"
#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace vindex::report {

namespace {

constexpr const char* kNone = "-";

/// Four digits; large ones in full, and whole ones where `is_count`.
std::string digits_text(double value, bool is_count) {
  const double size = std::abs(value);
  // From 999.95 on four digits are whole ones.
  const bool is_whole = size < 1e7 && (size >= 999.95 || (is_count && value == std::floor(value)));
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:#.4g}", value);
}

std::string shown_text(const ShownMetric& metric, double value) {
  return std::isnan(value) ? std::string(kNone)
                           : (metric.is_share ? fmt::format("{:.4f}", value)
                                              : digits_text(value, metric.is_count));
}

std::string difference_text(const ShownMetric& metric, double value) {
  if (std::isnan(value)) {
    return kNone;
  }
  if (metric.is_share) {
    return std::abs(value) < 0.00005 ? "0.0000" : fmt::format("{:+.4f}", value);
  }
  return (value > 0.0 ? "+" : "") + digits_text(value, metric.is_count);
}

/// "0.685..0.688"; a spread of one value is none.
std::string quartiles_text(const ShownMetric& metric, const ShownGroup& group) {
  if (group.values < 2) {
    return kNone;
  }
  return metric.is_share ? fmt::format("{:.3f}..{:.3f}", group.q25, group.q75)
                         : fmt::format("{}..{}", digits_text(group.q25, metric.is_count),
                                       digits_text(group.q75, metric.is_count));
}

std::string ratio_text(double value) {
  if (std::isnan(value)) {
    return kNone;
  }
  if (std::abs(value) < 0.001 && value != 0.0) {
    return fmt::format("{:.1e}", value);
  }
  return std::abs(value) < 100.0 ? fmt::format("{:.3f}", value) : digits_text(value, false);
}

std::string z_text(double value) {
  return std::isnan(value) ? std::string(kNone) : fmt::format("{:+.1f}", value);
}

/// Two digits are what an error is known to.
std::string error_text(double value) {
  return std::isnan(value) ? std::string(kNone)
         : value == 0.0    ? std::string("0")
         : value < 9.95    ? fmt::format("{:#.2g}", value)
                           : fmt::format("{:.0f}", value);
}

/// "16 of 384" where a group was drawn and is not whole.
std::string count_text(const ShownGroup& group) {
  return group.n_measured < group.n_total ? fmt::format("{} of {}", group.n_measured, group.n_total)
                                          : std::to_string(group.count);
}

std::string layer_text(std::int32_t layer) { return layer < 0 ? kNone : std::to_string(layer); }

/// Column headings and cells, put in one after the other.
class Table {
 public:
  Table& column(std::string heading, TextColumn column) {
    rows_.front().push_back(std::move(heading));
    columns_.push_back(column);
    return *this;
  }
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text(std::size_t width) const { return table_text(rows_, columns_, width); }

 private:
  std::vector<std::vector<std::string>> rows_ = {{}};
  std::vector<TextColumn> columns_;
};

/// Numbers move together before a name is shortened: they are what a table is for.
constexpr TextColumn kNumber = {.right = true, .is_close = true};
/// "routed..." at the least.
constexpr TextColumn kBlock = {.min_width = 9, .keep = Keep::kStart, .is_close = true};
constexpr TextColumn kRole = {.min_width = 10};

constexpr TextColumn dropped(std::uint8_t turn) {
  return {.right = true, .is_close = true, .dropped_as = turn};
}

/// What goes where not even short names leave room for the numbers of a metric.
constexpr TextColumn given_up(std::uint8_t turn) {
  return {.right = true, .is_close = true, .given_up_as = turn};
}

/// The value's heading: the metric where it is short, since the first line has it in full.
std::string heading(const ShownMetric& metric, const char* otherwise) {
  constexpr std::size_t kLongest = 8;
  const std::string label = metric.label();
  return label.size() <= kLongest ? label : otherwise;
}

bool has_own_k(const ShownMetric& metric) { return metric.is_by_k() && !metric.k; }

bool is_principal(model::Block block) {
  return block == model::Block::kRoutedExpert || block == model::Block::kRouter ||
         block == model::Block::kDenseMlp;
}

std::string name_text(const ShownMatrix& matrix) {
  return matrix.slice < 0 ? printable(matrix.tensor)
                          : fmt::format("{}#{}", printable(matrix.tensor), matrix.slice);
}

/// Why there is no number at all: the reason that most of the measured rows give.
std::string silence_text(const Shown& shown, std::size_t width) {
  std::vector<std::string> reasons;
  for (const ShownMatrix& matrix : shown.matrices) {
    if (matrix.measured && !std::isnan(matrix.numbers.value)) {
      return "";
    }
    if (matrix.measured && !matrix.reason.empty()) {
      reasons.push_back(matrix.reason);
    }
  }
  std::sort(reasons.begin(), reasons.end());
  std::string most;
  std::ptrdiff_t count = 0;
  for (auto first = reasons.begin(); first != reasons.end();) {
    const auto last = std::upper_bound(first, reasons.end(), *first);
    if (last - first > count) {
      count = last - first;
      most = *first;
    }
    first = last;
  }
  return wrapped_text(fmt::format("(no matrix here has a value of {}{})", shown.metric.label(),
                                  most.empty() ? "" : ": " + printable(most)),
                      width, 2) +
         "\n";
}

std::string rows_text(model::ResultTable table) {
  return table == model::ResultTable::kMatrix
             ? "matrices"
             : fmt::format("rows of /{}/", model::table_name(table));
}

std::string other_tables_text(const Shown& shown) {
  std::string text;
  for (const model::ResultTable table : shown.other_tables) {
    text += fmt::format("{}--table {}", text.empty() ? "others: " : ", ", model::table_name(table));
  }
  return text.empty() ? text : text + "\n";
}

/// What the numbers are not, where they are not of all that was selected.
std::string standing_text(const Shown& shown) {
  if (shown.n_total > shown.matrices_total) {
    return fmt::format("a sample: {} of {} matrices of the model\n", shown.matrices_total,
                       shown.n_total);
  }
  return shown.n_total == 0 && shown.state != "complete" && shown.state != "finished"
             ? "unfinished: what is not whole is no random sample (measure --order sampled)\n"
             : "";
}

}  // namespace

std::string shown_headline(const Shown& shown) {
  std::string about;
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    if (row.name == shown.metric.name) {
      about = row.long_name;
    }
  }
  if (shown.metric.is_by_k()) {
    about = fmt::format("share of the squared norm in the first {} singular values",
                        shown.metric.k ? std::to_string(*shown.metric.k) : "k");
  }
  const std::string sample = standing_text(shown);
  return fmt::format("{}: {}, {} of {} {} measured (mode {}, back end {})\n{}{}{}{}{}\n",
                     printable(shown.path), shown.state, shown.matrices_measured,
                     shown.matrices_total, rows_text(shown.table), printable(shown.mode),
                     printable(shown.backend), sample, other_tables_text(shown),
                     shown.metric.label(), about.empty() ? "" : ": ", about);
}

std::string groups_text(const Shown& shown, std::size_t width, std::size_t max_lines) {
  const ShownMetric& metric = shown.metric;
  const std::vector<ShownGroup> groups = shown_groups(shown.matrices);
  Table table;
  table.column("layer", kNumber).column("block", kBlock).column("role", kRole);
  const bool is_drawn = shown.n_total > 0;
  table.column("n", is_drawn ? kNumber : given_up(1));
  if (has_own_k(metric)) {
    table.column("k", kNumber);
  }
  table.column(heading(metric, "median"), kNumber);
  if (is_drawn) {
    table.column("+-", kNumber);
  }
  table.column("q25..q75", dropped(1));
  if (metric.has_null) {
    table.column("noise", kNumber).column("diff", kNumber).column("ratio", kNumber);
  }
  if (metric.has_sign_flip) {
    table.column("flip", kNumber);
  }
  if (metric.has_spread) {
    table.column("z", given_up(2));
  }
  std::size_t lines = 0;
  for (const ShownGroup& group : groups) {
    if (groups.size() > max_lines && !is_principal(group.block)) {
      continue;
    }
    ++lines;
    std::vector<std::string> cells = {layer_text(group.layer),
                                      std::string(model::block_name(group.block)),
                                      printable(group.role), count_text(group)};
    if (has_own_k(metric)) {
      cells.push_back(group.k ? std::to_string(*group.k) : kNone);
    }
    cells.push_back(shown_text(metric, group.median));
    if (is_drawn) {
      cells.push_back(error_text(group.estimates.median.error));
    }
    cells.push_back(quartiles_text(metric, group));
    if (metric.has_null) {
      cells.push_back(shown_text(metric, group.null));
      cells.push_back(difference_text(metric, group.difference));
      cells.push_back(ratio_text(group.ratio));
    }
    if (metric.has_sign_flip) {
      cells.push_back(shown_text(metric, group.sign_flip));
    }
    if (metric.has_spread) {
      cells.push_back(z_text(group.sign_flip_z));
    }
    table.row(std::move(cells));
  }
  std::string out = table.text(width);
  if (lines < groups.size()) {
    out += fmt::format("({} further groups: `vindex show {}`)\n", groups.size() - lines,
                       printable(shown.path));
  }
  if (is_drawn) {
    out += wrapped_text(
               "n: drawn at random and measured, of all in the model; +-: standard error "
               "of the median over all of them",
               width) +
           "\n";
  }
  return out + silence_text(shown, width);
}

std::string experts_text(const Shown& shown, std::size_t width) {
  const ShownMetric& metric = shown.metric;
  const std::vector<ExpertGroup> groups = expert_groups(shown.matrices);
  if (groups.empty()) {
    return "(no routed expert here has a value)\n";
  }
  Table table;
  table.column("layer", kNumber).column("role", kRole).column("expert", kNumber);
  if (has_own_k(metric)) {
    table.column("k", kNumber);
  }
  table.column(heading(metric, "value"), kNumber).column("median", dropped(1)).column("z", kNumber);
  if (metric.has_null) {
    table.column("noise", kNumber).column("ratio", kNumber);
  }
  if (metric.has_sign_flip) {
    table.column("flip", kNumber);
  }
  table.column("which", {});
  std::int64_t far = 0;
  std::int64_t all = 0;
  for (const ExpertGroup& group : groups) {
    all += group.count;
    for (std::size_t i = 0; i < group.experts.size(); ++i) {
      const RankedExpert& expert = group.experts[i];
      const MetricNumbers& numbers = expert.matrix->numbers;
      far += expert.is_far ? 1 : 0;
      const bool is_end = i == 0 || i + 1 == group.experts.size();
      std::string which = !is_end ? "" : (i == 0 ? "min" : "max");
      which += expert.is_far ? (is_end ? ", far" : "far") : "";
      std::vector<std::string> cells = {layer_text(group.layer), printable(group.role),
                                        std::to_string(expert.matrix->expert)};
      if (has_own_k(metric)) {
        cells.push_back(std::to_string(expert.matrix->k));
      }
      cells.insert(cells.end(), {shown_text(metric, numbers.value),
                                 shown_text(metric, group.median), z_text(expert.z)});
      if (metric.has_null) {
        cells.insert(cells.end(), {shown_text(metric, numbers.null), ratio_text(numbers.ratio())});
      }
      if (metric.has_sign_flip) {
        cells.push_back(shown_text(metric, numbers.sign_flip));
      }
      cells.push_back(which);
      table.row(std::move(cells));
    }
  }
  return table.text(width) +
         wrapped_text(fmt::format("far: {} of {} experts, by a robust z beyond {} "
                                  "(from the median and the MAD of their layer and role, {} "
                                  "experts at least)",
                                  far, all, kFarZ, kFewestExperts),
                      width) +
         "\n";
}

std::string top_text(const Shown& shown, std::size_t count, bool ascending, std::size_t width) {
  const ShownMetric& metric = shown.metric;
  const auto matrices = top_matrices(shown.matrices, count, ascending);
  const bool is_own_column = shown.sort_by == "value" || shown.sort_by == "null" ||
                             shown.sort_by == "difference" || shown.sort_by == "ratio" ||
                             shown.sort_by == "signflip";
  const bool has_k = has_own_k(metric);
  Table table;
  if (!is_own_column) {
    // The last line has a long name in full.
    constexpr std::size_t kLongest = 12;
    table.column(shown.sort_by.size() <= kLongest ? shown.sort_by : "by", kNumber);
  }
  if (has_k) {
    table.column("k", kNumber);
  }
  table.column(heading(metric, "value"), kNumber);
  if (metric.has_null) {
    table.column("noise", kNumber)
        .column("diff", shown.sort_by == "difference" ? kNumber : given_up(1))
        .column("ratio", kNumber);
  }
  if (metric.has_sign_flip) {
    table.column("flip", shown.sort_by == "signflip" ? kNumber : given_up(2));
  }
  table.column("shape", dropped(1));
  ShortNames names;
  for (const ShownMatrix* matrix : matrices) {
    names.names.push_back(name_text(*matrix));
  }
  if (width != std::numeric_limits<std::size_t>::max()) {
    names = short_names(names.names);
  }
  table.column("matrix", {});
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const ShownMatrix* matrix = matrices[i];
    const MetricNumbers& numbers = matrix->numbers;
    std::vector<std::string> cells;
    if (!is_own_column) {
      cells.push_back(digits_text(matrix->sort_by, true));
    }
    if (has_k) {
      cells.push_back(matrix->k > 0 ? std::to_string(matrix->k) : kNone);
    }
    cells.push_back(shown_text(metric, numbers.value));
    if (metric.has_null) {
      cells.insert(cells.end(),
                   {shown_text(metric, numbers.null), difference_text(metric, numbers.difference()),
                    ratio_text(numbers.ratio())});
    }
    if (metric.has_sign_flip) {
      cells.push_back(shown_text(metric, numbers.sign_flip));
    }
    cells.push_back(fmt::format("{}x{}", matrix->rows, matrix->cols));
    cells.push_back(names.names[i]);
    table.row(std::move(cells));
  }
  return table.text(width) + shared_text(names, width) +
         fmt::format("({} of {} matrices, by {}, {} first)\n", matrices.size(),
                     shown.matrices.size(), shown.sort_by, ascending ? "smallest" : "largest");
}

}  // namespace vindex::report
