// Owns the check of a file of spectra against the results contract.
#include "derived_tables.hpp"

#include "results/reading/file_checker.hpp"
#include "results/reading/table_rows.hpp"
#include "results/schema/table_columns.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::commands {

namespace {

using model::ResultTable;

class SpectraChecker final : results::FileChecker {
 public:
  explicit SpectraChecker(results::ResultsReader& reader) : results::FileChecker(reader) {}

  std::vector<std::string> run() {
    for (const char* name : {"Conventions", "title", "history", "model", "mode", "backend"}) {
      require_attribute("/", name);
    }
    if (file_.has_attribute("/", "mode")) {
      const std::string mode = file_.text_attribute("/", "mode");
      fast_ = mode == "fast";
      require(fast_ || mode == "default" || mode == "strict", "/: mode '" + mode + "' is unknown");
    }
    for (const model::ResultTable table : results::kTables) {
      if (results::has_table(file_, table)) {
        columns(table);
      }
    }
    if (!wrong_.empty()) {
      return wrong_;  // rows cannot be interpreted
    }
    std::vector<results::StoredRow> matrices = reader_.rows(0);
    std::int64_t derived_skipped = 0;
    for (const model::ResultTable table : results::kTables) {
      if (results::is_derived(table) && results::has_table(file_, table)) {
        rows_ = reader_.rows(0, table);
        order(table);
        bulk(table);
        parents(table, matrices);
        derived_skipped += counts_of_rows().skipped;
      }
    }
    rows_ = std::move(matrices);
    order(model::ResultTable::kMatrix);
    counts(derived_skipped);
    bulk(model::ResultTable::kMatrix);
    // Before there were coordinates, the dimension had the name of one.
    results::SideTable tensors = commands::tensor_table({}, tensor_samples(), {});
    if (file_.exists("/tensor/tensor")) {
      tensors.dimension = "tensor";
    }
    table(of_its_version(std::move(tensors)));
    for (const char* path : {"/tensor/layer", "/layer/layer"}) {
      at_least(path, -1);
    }
    for (const char* path : {"/tensor/count", "/layer/count"}) {
      at_least(path, 0);
    }
    block_words("/tensor/block");
    block_words("/layer/block");
    layer();
    run_texts();
    digests();
    return wrong_;
  }

 private:
  /// Without the columns that schema 1.5 added, where the file is older.
  results::SideTable of_its_version(results::SideTable wanted) {
    attempt([&] {
      if (results::minor_version(file_.text_attribute("/", "schema_version")) >= 5) {
        return;
      }
      std::erase_if(wanted.columns, [](const results::SideColumn& column) {
        return column.name == "interval_reason" || column.name.starts_with("csci_permuted");
      });
    });
    return wanted;
  }

  TensorSamples tensor_samples() {
    if (!file_.has_attribute("/resume", "sampled")) {
      return TensorSamples::kNone;
    }
    TensorSamples samples = TensorSamples::kAngles;
    attempt([&] {
      if (results::minor_version(file_.text_attribute("/", "schema_version")) >= 4) {
        samples = TensorSamples::kScales;
      }
    });
    return samples;
  }

  /// The columns that files of that version have, by what the run was asked for.
  void columns(model::ResultTable table) {
    const std::string second = group_of(table) + "/k";
    column(second, results::h5::Type::kInt32, {kVarAtK.size()}, "");
    attempt([&] {
      std::vector<std::int32_t> k(kVarAtK.size());
      const results::h5::Dataset dataset = file_.open_dataset(second);
      require(dataset.shape() == results::h5::Shape{k.size()}, second + ": wrong shape");
      if (dataset.shape() == results::h5::Shape{k.size()}) {
        dataset.read<std::int32_t>(0, k.size(), k);
        require(std::equal(k.begin(), k.end(), kVarAtK.begin()), second + ": wrong values");
      }
    });
    results::TableLayout layout;
    attempt([&] { layout = results::table_layout(reader_.schema(), file_, table); });
    const auto add = [&](const char* group, bool is_asked_for) {
      if (is_asked_for && !layout.has(group)) {
        layout.groups.emplace_back(group);
      }
    };
    const bool is_product = table == ResultTable::kProduct;
    add("sampled", !results::is_derived(table) && file_.has_attribute("/resume", "sampled"));
    add("signflip", table == ResultTable::kImatrix);  // its null
    attempt(
        [&] { add("spread", !is_product && file_.integer_attribute("/resume", "sign_flip") > 1); });
    attempt([&] {
      const std::int64_t minor =
          results::minor_version(file_.text_attribute("/", "schema_version"));
      add("sigma_error", minor >= 1);
      add("theta", minor >= 2 && !is_product);
      add("scales",
          minor >= 4 && !results::is_derived(table) && file_.has_attribute("/resume", "sampled"));
      add("permuted",
          minor >= 5 && !results::is_derived(table) && file_.has_attribute("/resume", "sampled"));
      add("spread_p", minor >= 3 && layout.has("spread"));
    });
    row_columns(table, results::table_columns(reader_.schema(), layout));
  }

  /// What derived rows say of the rows of /matrix/ that they come from.
  void parents(model::ResultTable table, const std::vector<results::StoredRow>& matrices) {
    for (const results::StoredRow& row : rows_) {
      const bool exists =
          row.of_matrix >= 0 && row.of_matrix < static_cast<std::int64_t>(matrices.size());
      require(exists || (row.of_matrix == -1 && table != model::ResultTable::kImatrix),
              fmt::format("{}: {} is derived from row {} of /matrix/", results::table_group(table),
                          results::row_key(row), row.of_matrix));
      if (exists && table == model::ResultTable::kImatrix) {
        const results::StoredRow& of = matrices[static_cast<std::size_t>(row.of_matrix)];
        require(results::row_key(of) == results::row_key(row) && of.rows == row.rows &&
                    of.cols == row.cols,
                results::table_group(table) + ": " + results::row_key(row) + " is not " +
                    results::row_key(of));
      }
    }
  }

  void bulk(model::ResultTable table) {
    const std::string prefix = results::bulk_prefix(table);
    for (const std::string& name : file_.list(prefix + "/spectra")) {
      attempt([&] { spectra(prefix + "/spectra/", name); });
    }
    for (const std::string& name : file_.list(prefix + "/vectors")) {
      attempt([&] { vectors(prefix + "/vectors/" + name); });
    }
  }

  /// Files of earlier versions had `matrix` everywhere.
  void along_members(const results::h5::Dataset& dataset, const std::string& group,
                     const char* name) {
    require(file_.has_scale(dataset, 0, group + "/matrix") ||
                file_.has_scale(dataset, 0, group + "/member"),
            group + name + ": no dimension scale matrix");
  }

  std::vector<std::int64_t> members(const std::string& group) {
    const results::h5::Dataset dataset = file_.open_dataset(group + "/matrix");
    std::vector<std::int64_t> values(dataset.side(0));
    dataset.read<std::int64_t>(0, values.size(), values);
    require(std::is_sorted(values.begin(), values.end()), group + "/matrix is not ascending");
    return values;
  }

  void spectra(const std::string& parent, const std::string& name) {
    const std::string group = parent + name;
    const std::vector<std::int64_t> rows = members(group);
    const results::h5::Dataset sigma = file_.open_dataset(group + "/sigma");
    const std::uint64_t width = sigma.side(1);
    along_members(sigma, group, "/sigma");
    note_read(group + "/sigma");
    const std::uint64_t step = results::rows_per_block(width * sizeof(double));
    std::vector<double> block;
    for (std::uint64_t first = 0; first < rows.size(); first += step) {
      const std::uint64_t count = std::min<std::uint64_t>(step, rows.size() - first);
      block.resize(count * width);
      sigma.read<double>(first, count, block);
      for (std::uint64_t i = 0; i < count; ++i) {
        const results::StoredRow& row = rows_[static_cast<std::size_t>(rows[first + i])];
        const auto values = std::span(block).subspan(i * width, width);
        const bool top = results::has_top_only(row.table, fast_);
        require(name == results::spectrum_group(row, top) &&
                    width == static_cast<std::uint64_t>(
                                 top ? std::min<std::int64_t>(64, row.shorter()) : row.shorter()),
                group + ": " + results::row_key(row) + " does not belong here");
        require(std::is_sorted(values.begin(), values.end(), std::greater<>()) && !values.empty() &&
                    !std::isnan(values.front()),
                group + ": the spectrum of " + results::row_key(row) + " does not descend");
      }
    }
  }

  void vectors(const std::string& group) {
    const std::vector<std::int64_t> rows = members(group);
    for (const char* name : {"/right", "/left", "/sigma", "/residual", "/gap"}) {
      const results::h5::Dataset dataset = file_.open_dataset(group + name);
      require(dataset.side(0) == rows.size(), group + name + ": wrong shape");
      along_members(dataset, group, name);
      read_through(dataset, group + name);
    }
    const results::h5::Shape right = file_.open_dataset(group + "/right").shape();
    const results::h5::Shape left = file_.open_dataset(group + "/left").shape();
    for (const std::int64_t number : rows) {
      const results::StoredRow& row = rows_[static_cast<std::size_t>(number)];
      require(right.size() == 3 && left.size() == 3 &&
                  right[2] == static_cast<std::uint64_t>(row.cols) &&
                  left[2] == static_cast<std::uint64_t>(row.rows),
              group + ": " + results::row_key(row) + " does not belong here");
    }
  }

  void layer() {
    const bool drawn = file_.exists("/matrix/draw");
    table(of_its_version(commands::layer_table({}, drawn)));
    if (file_.exists("/null")) {
      table(commands::null_table({}));
    }
    if (drawn) {
      require_attribute("/", "sample");
      for (const results::StoredRow& row : rows_) {
        require(row.draw >= -1 && row.draw_of >= -1 && row.draw < std::max(row.draw_of, 0),
                "/matrix: " + results::row_key(row) + " has no place in a draw");
      }
    }
    attempt([&] {
      const results::h5::Dataset dataset = file_.open_dataset("/layer/count");
      std::vector<std::int64_t> counts(dataset.side(0));
      dataset.read<std::int64_t>(0, counts.size(), counts);
      std::int64_t measured = 0;
      for (const results::StoredRow& row : rows_) {
        measured += row.status == MatrixStatus::kMeasured ? 1 : 0;
      }
      std::int64_t sum = 0;
      for (const std::int64_t count : counts) {
        sum += count;
      }
      require(sum == measured, "/layer/count does not sum to the measured rows");
    });
  }

  bool fast_ = false;
};

}  // namespace

std::vector<std::string> validate_spectra(results::ResultsReader& reader) {
  return SpectraChecker(reader).run();
}

}  // namespace vindex::commands
