// Owns the reader's answers, table by table and column by column.
#include "query.hpp"

#include "source_pool.hpp"
#include "table_rows.hpp"
#include "value_columns.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/secrets.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace vindex::results {

/// Its members are read by one thread at a time.
struct ResultsFile::Open {
  explicit Open(const std::string& path) : path_text(printable(path)) {
    pool.add(path);
    if (reader().header().part) {
      throw FormatError("E-RESULTS-PART", path_text, "a part of a run, not a results file");
    }
  }
  ResultsReader& reader() { return pool.reader(0); }
  const h5::File& file() { return reader().file(); }

  const std::vector<StoredRow>& rows_of(model::ResultTable table) {
    const auto [place, is_new] = rows.try_emplace(table);
    if (is_new) {
      place->second = reader().identities(0, table);
    }
    return place->second;
  }
  const StoredRow& row(std::int64_t number, model::ResultTable table) {
    const std::vector<StoredRow>& all = rows_of(table);
    if (number < 0 || static_cast<std::size_t>(number) >= all.size()) {
      throw UsageError("E-ROW", fmt::format("{}: /{}/ has no row {}; it has {}", path_text,
                                            model::table_name(table), number, all.size()));
    }
    return all[static_cast<std::size_t>(number)];
  }
  [[noreturn]] void no_column(const std::string& name, const char* of, model::ResultTable table) {
    const std::string guess = did_you_mean(name, file().list(table_group(table)));
    throw UsageError("E-COLUMN", fmt::format("{}: /{}/ has no column of {} '{}'{}{}", path_text,
                                             model::table_name(table), of, printable(name),
                                             guess.empty() ? "" : "; ", guess));
  }

  std::mutex mutex;
  std::string path_text;
  SourcePool pool;
  std::map<model::ResultTable, std::vector<StoredRow>> rows;
};

namespace {

bool is_selected(const StoredRow& row, const RowQuery& query) {
  return model::wants(query.selection, row.layer, row.block, row.role) &&
         (query.tensor.empty() || query.tensor == row.tensor) &&
         (!query.slice || *query.slice == row.slice) &&
         (query.selection.tensors == nullptr ||
          model::name_matches(*query.selection.tensors, row.tensor));
}

std::string text_or_nothing(const h5::File& file, const std::string& path, const char* name) {
  if (!file.has_attribute(path, name)) {
    return std::string();
  }
  file.check_attributes(path);
  return file.text_attribute(path, name);
}

/// What column the dataset is; nothing where it is none.
std::optional<ColumnInfo> column_of(const h5::File& file, const std::string& group,
                                    const std::string& name, std::size_t rows) {
  const std::string path = group + "/" + name;
  ColumnInfo column;
  column.name = name;
  column.width = column_width(file, group, name);
  try {
    const h5::Dataset dataset = file.open_dataset(path);
    if (dataset.type() == h5::Type::kString && dataset.shape() == h5::Shape{rows}) {
      column.type = ValueType::kText;
      column.width = 1;
    } else if (dataset.type() == h5::Type::kInt8 || dataset.type() == h5::Type::kInt32 ||
               dataset.type() == h5::Type::kInt64) {
      column.type = ValueType::kInteger;
    }
  } catch (const FormatError&) {
    return std::nullopt;  // a group, or a type that a later version may write
  }
  if (column.width == 0) {
    return std::nullopt;
  }
  column.long_name = text_or_nothing(file, path, "long_name");
  column.units = text_or_nothing(file, path, "units");
  return column;
}

}  // namespace

std::string element_name(const std::string& column, std::size_t width, std::size_t i) {
  const std::size_t at = column.find("_at_k");
  if (at == std::string::npos || width != kVarAtK.size()) {
    return fmt::format("{}_{}", column, i + 1);
  }
  return std::string(column).replace(at + 4, 1, std::to_string(kVarAtK[i]));
}

ResultsFile::ResultsFile(const std::string& path) : open_(std::make_unique<Open>(path)) {}
ResultsFile::ResultsFile(ResultsFile&&) noexcept = default;
ResultsFile& ResultsFile::operator=(ResultsFile&&) noexcept = default;
ResultsFile::~ResultsFile() = default;

const std::string& ResultsFile::schema_version() const {
  const std::lock_guard lock(open_->mutex);
  return open_->reader().header().schema_version;
}

bool ResultsFile::is_complete() const {
  const std::lock_guard lock(open_->mutex);
  return open_->reader().header().status == "complete";
}

std::string ResultsFile::attribute(const std::string& name) const {
  const std::lock_guard lock(open_->mutex);
  return without_secrets(open_->file().text_attribute("/", name));
}

std::string ResultsFile::run_text(const std::string& name) const {
  const std::lock_guard lock(open_->mutex);
  return without_secrets(open_->file().read_text("/run/" + name));
}

std::vector<TensorEntry> ResultsFile::tensors() const {
  const std::lock_guard lock(open_->mutex);
  return open_->reader().description().tensors;
}

std::vector<model::ResultTable> ResultsFile::tables() const {
  const std::lock_guard lock(open_->mutex);
  std::vector<model::ResultTable> tables;
  std::copy_if(kTables.begin(), kTables.end(), std::back_inserter(tables),
               [&](model::ResultTable table) { return has_table(open_->file(), table); });
  return tables;
}

std::vector<ColumnInfo> ResultsFile::columns(model::ResultTable table) const {
  const std::lock_guard lock(open_->mutex);
  const std::size_t rows = open_->rows_of(table).size();
  std::vector<ColumnInfo> columns;
  const std::string group = table_group(table);
  for (const std::string& name : open_->file().list(group)) {
    if (auto column = column_of(open_->file(), group, name, rows)) {
      columns.push_back(std::move(*column));
    }
  }
  return columns;
}

std::vector<QueriedRow> ResultsFile::rows(model::ResultTable table, const RowQuery& query) const {
  const std::lock_guard lock(open_->mutex);
  std::vector<QueriedRow> found;
  std::int64_t number = 0;
  for (const StoredRow& row : open_->rows_of(table)) {
    if (is_selected(row, query)) {
      QueriedRow& one = found.emplace_back();
      static_cast<RowIdentity&>(one) = row;
      one.number = number;
      one.status = row.status;
      one.reason = row.reason;
      one.sigma_count = row.sigma_count;
      one.vector_count = row.vector_count;
    }
    ++number;
  }
  return found;
}

std::vector<double> ResultsFile::numbers(const std::string& name,
                                         std::span<const std::int64_t> numbers,
                                         model::ResultTable table) const {
  const std::lock_guard lock(open_->mutex);
  std::vector<const StoredRow*> rows;
  for (const std::int64_t number : numbers) {
    rows.push_back(&open_->row(number, table));
  }
  if (rows.empty()) {
    return {};
  }
  ValueColumns columns(open_->pool, table, std::move(rows));
  if (columns.width(name) == 0) {
    open_->no_column(name, "numbers", table);
  }
  return columns.read(name);
}

std::vector<std::string> ResultsFile::texts(const std::string& name,
                                            std::span<const std::int64_t> numbers,
                                            model::ResultTable table) const {
  const std::lock_guard lock(open_->mutex);
  const std::string group = table_group(table);
  const std::vector<std::string> names = open_->file().list(group);
  const std::size_t rows = open_->rows_of(table).size();
  // A name that is none of the group's own could be a path to elsewhere.
  const auto column = std::find(names.begin(), names.end(), name) == names.end()
                          ? std::nullopt
                          : column_of(open_->file(), group, name, rows);
  if (!column || column->type != ValueType::kText) {
    open_->no_column(name, "texts", table);
  }
  const std::vector<std::string> all = open_->file().read_strings(group + "/" + name);
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers) {
    (void)open_->row(number, table);
    texts.push_back(all.at(static_cast<std::size_t>(number)));
  }
  return texts;
}

std::vector<double> ResultsFile::sigma(std::int64_t number, model::ResultTable table) const {
  const std::lock_guard lock(open_->mutex);
  const StoredRow& row = open_->row(number, table);
  std::vector<double> sigma(static_cast<std::size_t>(row.sigma_count));
  if (!sigma.empty()) {
    open_->reader().spectra().read_sigma(row.bulk.row, sigma);
  }
  return sigma;
}

std::optional<SingularVectors> ResultsFile::vectors(std::int64_t number,
                                                    model::ResultTable table) const {
  const std::lock_guard lock(open_->mutex);
  const StoredRow& row = open_->row(number, table);
  return row.vector_count == 0
             ? std::nullopt
             : std::optional(open_->reader().spectra().read_vectors(row.bulk.row));
}

}  // namespace vindex::results
