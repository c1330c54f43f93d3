// Owns several results files side by side: one metric by role for each, beside its null.
#pragma once

#include "spectra_view.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::report {

/// The matrices of one block and role of a model, over its layers.
struct RoleFigures {
  model::Block block = model::Block::kOther;
  std::string role;
  std::int64_t values = 0;  ///< matrices with a value
  double median = std::numeric_limits<double>::quiet_NaN();
  double null = std::numeric_limits<double>::quiet_NaN();   ///< median of the matrices' nulls
  double ratio = std::numeric_limits<double>::quiet_NaN();  ///< median of value over null
};

struct ShownModel {
  std::string path, model;
  ShownMetric metric;
  std::vector<RoleFigures> roles;  ///< in the order of the results
};

/// Errors: those of read_shown() for any of `paths`.
std::vector<ShownModel> read_shown_models(const std::vector<std::string>& paths,
                                          const ShowQuery& query);

/// A row for each model, a column for each role, as many tables as `width` needs: medians of value
/// over null, or values beside nothing where the metric has no null.
std::string models_text(const std::vector<ShownModel>& models, std::size_t width);
/// vindex-show-models/1.
std::string models_json(const std::vector<ShownModel>& models);

}  // namespace vindex::report
