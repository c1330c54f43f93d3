// Owns the documents that report measured models: per tensor, per class, the ranking of several
// models, and the same for people.
#pragma once

#include <vindex/organ/model_measure.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::organ {

/// A model of a fleet: measured, or why it is not.
struct FleetModel {
  std::string name;
  std::string path;
  std::optional<ModelMeasure> measure = std::nullopt;
  std::string failure = {};  ///< one line
};

/// What theta_seed is not; stands wherever it is printed for people.
inline constexpr const char* kSeedWarning =
    "theta_seed describes the shape of the weights' histogram (mostly its largest values and the "
    "size of the sample): shuffling all weights of a matrix leaves it as it is, so it is no "
    "measure "
    "of what a matrix does, nor of quality.";

/// By parameter-weighted theta, the largest first; models without one last. Views into `models`.
std::vector<const FleetModel*> ranking(std::span<const FleetModel> models);

/// One JSON document each; NaN is null.
std::string measure_json(const ModelMeasure& model);              ///< organ-measure/1
std::string groups_json(std::span<const FleetModel> models);      ///< z_report_complete.json
std::string ranking_json(std::span<const FleetModel> models);     ///< z_measure_report.json
std::string dissection_json(std::span<const FleetModel> models);  ///< dissection_report.json

/// The report in Markdown; every figure beside its null.
std::string report_markdown(std::span<const FleetModel> models);

/// The ranking as a table for a terminal of `width` columns.
std::string ranking_text(std::span<const FleetModel> models, std::size_t width);

}  // namespace vindex::organ
