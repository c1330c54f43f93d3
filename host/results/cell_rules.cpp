#include "cell_rules.hpp"

#include <vindex/core/error.hpp>
#include <vindex/results/experts_cells.hpp>
#include <vindex/results/routing_cells.hpp>

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
  const double told = rules.cell(routing_cell("dead_experts"));
  rules.require(std::isnan(told) || told == dead, "dead_experts",
                fmt::format("tells of {} dead experts, the loads of {}", told, dead));
  const ArrayCell lift = rules.array(routing_array("coactivation_lift"));
  rules.require(Square(lift.floats, load.doubles.size()).is_symmetric(1e-5), "coactivation_lift",
                "is not symmetric");
}

void check_experts(const RowRules& rules) {
  const double told = rules.cell(experts_cell("experts"));
  const auto experts = std::isnan(told) ? std::size_t{0} : static_cast<std::size_t>(told);
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

}  // namespace

std::vector<std::string> broken_rules(ResultsReader& reader, const FileDescription& /*description*/,
                                      const std::vector<StoredRow>& rows) {
  std::vector<std::string> wrong;
  for (const StoredRow& row : rows) {
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
      default:
        break;
    }
  }
  return wrong;
}

}  // namespace vindex::results
