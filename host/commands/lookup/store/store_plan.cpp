// Owns choosing the matrices of one width, the types that hold them, and whether entries of the
// vocabulary can be named.
#include "store_plan.hpp"

#include "gate_vector_cells.hpp"

#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace vindex::commands {

namespace {

using decode::ElementType;

/// The type that holds all of `records` exactly, where one of 16 bits or float32 does.
ElementType type_of(const std::vector<const model::MatrixRecord*>& records) {
  std::set<ElementType> types;
  for (const model::MatrixRecord* const record : records) {
    if (record->encoding.scheme != decode::Scheme::kPlain) {
      return ElementType::kF16;
    }
    types.insert(record->encoding.type);
  }
  if (types.size() == 1 && *types.begin() != ElementType::kF64) {
    const ElementType type = *types.begin();
    const bool is_float = type == ElementType::kF32 || type == ElementType::kBF16;
    return is_float ? type : ElementType::kF16;
  }
  const auto is_float = [](ElementType type) {
    return type == ElementType::kF64 || type == ElementType::kF32 || type == ElementType::kF16 ||
           type == ElementType::kBF16;
  };
  return std::all_of(types.begin(), types.end(), is_float) ? ElementType::kF32 : ElementType::kF16;
}

class Planner {
 public:
  Planner(const StoreSettings& settings, const FeatureSource& source)
      : settings_(settings), source_(source) {}

  StorePlan plan() {
    const auto wanted = source_.features(settings_.run.selection, settings_.role);
    plan_.width = width_of(wanted);
    for (const model::FeatureMatrix& one : wanted) {
      add(one);
    }
    if (plan_.matrices.empty()) {
      throw FormatError("E-UNSUPPORTED", plan_.rows.front().tensor, plan_.rows.front().reason);
    }
    if (plan_.features > std::numeric_limits<std::int32_t>::max()) {
      throw ConfigurationError("E-FEATURES",
                               fmt::format("{} features, more than a file numbers: --layers "
                                           "chooses some",
                                           plan_.features));
    }
    plan_.type = settings_.type.value_or(type_of(records_));
    if (const std::int64_t embedding = source_.embedding();
        embedding >= 0 && model::undecodable_text(matrix(embedding)).empty() &&
        matrix(embedding).cols == plan_.width) {
      plan_.embedding = embedding;
      plan_.embedding_type = settings_.type.value_or(type_of({&matrix(embedding)}));
    }
    plan_.no_tokens = tokens_trouble();
    plan_.named = plan_.no_tokens.empty() ? settings_.tokens_out : 0;
    return std::move(plan_);
  }

 private:
  const model::MatrixRecord& matrix(std::int64_t i) const {
    return source_.index().matrices[static_cast<std::size_t>(i)];
  }

  /// The embedding's, else that of the first matrix that can be decoded.
  std::int64_t width_of(const std::vector<model::FeatureMatrix>& wanted) const {
    for (const model::FeatureMatrix& one : wanted) {
      const model::MatrixRecord& record = matrix(one.matrix);
      if (model::undecodable_text(record).empty() &&
          (source_.embedding() < 0 || record.cols == matrix(source_.embedding()).cols)) {
        return record.cols;
      }
    }
    return matrix(wanted.front().matrix).cols;
  }

  void add(const model::FeatureMatrix& one) {
    const model::MatrixRecord& record = matrix(one.matrix);
    std::string reason = model::undecodable_text(record);
    if (reason.empty() && record.cols != plan_.width) {
      reason = fmt::format("takes {} inputs, the others {}", record.cols, plan_.width);
    }
    results::StoredRow row = results::row_of(record);
    row.cells = results::empty_cells(kGateVectorTable);
    if (reason.empty() && one.rows.count > 0) {
      row.status = MatrixStatus::kMeasured;
      row.reason.clear();
      plan_.matrices.push_back({one, plan_.rows.size(), plan_.features});
      plan_.features += one.rows.count;
      records_.push_back(&record);
    } else {
      row.status = MatrixStatus::kUnsupported;
      row.reason = reason.empty() ? "no rows" : printable(reason);
      row.error_class = "65";
    }
    plan_.rows.push_back(std::move(row));
  }

  std::string tokens_trouble() const {
    if (settings_.tokens_out == 0) {
      return "none are stored (--tokens-out 0)";
    }
    if (std::string reason = no_tokens_text(source_.index(), source_.output()); !reason.empty()) {
      return reason;
    }
    const std::int64_t width = matrix(source_.output()).cols;
    const bool any =
        std::any_of(plan_.matrices.begin(), plan_.matrices.end(), [&](const StoredMatrix& one) {
          return one.features.down >= 0 && matrix(one.features.down).rows == width &&
                 model::undecodable_text(matrix(one.features.down)).empty();
        });
    return any ? "" : "no down_proj is as wide as the output embedding";
  }

  const StoreSettings& settings_;
  const FeatureSource& source_;
  StorePlan plan_;
  std::vector<const model::MatrixRecord*> records_;
};

}  // namespace

StorePlan plan_features(const StoreSettings& settings, const FeatureSource& source) {
  return Planner(settings, source).plan();
}

}  // namespace vindex::commands
