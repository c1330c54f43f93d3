// Owns resolving a name to a metric or column, with advice where it is unknown.
#include "viewed_metric.hpp"

#include "core/constants.hpp"
#include "core/text/nearest_name.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/var_at_k.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

namespace vindex::report {

namespace {

/// Numbers that say which matrix it is, or how it went.
constexpr std::array<std::string_view, 13> kIdentity = {
    "matrix", "k",         "slice",     "layer",      "expert", "rows",   "cols",
    "status", "escalated", "of_matrix", "seed_count", "draw",   "draw_of"};

/// Between 0 and 1 by definition.
constexpr std::array<std::string_view, 6> kShares = {
    "var_at_k", "var_at_64_top128", "spectral_entropy", "gini", "mp_ks", "pl_ks"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Columns that stand beside a metric.
bool is_companion(std::string_view name) {
  return name.ends_with("_null") || name.ends_with("_lower") || name.ends_with("_upper") ||
         name.find("_signflip") != std::string_view::npos;
}

/// What `text` could have meant, and everything there is.
std::string advice(const std::string& text, const std::vector<std::string>& names) {
  const std::string guess = did_you_mean(text, names);
  return fmt::format("{}{}there are {}", guess, guess.empty() ? "" : " ",
                     printable(fmt::format("{}", fmt::join(names, " "))));
}

/// The metrics in the order of the table, then others that the file has.
std::vector<std::string> metric_names(results::ValueColumns& columns) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (columns.width(name) > 0 && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  };
  add("var_at_k");
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    add(std::string(row.name));
  }
  for (const std::string& name : columns.names()) {
    if (!is_one_of(kIdentity, name) && !is_companion(name)) {
      add(name);
    }
  }
  return names;
}

void check_k(std::int32_t k) {
  if (!place_of_k(k)) {
    throw UsageError(
        "E-K", fmt::format("k = {}: var_at_k is stored for k = {}", k, fmt::join(kVarAtK, " ")));
  }
}

/// Column `name` as one number per matrix; of [matrix, k] the one at `k`, or at the matrix's own.
std::vector<double> column_numbers(std::span<const MatrixView> matrices, const std::string& name,
                                   std::optional<std::int32_t> k, results::ValueColumns& columns) {
  std::vector<double> out(matrices.size(), kNaN);
  const std::size_t width = columns.width(name);
  const std::vector<double> all = columns.read(name);
  for (std::size_t i = 0; i < out.size() && width > 0; ++i) {
    const std::optional<std::size_t> place =
        width == 1 ? std::optional<std::size_t>(0) : place_of_k(k.value_or(matrices[i].k));
    if (place && matrices[i].measured) {
      out[i] = all[i * width + *place];
    }
  }
  return out;
}

}  // namespace

std::string ViewedMetric::label() const {
  if (!name.starts_with("var_at_k")) {
    return name;
  }
  const std::string rest = name.substr(std::string_view("var_at_k").size());
  return k ? fmt::format("var@{}{}", *k, rest) : "var@k" + rest;
}

std::optional<std::size_t> place_of_k(std::int32_t k) {
  const auto* place = std::find(kVarAtK.begin(), kVarAtK.end(), k);
  return place == kVarAtK.end() ? std::nullopt
                                : std::optional<std::size_t>(place - kVarAtK.begin());
}

ColumnName column_name(const std::string& text, const std::set<std::string>& names) {
  constexpr std::string_view kShort = "var@";
  constexpr std::string_view kLong = "var_at_";
  std::string name = text;
  if (name.starts_with(kShort)) {
    name.replace(0, kShort.size(), kLong);
  }
  if (names.contains(name) || !name.starts_with(kLong)) {
    return {name, std::nullopt};
  }
  const char* first = name.data() + kLong.size();
  const char* last = name.data() + name.size();
  std::int32_t k = 0;
  const auto [end, error] = std::from_chars(first, last, k);
  if (error != std::errc() || (end != last && *end != '_')) {
    return {name, std::nullopt};
  }
  return {fmt::format("{}k{}", kLong, std::string_view(end, static_cast<std::size_t>(last - end))),
          k};
}

ViewedMetric find_metric(const std::string& name, std::optional<std::int32_t> k,
                         results::ValueColumns& columns) {
  const std::string text = name.empty() ? "var_at_k" : name;
  const ColumnName column = column_name(text, columns.names());
  if (columns.width(column.dataset) == 0 || is_one_of(kIdentity, column.dataset)) {
    throw UsageError("E-METRIC", fmt::format("'{}' is not a metric of this file; {}",
                                             printable(text), advice(text, metric_names(columns))));
  }
  ViewedMetric metric;
  metric.name = column.dataset;
  metric.k = column.k ? column.k : k;
  if (column.k && k && column.k != k) {
    throw UsageError("E-K",
                     fmt::format("{} and --k {} contradict each other", printable(text), *k));
  }
  const bool has_k = columns.width(column.dataset) > 1;
  if (metric.k && !has_k) {
    throw UsageError("E-K", fmt::format("{} has no k; only var_at_k does", metric.name));
  }
  if (metric.k) {
    check_k(*metric.k);
  } else if (has_k && !metric.is_by_k()) {
    throw UsageError("E-K", fmt::format("{} needs --k", metric.name));
  }
  const auto has = [&](const char* suffix) { return columns.width(metric.name + suffix) > 0; };
  metric.has_null = has("_null");
  metric.has_sign_flip = has("_signflip") || has("_signflip_mean");
  metric.has_spread = has("_signflip_z");
  metric.is_share = is_one_of(kShares, metric.name);
  metric.is_count = std::any_of(
      statistics::metric_rows().begin(), statistics::metric_rows().end(),
      [&](const statistics::MetricRow& row) { return row.name == metric.name && row.is_integer; });
  return metric;
}

void fill_numbers(std::span<MatrixView> matrices, const ViewedMetric& metric,
                  results::ValueColumns& columns) {
  const auto fill = [&](const std::string& name, double MetricNumbers::*member) {
    const std::vector<double> values = column_numbers(matrices, name, std::nullopt, columns);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const MatrixView& matrix = matrices[i];
      // Every matrix has var_at_k = 1 where k >= p: neither it nor its null says anything.
      if (!metric.is_by_k() || matrix.k < matrix.shorter()) {
        matrices[i].numbers.*member = values[i];
      }
    }
  };
  const std::string flip = metric.name + "_signflip";
  const bool has_mean = columns.width(flip + "_mean") > 0;
  fill(metric.name, &MetricNumbers::value);
  fill(metric.name + "_null", &MetricNumbers::null);
  fill(has_mean ? flip + "_mean" : flip, &MetricNumbers::sign_flip);
  fill(flip + "_std", &MetricNumbers::sign_flip_std);
  fill(flip + "_z", &MetricNumbers::sign_flip_z);
  fill(flip + "_p", &MetricNumbers::sign_flip_p);
}

std::string fill_sort_column(std::span<MatrixView> matrices, const ViewedMetric& metric,
                             const std::string& text, results::ValueColumns& columns) {
  using Number = double (*)(const MetricNumbers&);
  struct Word {
    std::string_view name;
    bool is_there;
    Number number;
  };
  const std::array<Word, 6> words = {{
      {"value", true, [](const MetricNumbers& n) { return n.value; }},
      {"null", metric.has_null, [](const MetricNumbers& n) { return n.null; }},
      {"difference", metric.has_null, [](const MetricNumbers& n) { return n.difference(); }},
      {"ratio", metric.has_null, [](const MetricNumbers& n) { return n.ratio(); }},
      {"signflip", metric.has_sign_flip, [](const MetricNumbers& n) { return n.sign_flip; }},
      {"z", metric.has_spread, [](const MetricNumbers& n) { return n.sign_flip_z; }},
  }};
  const std::string wanted = !text.empty() ? text : (metric.has_null ? "ratio" : "value");
  for (const auto& [word, is_there, number] : words) {
    if (wanted == word && !is_there) {
      throw UsageError("E-COLUMN", fmt::format("{} has no {} in this file", metric.name, word));
    }
    if (wanted == word) {
      for (MatrixView& matrix : matrices) {
        matrix.sort_by = number(matrix.numbers);
      }
      return wanted;
    }
  }
  const auto fill = [&](const ColumnName& column, auto&& put) {
    if (column.k) {
      check_k(*column.k);
    }
    const std::vector<double> values = column_numbers(matrices, column.dataset, column.k, columns);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      put(matrices[i].sort_by, values[i]);
    }
  };
  const auto is_there = [&](const ColumnName& column) {
    const std::size_t width = columns.width(column.dataset);
    return width == 1 || (width > 1 && (column.k || metric.is_by_k()));
  };
  const ColumnName column = column_name(wanted, columns.names());
  if (is_there(column)) {
    fill(column, [](double& to, double value) { to = value; });
    return wanted;
  }
  for (const std::string_view suffix : {"_ratio", "_difference"}) {
    if (!wanted.ends_with(suffix)) {
      continue;
    }
    const ColumnName base =
        column_name(wanted.substr(0, wanted.size() - suffix.size()), columns.names());
    const ColumnName null = {base.dataset + "_null", base.k};
    if (is_there(base) && is_there(null)) {
      fill(base, [](double& to, double value) { to = value; });
      fill(null,
           [&](double& to, double value) { to = suffix == "_ratio" ? to / value : to - value; });
      return wanted;
    }
  }
  std::vector<std::string> names;
  for (const Word& word : words) {
    if (word.is_there) {
      names.emplace_back(word.name);
    }
  }
  for (std::string& name : metric_names(columns)) {
    names.push_back(std::move(name));
  }
  throw UsageError("E-COLUMN",
                   fmt::format("'{}' is not a column of this file; {}, with _null, _ratio "
                               "or _difference where they have a null",
                               printable(wanted), advice(wanted, names)));
}

}  // namespace vindex::report
