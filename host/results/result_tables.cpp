// Owns the paths of tables and their groups.
#include "result_tables.hpp"

#include <algorithm>

namespace vindex::results {

using model::ResultTable;

std::string table_group(ResultTable table) { return "/" + std::string(model::table_name(table)); }

std::string bulk_prefix(ResultTable table) {
  return is_derived(table) ? table_group(table) : std::string();
}

std::string resume_group(ResultTable table) {
  return is_derived(table) ? "/resume" + table_group(table) : std::string("/resume");
}

std::span<const StoredRow* const> rows_of(std::span<const StoredRow* const> rows,
                                          ResultTable table) {
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [&](const StoredRow* row) { return row->table >= table; });
  const auto last =
      std::find_if(first, rows.end(), [&](const StoredRow* row) { return row->table > table; });
  return rows.subspan(static_cast<std::size_t>(first - rows.begin()),
                      static_cast<std::size_t>(last - first));
}

}  // namespace vindex::results
