// Owns the checks themselves, column by column and table by table.
#include "file_checker.hpp"

#include "table_rows.hpp"

#include "results/hdf5/text_digest.hpp"
#include "results/schema/table_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vindex::results {

namespace {

template <typename T>
void read_blocks(const h5::Dataset& dataset) {
  const h5::Shape& shape = dataset.shape();
  const std::uint64_t rows = dataset.side(0);
  std::uint64_t width = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    width *= shape[i];
  }
  const std::uint64_t step = rows_per_block(width * sizeof(T));
  std::vector<T> block;
  for (std::uint64_t first = 0; first < rows; first += step) {
    const std::uint64_t count = std::min(step, rows - first);
    block.resize(count * width);
    dataset.read<T>(first, count, block);
  }
}

}  // namespace

void FileChecker::read_through(const h5::Dataset& dataset, const std::string& path) {
  read_.insert(path);
  if (dataset.type() == h5::Type::kString) {
    file_.read_strings(path);
  } else {
    h5::visit_number(dataset.type(), [&](auto zero) { read_blocks<decltype(zero)>(dataset); });
  }
}

void FileChecker::column(const std::string& path, h5::Type type, const h5::Shape& shape,
                         const std::string& scale) {
  attempt([&] {
    const h5::Dataset dataset = file_.open_dataset(path);
    if (dataset.type() != type || dataset.shape() != shape) {
      require(false, fmt::format("{}: {} of another shape or type than {}", path,
                                 h5::type_name(dataset.type()), h5::type_name(type)));
      return;
    }
    require(file_.has_attribute(dataset, "long_name"), path + ": attribute long_name is missing");
    if (!scale.empty()) {
      require(file_.has_scale(dataset, 0, scale), path + ": no dimension scale " + scale);
    } else {
      require(file_.is_scale(dataset), path + " is not a dimension scale");
    }
    read_through(dataset, path);
  });
}

void FileChecker::row_columns(model::ResultTable table, const std::vector<Column>& wanted) {
  const std::string group = group_of(table);
  const std::string scale = group + "/" + reader_.schema().dimension;
  std::uint64_t total = 0;
  attempt([&] { total = static_cast<std::uint64_t>(row_count(file_, reader_.schema(), table)); });
  column(scale, h5::Type::kInt64, {total}, "");
  for (const Column& one : wanted) {
    const std::string path = group + "/" + one.name;
    h5::Shape shape = {total};
    if (!one.scale.empty()) {
      shape.push_back(one.width);
    }
    column(path, one.type, shape, scale);
    attempt([&] {
      const std::string second = group + "/" + one.scale;
      require(one.scale.empty() || file_.has_scale(file_.open_dataset(path), 1, second),
              path + ": no dimension scale " + second);
      require(one.units.empty() || file_.has_attribute(file_.open_dataset(path), "units"),
              path + ": attribute units is missing");
    });
  }
  require_attribute(group + "/status", "flag_values");
  attempt([&] {
    require(file_.has_attribute(group + "/status", "flag_meanings") &&
                file_.text_attribute(group + "/status", "flag_meanings") == kStatusMeanings,
            group + "/status: flag_meanings missing or different");
  });
}

void FileChecker::order(model::ResultTable table) {
  const std::string where = group_of(table) + ": ";
  std::set<std::string> keys;
  // Where blocks of a later minor version stand is not known here.
  block_words(group_of(table) + "/block");
  const std::vector<std::string> blocks = file_.read_strings(group_of(table) + "/block");
  const auto is_known = [&](std::size_t i) { return model::block_of_name(blocks[i]).has_value(); };
  for (std::size_t i = 1; i < rows_.size(); ++i) {
    if (is_known(i - 1) && is_known(i) && !row_before(rows_[i - 1], rows_[i])) {
      require(false, where + fmt::format("row {} is out of order", i));
      break;
    }
  }
  for (const StoredRow& row : rows_) {
    require(keys.insert(row_key(row)).second, where + row_key(row) + " appears twice");
    const bool measured = row.status == MatrixStatus::kMeasured;
    identity(where + row_key(row), row);
    require(!measured || !reader_.schema().has_spectra || !row.method.empty(),
            where + row_key(row) + " is measured but names no method");
    require(measured || !row.reason.empty(),
            where + row_key(row) + " is not measured and says no reason");
  }
}

void FileChecker::identity(const std::string& where, const StoredRow& row) {
  const bool measured = row.status == MatrixStatus::kMeasured;
  for (const auto& [name, value] : {std::pair<const char*, std::int64_t>{"layer", row.layer},
                                    {"expert", row.expert},
                                    {"slice", row.slice}}) {
    require(value >= -1, fmt::format("{}: {} {} is below -1, which is none", where, name, value));
  }
  constexpr std::int64_t kMostElements = std::int64_t{1} << 48U;
  const bool is_possible =
      row.rows <= kMostElements && row.cols <= kMostElements / std::max<std::int64_t>(row.rows, 1);
  require(row.rows >= (measured ? 1 : 0) && row.cols >= (measured ? 1 : 0) && is_possible,
          fmt::format("{}: {} x {} is not a shape", where, row.rows, row.cols));
  require(row.table != model::ResultTable::kProduct || (row.rank >= 0 && row.rank <= row.shorter()),
          fmt::format("{}: rank {} is none of that shape", where, row.rank));
  require(!row.tensor.empty(), where + " has no name");
  require(!row.role.empty(), where + " has no role");
}

void FileChecker::at_least(const std::string& path, std::int64_t least) {
  attempt([&] {
    const h5::Dataset dataset = file_.open_dataset(path);
    const auto check = [&](auto values) {
      using T = typename decltype(values)::value_type;
      dataset.read<T>(0, values.size(), values);
      const auto low = std::min_element(values.begin(), values.end());
      require(low == values.end() || *low >= static_cast<T>(least),
              low == values.end() ? path : fmt::format("{}: {} is below {}", path, *low, least));
    };
    const std::uint64_t rows = dataset.side(0);
    if (dataset.type() == h5::Type::kInt64) {
      check(std::vector<std::int64_t>(rows));
    } else {
      check(std::vector<std::int32_t>(rows));
    }
  });
}

void FileChecker::block_words(const std::string& path) {
  const std::string version = file_.text_attribute("/", "schema_version");
  if (minor_version(version) > minor_version(reader_.schema().version)) {
    return;  // a later one may have more
  }
  attempt([&] {
    for (const std::string& word : file_.read_strings(path)) {
      require(model::block_of_name(word).has_value(), path + ": '" + word + "' is not a block");
    }
  });
}

void FileChecker::resume() {
  for (const model::ResultTable table : kTables) {
    const std::string group = resume_group(table);
    for (const std::string& name :
         file_.exists(group) ? file_.list(group) : std::vector<std::string>()) {
      const std::string path = group + "/" + name;
      const bool is_group = std::any_of(kTables.begin(), kTables.end(), [&](auto other) {
        return is_derived(other) && resume_group(other) == path;
      });
      attempt([&] {
        if (!is_group) {
          read_through(file_.open_dataset(path), path);
        }
      });
    }
  }
}

void RowRules::require(bool condition, std::string_view column, std::string_view what) const {
  if (!condition) {
    checker.require(false, fmt::format("{}/{}: {} {}", checker.reader().schema().table, column,
                                       row_key(row), what));
  }
}

void check_rows(FileChecker& checker, void (*check)(const RowRules&)) {
  checker.attempt([&] {
    for (const StoredRow& row : checker.rows()) {
      if (row.status == MatrixStatus::kMeasured && !row.cells.empty()) {
        check({checker, row});
      }
    }
  });
}

StatusCounts FileChecker::counts_of_rows() const {
  std::vector<const StoredRow*> pointers;
  for (const StoredRow& row : rows_) {
    pointers.push_back(&row);
  }
  return count_statuses(pointers);
}

void FileChecker::counts(std::int64_t derived_skipped) {
  const StatusCounts counts = counts_of_rows();
  const auto same = [&](const char* name, std::int64_t value) {
    attempt([&] {
      const std::int64_t found = file_.integer_attribute("/", name);
      require(found == value, fmt::format("/: {} is {}, the rows say {}", name, found, value));
    });
  };
  same("matrices_total", counts.total);
  same("matrices_measured", counts.measured);
  same("matrices_failed", counts.failed);
  if (reader_.schema().has_spectra) {
    same("matrices_escalated", counts.escalated);
  }
  require((reader_.header().status == "complete") == (counts.skipped + derived_skipped == 0),
          "/: status does not agree with the rows");
}

void FileChecker::table(const SideTable& wanted) {
  const std::string scale = wanted.group + "/" + wanted.dimension;
  std::uint64_t rows = 0;
  attempt([&] { rows = file_.open_dataset(scale).side(0); });
  column(scale, h5::Type::kInt64, {rows}, "");
  for (const SideColumn& one : wanted.columns) {
    column(wanted.group + "/" + one.name, one.type(), {rows}, scale);
  }
}

void FileChecker::digests_below(const std::string& group) {
  for (const std::string& name : file_.list(group)) {
    const std::string path = (group == "/" ? "" : group) + "/" + name;
    attempt([&] {
      file_.check_attributes(path);
      if (file_.is_group(path)) {
        digests_below(path);
      } else if (!read_.contains(path) && file_.has_attribute(path, kTextDigest)) {
        const h5::Dataset dataset = file_.open_dataset(path);
        dataset.shape().empty() ? static_cast<void>(file_.read_text(path))
                                : read_through(dataset, path);
      }
    });
  }
}

void FileChecker::digests() { digests_below("/"); }

void FileChecker::run_texts() {
  for (const char* name : {"command", "settings", "inputs", "environment", "config"}) {
    attempt([&] { file_.read_text(std::string("/run/") + name); });
  }
  resume();
}

}  // namespace vindex::results
