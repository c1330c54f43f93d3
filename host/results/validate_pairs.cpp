// Owns the check of a file of pairs against the contract of `vindex compare`.
#include "file_checker.hpp"
#include "pair_columns.hpp"

#include <vindex/results/pair_cells.hpp>

#include <cmath>

namespace vindex::results {

namespace {

class PairChecker final : FileChecker {
 public:
  explicit PairChecker(ResultsReader& reader) : FileChecker(reader) {}

  std::vector<std::string> run() {
    for (const char* name : {"Conventions", "title", "history", "model", "model_b", "backend"}) {
      require_attribute("/", name);
    }
    attempt([&] {
      row_columns(model::ResultTable::kMatrix,
                  table_columns(reader_.schema(), file_, model::ResultTable::kMatrix), "/pair/k");
      for (const PairScale& scale : pair_scales(pair_columns_of(file_))) {
        column(std::string("/pair/") + scale.name, h5::Type::kInt32, {scale.values.size()}, "");
      }
    });
    if (!wrong_.empty()) {
      return wrong_;  // rows cannot be interpreted
    }
    rows_ = reader_.rows(0);
    order(model::ResultTable::kMatrix);
    counts(0);
    for (const StoredRow& row : rows_) {
      numbers(row);
    }
    table("/unpaired", "entry",
          {{"side", h5::Type::kString},
           {"tensor", h5::Type::kString},
           {"reason", h5::Type::kString}});
    attempt([&] {
      for (const std::string& side : file_.read_strings("/unpaired/side")) {
        require(side == "a" || side == "b", "/unpaired/side: '" + side + "' is not a side");
      }
    });
    run_texts();
    return wrong_;
  }

 private:
  /// What the numbers of a pair promise of each other.
  void numbers(const StoredRow& row) {
    const auto cell = [&](PairCell which) {
      return row.cells.empty() ? std::nan("") : row.cells[cell_number(which)];
    };
    const std::string where = "/pair: " + row_key(row);
    if (row.status != measure::Status::kMeasured) {
      require(std::isnan(cell(PairCell::kCosine)) && std::isnan(cell(PairCell::kNormA)),
              where + " is not measured and has numbers");
      return;
    }
    const double cosine = cell(PairCell::kCosine);
    require(std::isnan(cosine) ? !row.reason.empty() : std::abs(cosine) <= 1.0,
            where + ": a cosine beyond 1, or none and no reason");
    require(cell(PairCell::kNormA) >= 0.0 && cell(PairCell::kNormB) >= 0.0 &&
                cell(PairCell::kMaxAbsDifference) >= 0.0,
            where + ": a negative norm");
    // What stands beside the comparison, where the file has it.
    const auto in = [&](PairCell which, double least, double most) {
      const double value = cell(which);
      require(std::isnan(value) || (value >= least && value <= most),
              where + ": a value out of its range");
    };
    const double p = static_cast<double>(row.shorter());
    constexpr double kRounding = 1e-9;
    in(PairCell::kDeltaStableRank, 1.0 - 1e-5, p + 1e-5);
    in(PairCell::kDeltaEffectiveRank, 1.0 - kRounding, p + kRounding);
    in(PairCell::kDeltaRankGd, 0.0, p);
    in(PairCell::kDeltaRankEdge, 0.0, p);
    in(PairCell::kDeltaTheta, 0.0, 90.0);
    in(PairCell::kOverlapRight, 0.0, 1.0);
    in(PairCell::kOverlapLeft, 0.0, 1.0);
    for (std::size_t i = kPairAngles; i < row.cells.size(); ++i) {
      require(std::isnan(row.cells[i]) || (row.cells[i] >= 0.0 && row.cells[i] <= 90.0 + kRounding),
              where + ": an angle beyond 90 degrees");
    }
    require(cell(PairCell::kSameBits) != 1.0 || cell(PairCell::kMaxAbsDifference) == 0.0,
            where + " has the same bits and a difference");
  }
};

}  // namespace

std::vector<std::string> validate_pairs(ResultsReader& reader) { return PairChecker(reader).run(); }

}  // namespace vindex::results
