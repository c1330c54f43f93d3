// Owns what a page holds of a file of `vindex measure`: its rows with every metric, the nulls once
// for each shape, and what the file has beside them that the page leaves out.
#include "page_sections.hpp"
#include "page_spectra.hpp"
#include "page_values.hpp"

#include "model/index/records.hpp"
#include "report/spectra/metric_groups.hpp"
#include "results/reading/query.hpp"
#include "results/reading/table_rows.hpp"
#include "results/schema/table_columns.hpp"
#include "statistics/null/finite_sample.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace vindex::report {

namespace {

using PageRows = std::vector<results::StoredRow>;

/// One number of every row: a column, or one of the nine of var_at_k.
struct Series {
  std::string name;
  const results::Column* column = nullptr;
  std::size_t element = 0;
};

std::vector<double> values_of(const Series& series, const PageRows& rows) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const results::StoredRow& row : rows) {
    values.push_back(series.column->number(row, series.element));
  }
  return values;
}

std::vector<Series> series_of(const std::vector<results::Column>& columns) {
  std::vector<Series> all;
  for (const results::Column& column : columns) {
    for (std::size_t i = 0; column.is_cell() && i < column.width; ++i) {
      all.push_back(
          {column.width > 1 ? results::element_name(column.name, column.width, i) : column.name,
           &column, i});
    }
  }
  return all;
}

/// The value of every shape where all rows of a shape that have one have the same; else nothing.
std::optional<std::vector<double>> by_shape(const std::vector<double>& values,
                                            const std::vector<double>& shapes, std::size_t count) {
  std::vector<double> of_shape(count, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < values.size(); ++i) {
    double& known = of_shape[static_cast<std::size_t>(shapes[i])];
    if (std::isnan(values[i])) {
      continue;
    }
    if (!std::isnan(known) && known != values[i]) {
      return std::nullopt;
    }
    known = values[i];
  }
  return of_shape;
}

template <typename Member>
Json integers_of(const PageRows& rows, const Member& member) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const results::StoredRow& row : rows) {
    values.push_back(static_cast<double>(member(row)));
  }
  return packed_integers(values);
}

template <typename Member>
Json texts_of(const PageRows& rows, const Member& member) {
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const results::StoredRow& row : rows) {
    texts.emplace_back(member(row));
  }
  return packed_texts(texts);
}

/// 1 for rows that statistics of their (layer, block, role) are of: all but drawn ones behind the
/// first that was not tried.
std::vector<double> held_rows(const PageRows& rows) {
  std::map<std::tuple<std::int32_t, model::Block, std::string>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    groups[{rows[i].layer, rows[i].block, rows[i].role}].push_back(i);
  }
  std::vector<double> held(rows.size(), 1.0);
  for (const auto& [key, members] : groups) {
    std::vector<statistics::DrawnMember> drawn;
    for (const std::size_t i : members) {
      drawn.push_back({.draw = rows[i].draw,
                       .draw_of = rows[i].draw_of,
                       .is_tried = rows[i].status != MatrixStatus::kSkipped});
    }
    const statistics::DrawnGroup group = statistics::drawn_group(drawn);
    for (const std::size_t i : members) {
      held[i] = !group.is_drawn() || group.holds(rows[i].draw) ? 1.0 : 0.0;
    }
  }
  return held;
}

Json counts_of(const PageRows& rows) {
  Json counts = Json::object();
  for (std::size_t status = 0; status < std::size(results::kStatusNames); ++status) {
    counts[results::kStatusNames[status]] =
        std::count_if(rows.begin(), rows.end(), [&](const results::StoredRow& row) {
          return static_cast<std::size_t>(row.status) == status;
        });
  }
  counts["total"] = rows.size();
  counts["escalated"] =
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.escalated; });
  return counts;
}

/// Who each row is and how it ended.
Json identities_of(const PageRows& rows, const std::vector<double>& shapes) {
  std::vector<NamedRow> names;
  names.reserve(rows.size());
  for (const results::StoredRow& row : rows) {
    names.push_back({row.tensor, row.layer, row.expert});
  }
  return {
      {"tensor", packed_names(names)},
      {"layer", integers_of(rows, [](const auto& row) { return row.layer; })},
      {"expert", integers_of(rows, [](const auto& row) { return row.expert; })},
      {"slice", integers_of(rows, [](const auto& row) { return row.slice; })},
      {"block", texts_of(rows, [](const auto& row) { return model::block_name(row.block); })},
      {"role", texts_of(rows, [](const auto& row) { return printable(row.role); })},
      {"shape", packed_integers(shapes)},
      {"encoding", texts_of(rows, [](const auto& row) { return printable(row.encoding); })},
      {"status", texts_of(rows,
                          [](const auto& row) {
                            return results::kStatusNames[static_cast<std::size_t>(row.status)];
                          })},
      {"reason", texts_of(rows, [](const auto& row) { return printable(row.reason); })},
      {"method", texts_of(rows, [](const auto& row) { return printable(row.method); })},
      {"escalated", integers_of(rows, [](const auto& row) { return row.escalated ? 1 : 0; })},
      {"held", packed_integers(held_rows(rows))},
  };
}

/// Rows of derived tables, which the page does not show.
Json left_out(const results::ResultsReader& reader) {
  Json out = Json::array();
  for (const model::ResultTable table : results::kTables) {
    if (results::is_derived(table) && results::has_table(reader.file(), table)) {
      out.push_back({{"table", model::table_name(table)},
                     {"rows", results::row_count(reader.file(), reader.schema(), table)}});
    }
  }
  return out;
}

}  // namespace

void add_measure(PageFile& file, PageData& out) {
  results::ResultsReader& reader = file.reader;
  const PageRows rows = reader.rows(0);
  const std::vector<results::Column> columns =
      results::table_columns(reader.schema(), reader.file(), model::ResultTable::kMatrix);

  std::vector<Shape> shapes;
  std::vector<double> shape_of;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> places;
  for (const results::StoredRow& row : rows) {
    const auto [place, is_new] = places.try_emplace({row.rows, row.cols}, shapes.size());
    if (is_new) {
      shapes.push_back({row.rows, row.cols});
    }
    shape_of.push_back(static_cast<double>(place->second));
  }

  Json nulls = Json::object();
  Json metrics = Json::array();
  const std::vector<Series> all = series_of(columns);
  const int bits = file.bits(std::count_if(all.begin(), all.end(), [](const Series& series) {
    return series.column->type == results::h5::Type::kFloat64 && !series.name.ends_with("_null");
  }));
  for (const Series& series : all) {
    const std::vector<double> values = values_of(series, rows);
    if (series.name.ends_with("_null")) {
      if (const auto each = by_shape(values, shape_of, shapes.size())) {
        nulls[series.name.substr(0, series.name.size() - 5)] = packed_reals(*each, 24);
        continue;
      }
    }
    const bool is_whole = series.column->type != results::h5::Type::kFloat64;
    metrics.push_back({
        {"name", series.name},
        {"meaning", series.column->long_name},
        {"whole", is_whole},
        {"values", is_whole ? packed_integers(values) : packed_reals(values, bits)},
    });
  }

  out.main["counts"] = counts_of(rows);
  out.main["sampled_of"] = [&] {
    std::vector<const results::StoredRow*> pointers;
    for (const results::StoredRow& row : rows) {
      pointers.push_back(&row);
    }
    return results::drawn_from(pointers);
  }();
  out.main["bits"] = bits;
  out.main["rows"] = identities_of(rows, shape_of);
  out.main["shapes"] = Json::list(shapes, [](const Shape& shape) {
    return Json::array({Json(shape.rows), Json(shape.cols)});
  });
  out.main["nulls"] = std::move(nulls);
  out.main["metrics"] = std::move(metrics);
  out.main["left_out"] = left_out(reader);
  out.main["far_z"] = kFarZ;
  out.main["fewest_experts"] = kFewestExperts;
  out.blocks.emplace_back("spectra", page_spectra(file, shapes, rows));
}

}  // namespace vindex::report
