// Owns the columns themselves, one maker for each kind of value.
#include "columns.hpp"

#include "result_tables.hpp"
#include "sample_columns.hpp"

#include <vindex/core/constants.hpp>
#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

namespace vindex::results {

namespace {

using measure::Metric;
using measure::MetricValues;

constexpr std::size_t kKs = measure::kVarAtK.size();

Column make_column(std::string name, h5::Type type, std::string long_name) {
  Column column;
  column.name = std::move(name);
  column.type = type;
  column.long_name = std::move(long_name);
  return column;
}

Column text_column(std::string name, std::string long_name, std::string StoredRow::*member) {
  Column column = make_column(std::move(name), h5::Type::kString, std::move(long_name));
  column.text = [member](const StoredRow& row) { return row.*member; };
  column.set_text = [member](StoredRow& row, const std::string& value) { row.*member = value; };
  return column;
}

template <typename T>
Column integer_column(std::string name, std::string long_name, T StoredRow::*member) {
  Column column = make_column(std::move(name), h5::type_of<T>(), std::move(long_name));
  column.number = [member](const StoredRow& row, std::size_t) {
    return static_cast<double>(row.*member);
  };
  column.set_number = [member](StoredRow& row, std::size_t, double value) {
    row.*member = static_cast<T>(value);
  };
  return column;
}

Column number_column(std::string name, std::string long_name) {
  Column column = make_column(std::move(name), h5::Type::kFloat64, std::move(long_name));
  column.units = std::string(1, '1');
  return column;
}

Column block_column() {
  Column column =
      make_column("block", h5::Type::kString, "part of the transformer that the matrix belongs to");
  column.text = [](const StoredRow& row) { return std::string(model::block_name(row.block)); };
  column.set_text = [](StoredRow& row, const std::string& value) {
    // One of a later minor version is `other` here.
    row.block = model::block_of_name(value).value_or(model::Block::kOther);
  };
  return column;
}

Column status_column() {
  Column column = make_column("status", h5::Type::kInt8, "outcome of the measurement");
  column.number = [](const StoredRow& row, std::size_t) { return static_cast<double>(row.status); };
  column.set_number = [](StoredRow& row, std::size_t, double value) {
    if (value < 0 || value > static_cast<double>(measure::Status::kSkipped)) {
      throw FormatError("E-RESULTS-SCHEMA", "/matrix/status",
                        fmt::format("{} is not a status", value));
    }
    row.status = static_cast<measure::Status>(value);
  };
  return column;
}

Column escalated_column() {
  Column column =
      make_column("escalated", h5::Type::kInt8, "1 where a stricter route replaced the first one");
  column.number = [](const StoredRow& row, std::size_t) { return row.escalated ? 1.0 : 0.0; };
  column.set_number = [](StoredRow& row, std::size_t, double value) {
    row.escalated = value != 0.0;
  };
  return column;
}

Column sigma_error_column() {
  Column column = number_column(
      "sigma_error", "error that the route answers for, of any singular value, in their units");
  column.number = [](const StoredRow& row, std::size_t) { return row.sigma_error; };
  column.set_number = [](StoredRow& row, std::size_t, double value) { row.sigma_error = value; };
  return column;
}

Column var_at_k_column(const char* name, const char* long_name, MetricValues StoredRow::*member) {
  Column column = number_column(name, long_name);
  column.width = kKs;
  column.number = [member](const StoredRow& row, std::size_t i) {
    return (row.*member).var_at_k[i];
  };
  column.set_number = [member](StoredRow& row, std::size_t i, double value) {
    (row.*member).var_at_k[i] = value;
  };
  return column;
}

Column metric_column(const measure::MetricRow& metric, MetricValues StoredRow::*member,
                     bool is_null) {
  Column column = number_column(
      fmt::format("{}{}", metric.name, is_null ? "_null" : ""),
      fmt::format("{}{}", metric.long_name, is_null ? ", of iid noise of that shape" : ""));
  if (metric.is_integer && !is_null) {
    column.type = h5::Type::kInt32;
    column.missing_is_minus_one = true;
  }
  const Metric which = metric.metric;
  column.number = [member, which](const StoredRow& row, std::size_t) {
    return (row.*member)[which];
  };
  column.set_number = [member, which](StoredRow& row, std::size_t, double value) {
    (row.*member)[which] = value;
  };
  return column;
}

using measure::SignFlipSpread;
using measure::SignFlipSummary;

/// `at(summary, i)`: the place of element i in a summary, const or not.
template <typename At>
Column sign_flip_column(std::string name, std::string long_name, std::size_t width, At at) {
  Column column = number_column(std::move(name), std::move(long_name));
  column.width = width;
  column.number = [at](const StoredRow& row, std::size_t i) {
    return row.sign_flip ? at(*row.sign_flip, i) : kNaN;
  };
  column.set_number = [at](StoredRow& row, std::size_t i, double value) {
    if (!row.sign_flip) {
      row.sign_flip.emplace();
    }
    at(*row.sign_flip, i) = value;
  };
  return column;
}

/// Mean, standard deviation, z and (`has_p`) its probability of what `at` finds.
template <typename At>
void add_spread_columns(const char* metric, std::size_t width, bool has_p, At at,
                        std::vector<Column>& columns) {
  struct Part {
    const char* suffix;
    const char* long_name;
    double SignFlipSpread::*member;
  };
  constexpr Part kParts[] = {
      {"mean", "mean of {} over the sign flips", &SignFlipSpread::mean},
      {"std", "standard deviation of {} over the sign flips", &SignFlipSpread::std},
      {"z", "{} less the mean of the sign flips, over their deviation sqrt(1 + 1/draws)",
       &SignFlipSpread::z},
      {"p", "two-sided probability of that z of {} by Student's distribution", &SignFlipSpread::p}};
  for (const Part& part : kParts) {
    if (part.member == &SignFlipSpread::p && !has_p) {
      continue;
    }
    columns.push_back(sign_flip_column(
        fmt::format("{}_signflip_{}", metric, part.suffix),
        fmt::format(fmt::runtime(part.long_name), metric), width,
        [ at, member = part.member ](auto& flips, std::size_t i) -> auto& {
          return at(flips, i).*member;
        }));
  }
}

void add_sign_flip_columns(const ColumnOptions& options, std::vector<Column>& columns) {
  if (options.sign_flip) {
    columns.push_back(sign_flip_column(
        "var_at_k_signflip",
        "share of the squared norm in the first k values after random sign flips", kKs,
        [](auto& flips, std::size_t i) -> auto& { return flips.var_at_k[i]; }));
  }
  if (options.sign_flip_spread) {
    add_spread_columns(
        "var_at_k", kKs, options.sign_flip_p,
        [](auto& flips, std::size_t i) -> auto& { return flips.var_at_k_spread[i]; }, columns);
    using Member = SignFlipSpread SignFlipSummary::*;
    for (const auto& [name, member] :
         {std::pair<const char*, Member>{"stable_rank", &SignFlipSummary::stable_rank},
          {"effective_rank", &SignFlipSummary::effective_rank},
          {"mp_outliers", &SignFlipSummary::mp_outliers}}) {
      add_spread_columns(
          name, 1, options.sign_flip_p,
          [which = member](auto& flips, std::size_t) -> auto& { return flips.*which; }, columns);
    }
  }
  if (options.sign_flip_distance) {
    columns.push_back(sign_flip_column(
        "rand_distance_signflip",
        "root of the Jensen-Shannon divergence between sigma^2 and those of a sign flip", 1,
        [](auto& flips, std::size_t) -> auto& { return flips.rand_distance; }));
  }
}

measure::SpectrumBounds& bounds_of(StoredRow& row) {
  if (!row.bounds) {
    row.bounds.emplace();
    row.bounds->var_at_k_lower.assign(kKs, kNaN);
    row.bounds->var_at_k_upper.assign(kKs, kNaN);
  }
  return *row.bounds;
}

Column bound_column(const char* name, const char* long_name,
                    std::vector<double> measure::SpectrumBounds::*member) {
  Column column = number_column(name, long_name);
  column.width = kKs;
  column.number = [member](const StoredRow& row, std::size_t i) {
    return row.bounds && i < ((*row.bounds).*member).size() ? ((*row.bounds).*member)[i] : kNaN;
  };
  column.set_number = [member](StoredRow& row, std::size_t i, double value) {
    (bounds_of(row).*member).at(i) = value;
  };
  return column;
}

Column bound_column(const char* name, const char* long_name,
                    double measure::SpectrumBounds::*member) {
  Column column = number_column(name, long_name);
  column.number = [member](const StoredRow& row, std::size_t) {
    return row.bounds ? (*row.bounds).*member : kNaN;
  };
  column.set_number = [member](StoredRow& row, std::size_t, double value) {
    bounds_of(row).*member = value;
  };
  return column;
}

measure::SampleAngles& sample_of(StoredRow& row) {
  return row.sample ? *row.sample : row.sample.emplace();
}

void add_sample_columns(std::vector<Column>& columns) {
  for (const SampleColumn& sample : sample_columns()) {
    Column column = number_column(sample.name, sample.long_name);
    column.number = [sample](const StoredRow& row, std::size_t) {
      return row.sample ? sample.value(*row.sample) : kNaN;
    };
    column.set_number = [sample](StoredRow& row, std::size_t, double value) {
      if (sample.set != nullptr && !std::isnan(value)) {
        sample.set(sample_of(row), value);
      }
    };
    if (sample.is_count) {
      column.type = h5::Type::kInt32;
      column.missing_is_minus_one = true;
    }
    columns.push_back(std::move(column));
  }
}

double moment(const StoredRow& row, std::size_t i) {
  const decode::Moments& m = row.moments;
  const double values[kMomentCount] = {static_cast<double>(m.count),
                                       static_cast<double>(m.zeros),
                                       static_cast<double>(m.nonfinite),
                                       m.mean,
                                       m.m2,
                                       m.m3,
                                       m.m4,
                                       m.sum_squares,
                                       m.min,
                                       m.max};
  return row.has_moments ? values[i] : kNaN;
}

void set_moment(StoredRow& row, std::size_t i, double value) {
  decode::Moments& m = row.moments;
  if (i < 3) {
    // NaN marks a row that was never decoded; a count beyond 2^53 was never written.
    if (!(value >= 0.0 && value <= 9007199254740992.0)) {
      row.has_moments = false;
      return;
    }
    row.has_moments = true;
    (i == 0 ? m.count : (i == 1 ? m.zeros : m.nonfinite)) = static_cast<std::int64_t>(value);
    return;
  }
  double* const members[] = {&m.mean, &m.m2, &m.m3, &m.m4, &m.sum_squares, &m.min, &m.max};
  *members[i - 3] = value;
}

}  // namespace

ColumnOptions column_options(const FileDescription& description, model::ResultTable table) {
  const bool product = table == model::ResultTable::kProduct;
  const bool flipped =
      !product && (description.sign_flip_draws > 0 || table == model::ResultTable::kImatrix);
  return {.fast = has_top_only(table, description.fast()),
          .sign_flip = flipped,
          .sign_flip_spread = !product && description.sign_flip_draws > 1,
          .sign_flip_distance = flipped,
          .derived = is_derived(table),
          .product = product,
          .theta = !product,
          .sampled = description.sampled && !is_derived(table)};
}

ColumnOptions column_options(const h5::File& file, model::ResultTable table) {
  const std::string group = table_group(table);
  return {.fast = has_top_only(table, file.text_attribute("/", "mode") == "fast"),
          .sign_flip = file.exists(group + "/var_at_k_signflip"),
          .sign_flip_spread = file.exists(group + "/var_at_k_signflip_mean"),
          .sign_flip_p = file.exists(group + "/var_at_k_signflip_p"),
          .sign_flip_distance = file.exists(group + "/rand_distance_signflip"),
          .derived = is_derived(table),
          .product = table == model::ResultTable::kProduct,
          .sigma_error = file.exists(group + "/sigma_error"),
          .theta = file.exists(group + "/theta"),
          .sampled = file.exists(group + "/theta_seed")};
}

std::vector<Column> matrix_columns(const ColumnOptions& options) {
  std::vector<Column> columns;
  columns.push_back(
      text_column("tensor", "logical name of the tensor in the model", &StoredRow::tensor));
  columns.push_back(
      integer_column("slice", "index within a stacked tensor, -1 if none", &StoredRow::slice));
  columns.push_back(
      integer_column("layer", "layer number in the tensor's name, -1 if none", &StoredRow::layer));
  columns.push_back(integer_column("expert", "expert number, -1 if none", &StoredRow::expert));
  columns.push_back(block_column());
  columns.push_back(text_column("role", "what the matrix does in its block", &StoredRow::role));
  columns.push_back(text_column("shard", "file the bytes came from", &StoredRow::shard));
  if (options.derived) {
    columns.push_back(integer_column("of_matrix", "row of /matrix/ that this one is derived from",
                                     &StoredRow::of_matrix));
  }
  columns.push_back(integer_column("rows", "outputs of the matrix", &StoredRow::rows));
  columns.push_back(integer_column("cols", "inputs of the matrix", &StoredRow::cols));
  if (options.product) {
    columns.push_back(integer_column(
        "rank", "singular values that may differ from zero: the smallest side of the factors",
        &StoredRow::rank));
  }
  columns.push_back(text_column("encoding", "how the weights are stored", &StoredRow::encoding));
  columns.push_back(status_column());
  columns.push_back(text_column("reason", "why a value is missing or the row was not measured",
                                &StoredRow::reason));
  columns.push_back(text_column("method", "route to the singular values", &StoredRow::method));
  columns.push_back(escalated_column());
  if (options.sigma_error) {
    columns.push_back(sigma_error_column());
  }
  columns.push_back(var_at_k_column(
      "var_at_k", "share of the squared norm in the first k singular values", &StoredRow::values));
  columns.push_back(var_at_k_column("var_at_k_null",
                                    "var_at_k of iid noise of that shape (Marchenko-Pastur)",
                                    &StoredRow::nulls));
  add_sign_flip_columns(options, columns);
  if (options.fast) {
    using measure::SpectrumBounds;
    columns.push_back(bound_column("var_at_k_lower", "certified lower bound of var_at_k",
                                   &SpectrumBounds::var_at_k_lower));
    columns.push_back(bound_column("var_at_k_upper", "certified upper bound of var_at_k",
                                   &SpectrumBounds::var_at_k_upper));
    columns.push_back(bound_column("stable_rank_lower", "certified lower bound of stable_rank",
                                   &SpectrumBounds::stable_rank_lower));
    columns.push_back(bound_column("stable_rank_upper", "certified upper bound of stable_rank",
                                   &SpectrumBounds::stable_rank_upper));
  }
  for (const measure::MetricRow& metric : measure::metric_rows()) {
    if (metric.needs_bulk && !options.theta) {
      continue;
    }
    columns.push_back(metric_column(metric, &StoredRow::values, false));
    if (metric.has_null) {
      columns.push_back(metric_column(metric, &StoredRow::nulls, true));
    }
  }
  if (options.sampled) {
    add_sample_columns(columns);
  }
  return columns;
}

std::vector<Column> resume_columns() {
  std::vector<Column> columns;
  columns.push_back(
      text_column("error_class", "exit code that a failed row leads to", &StoredRow::error_class));
  Column moments = number_column(
      "moments", "count zeros nonfinite mean m2 m3 m4 sum_squares min max of the decoded weights");
  moments.width = kMomentCount;
  moments.number = moment;
  moments.set_number = set_moment;
  columns.push_back(std::move(moments));
  return columns;
}

}  // namespace vindex::results
