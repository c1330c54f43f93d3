// Owns what each kind of file without spectra promises beyond types, shapes and ranges.
#include "activations_cells.hpp"
#include "cka_cells.hpp"
#include "experts_cells.hpp"
#include "file_checker.hpp"
#include "matched_layers.hpp"
#include "pair_cells.hpp"
#include "routing_cells.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::results {

namespace {

/// What one row is checked with.
struct RowRules {
  ResultsReader& reader;
  const StoredRow& row;
  std::vector<std::string>& wrong;

  void require(bool condition, std::string_view column, std::string_view what) const {
    if (!condition) {
      wrong.push_back(printable(
          fmt::format("{}/{}: {} {}", reader.schema().table, column, row_key(row), what)));
    }
  }
  double cell(std::size_t number) const { return row.cells.at(number); }
  ArrayCell array(std::size_t number) const { return reader.read_array(row.bulk.row, number); }
};

/// What the numbers of a pair promise of each other.
void check_pair(const StoredRow& row, std::vector<std::string>& wrong) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) {
      wrong.push_back(printable(what));
    }
  };
  const std::string where = "/pair: " + row_key(row);
  if (row.status != measure::Status::kMeasured) {
    require(std::isnan(row.cell(pair_cell("cosine"))) && std::isnan(row.cell(pair_cell("norm_a"))),
            where + " is not measured and has numbers");
    return;
  }
  const double cosine = row.cell(pair_cell("cosine"));
  require(std::isnan(cosine) ? !row.reason.empty() : std::abs(cosine) <= 1.0,
          where + ": a cosine beyond 1, or none and no reason");
  require(row.cell(pair_cell("norm_a")) >= 0.0 && row.cell(pair_cell("norm_b")) >= 0.0 &&
              row.cell(pair_cell("max_abs_difference")) >= 0.0,
          where + ": a negative norm");
  // What stands beside the comparison, where the file has it.
  const auto in = [&](std::size_t which, double least, double most) {
    const double value = row.cell(which);
    require(std::isnan(value) || (value >= least && value <= most),
            where + ": a value out of its range");
  };
  const double p = static_cast<double>(row.shorter());
  constexpr double kRounding = 1e-9;
  in(pair_cell("delta_stable_rank"), 1.0 - 1e-5, p + 1e-5);
  in(pair_cell("delta_effective_rank"), 1.0 - kRounding, p + kRounding);
  in(pair_cell("delta_rank_gd"), 0.0, p);
  in(pair_cell("delta_rank_edge"), 0.0, p);
  in(pair_cell("delta_theta"), 0.0, 90.0);
  in(pair_cell("overlap_right"), 0.0, 1.0);
  in(pair_cell("overlap_left"), 0.0, 1.0);
  for (std::size_t i = pair_cell("angles_right"); i < row.cells.size(); ++i) {
    require(std::isnan(row.cells[i]) || (row.cells[i] >= 0.0 && row.cells[i] <= 90.0 + kRounding),
            where + ": an angle beyond 90 degrees");
  }
  require(
      row.cell(pair_cell("same_bits")) != 1.0 || row.cell(pair_cell("max_abs_difference")) == 0.0,
      where + " has the same bits and a difference");
}

/// The corner of a square array of side `side` that holds `experts` experts.
class Square {
 public:
  Square(const std::vector<float>& values, std::size_t experts)
      : values_(values),
        side_(static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(values.size()))))),
        experts_(std::min(experts, side_)) {}
  bool is_symmetric(double slack) const {
    return all([&](std::size_t i, std::size_t j) {
      return std::isnan(at(i, j)) ? std::isnan(at(j, i)) : std::abs(at(i, j) - at(j, i)) <= slack;
    });
  }
  bool has_diagonal(double value, double slack) const {
    return all([&](std::size_t i, std::size_t j) {
      return i != j || std::isnan(at(i, i)) || std::abs(at(i, i) - value) <= slack;
    });
  }

 private:
  double at(std::size_t i, std::size_t j) const {
    return static_cast<double>(values_[i * side_ + j]);
  }
  template <typename Holds>
  bool all(Holds holds) const {
    for (std::size_t i = 0; i < experts_; ++i) {
      for (std::size_t j = 0; j < experts_; ++j) {
        if (!holds(i, j)) {
          return false;
        }
      }
    }
    return true;
  }
  const std::vector<float>& values_;
  std::size_t side_, experts_;
};

void check_routing(const RowRules& rules) {
  const ArrayCell load = rules.array(routing_array("load"));
  double sum = 0.0;
  double dead = 0.0;
  for (const double share : load.doubles) {
    sum += std::isnan(share) ? 0.0 : share;
    dead += share == 0.0 ? 1.0 : 0.0;
  }
  rules.require(std::abs(sum - 1.0) <= 1e-9, "load",
                fmt::format("has loads that sum to {}, not 1", sum));
  const double reported = rules.cell(routing_cell("dead_experts"));
  rules.require(std::isnan(reported) || reported == dead, "dead_experts",
                fmt::format("reports {} dead experts, the loads of {}", reported, dead));
  const ArrayCell lift = rules.array(routing_array("coactivation_lift"));
  rules.require(Square(lift.floats, load.doubles.size()).is_symmetric(1e-5), "coactivation_lift",
                "is not symmetric");
  const ArrayCell tails = rules.array(routing_array("coactivation_lift_p"));  // not in 1.0
  rules.require(tails.empty() || Square(tails.floats, load.doubles.size()).is_symmetric(1e-6),
                "coactivation_lift_p", "is not symmetric");
}

void check_experts(const RowRules& rules) {
  const double reported = rules.cell(experts_cell("experts"));
  const auto experts = std::isnan(reported) ? std::size_t{0} : static_cast<std::size_t>(reported);
  for (const std::string_view name :
       {"cosine", "cosine_centred", "overlap_right", "overlap_left"}) {
    const ArrayCell array = rules.array(column_number(kExpertsTable.arrays, name));
    if (!array.empty()) {
      const Square square(array.floats, experts);
      rules.require(square.is_symmetric(1e-6), name, "is not symmetric");
      rules.require(square.has_diagonal(1.0, 1e-4), name, "has no diagonal of ones");
    }
  }
  const ArrayCell spectrum = rules.array(experts_array("expert_axis_spectrum"));
  const auto end = std::find_if(spectrum.doubles.begin(), spectrum.doubles.end(),
                                [](double value) { return std::isnan(value); });
  rules.require(std::is_sorted(spectrum.doubles.begin(), end, std::greater<>()),
                "expert_axis_spectrum", "does not descend");
}

void check_activations(const RowRules& rules) {
  for (const std::string_view name : {"sparsity", "sparsity_null"}) {
    const std::vector<double> shares =
        rules.array(column_number(kActivationsTable.arrays, name)).doubles;
    for (std::size_t i = 1; i < shares.size(); ++i) {
      rules.require(!(shares[i] < shares[i - 1]), name, "does not rise with the threshold");
    }
  }
}

void check_cka(const RowRules& rules) {
  const std::vector<double> cka = rules.array(cka_array("cka")).doubles;
  const std::vector<double> error = rules.array(cka_array("se")).doubles;
  const std::vector<double> low = rules.array(cka_array("ci_low")).doubles;
  const std::vector<double> high = rules.array(cka_array("ci_high")).doubles;
  for (std::size_t i = 0; i < std::min(low.size(), high.size()); ++i) {
    rules.require(!(low[i] > high[i]), "ci_low", "lies above ci_high");
    if (!error.empty()) {  // before version 1.1 intervals were drawn and need not hold the value
      rules.require(!(low[i] > cka.at(i)) && !(high[i] < cka.at(i)), "ci_low",
                    "and ci_high do not hold cka");
    }
  }
}

/// Arrays of one open file.
class ReaderBulk final : public BulkSource {
 public:
  explicit ReaderBulk(ResultsReader& reader) : reader_(reader) {}
  void sigma(const StoredRow& row, std::span<double> out) override {
    reader_.read_sigma(row.bulk.row, out);
  }
  measure::SingularVectors vectors(const StoredRow& row) override {
    return reader_.read_vectors(row.bulk.row);
  }
  ArrayCell array(const StoredRow& row, std::size_t number) override {
    return reader_.read_array(row.bulk.row, number);
  }

 private:
  ResultsReader& reader_;
};

template <typename T>
std::vector<T> read_whole(const h5::File& file, const std::string& path, std::size_t count) {
  const h5::Dataset dataset = file.open_dataset(path);
  if (dataset.shape() != h5::Shape{count}) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "wrong shape");
  }
  std::vector<T> values(count);
  dataset.read<T>(0, count, values);
  return values;
}

/// What a file of `vindex cka` says beside its rows is what follows from them.
void check_cka_file(ResultsReader& reader, const FileDescription& description,
                    const std::vector<StoredRow>& rows, std::vector<std::string>& wrong) {
  const auto require = [&](bool condition, const char* what) {
    if (!condition) {
      wrong.emplace_back(what);
    }
  };
  const h5::File& file = reader.file();
  std::vector<const StoredRow*> pointers;
  std::vector<std::int64_t> layers;
  for (const StoredRow& row : rows) {
    pointers.push_back(&row);
    layers.push_back(row.layer);
  }
  require(read_whole<std::int64_t>(file, "/layers_a", rows.size()) == layers,
          "/layers_a: not the layers of the rows");
  ReaderBulk bulk(reader);
  const std::vector<MatchedLayer> matched = matched_layers(description, pointers, bulk);
  const std::vector<double> cka = read_whole<double>(file, "/matched/cka", matched.size());
  const auto a = read_whole<std::int64_t>(file, "/matched/layer_a", matched.size());
  const auto b = read_whole<std::int64_t>(file, "/matched/layer_b", matched.size());
  for (std::size_t i = 0; i < matched.size(); ++i) {
    require(a[i] == matched[i].layer_a && b[i] == matched[i].layer_b,
            "/matched: a row of other layers than lie at its depth");
    require(cka[i] == matched[i].cka || (std::isnan(cka[i]) && std::isnan(matched[i].cka)),
            "/matched/cka: not the value of /cka");
  }
  // Before version 1.1 they followed from the values alone, and there is none to compare with.
  if (const auto stages = stages_of(pointers)) {
    require(
        file.has_attribute("/", "stages") && file.integer_attribute("/", "stages") == stages->count,
        "/: stages is missing, or not what the CKA of neighbours gives");
  }
  const auto scale = description.scales.find("layers_b");
  if (description.model != description.other_model || scale == description.scales.end() ||
      scale->second.integers != layers) {
    return;
  }
  std::vector<ArrayCell> lines;
  for (const StoredRow& row : rows) {
    lines.push_back(reader.read_array(row.bulk.row, cka_array("cka")));
  }
  bool is_symmetric = true;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // NaN where a row was not compared.
      is_symmetric &= !(std::abs(lines[i].doubles.at(j) - lines[j].doubles.at(i)) > 1e-6);
    }
  }
  require(is_symmetric, "/cka: of one model with itself, and not symmetric");
}

}  // namespace

std::vector<std::string> broken_rules(ResultsReader& reader, const FileDescription& description,
                                      const std::vector<StoredRow>& rows) {
  std::vector<std::string> wrong;
  for (const StoredRow& row : rows) {
    if (reader.schema().id == FileSchema::kCompare) {
      check_pair(row, wrong);
    }
    if (row.status != measure::Status::kMeasured || row.cells.empty()) {
      continue;
    }
    const RowRules rules{reader, row, wrong};
    switch (reader.schema().id) {
      case FileSchema::kRouting:
        check_routing(rules);
        break;
      case FileSchema::kExperts:
        check_experts(rules);
        break;
      case FileSchema::kActivations:
        check_activations(rules);
        break;
      case FileSchema::kCka:
        check_cka(rules);
        break;
      default:
        break;
    }
  }
  if (reader.schema().id == FileSchema::kCka) {
    check_cka_file(reader, description, rows, wrong);
  }
  return wrong;
}

}  // namespace vindex::results
