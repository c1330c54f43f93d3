// Owns measuring whole models for reports: which models lie below a folder, each one's run on the
// job runner with samples taken, resumed where it stopped, and the documents that report them: per
// tensor, per class, the ranking of several models, and the same for people.
#pragma once

#include "measured_model.hpp"

#include "commands/spectra/spectra_settings.hpp"
#include "engine/run/job_runner.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::fleet {

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
    "measure of what a matrix does, nor of quality.";

/// How to read z_modulus and csci; stands above their table.
inline constexpr const char* kScaleMeaning =
    "z_modulus: slope of the information -log2(mean squared Haar coefficient) over log2 scale, "
    "below 0 where neighbouring weights are alike; csci: correlation of the sizes of coefficients "
    "across scales, above 0 where large weights lie near each other or are rare; both 0 for normal "
    "noise, and their noise sd is of normal noise alone; signs flipped (--null signflip): csci of "
    "the same magnitudes with random signs";

/// By parameter-weighted theta, the largest first; models without one last. Views into `models`.
std::vector<const FleetModel*> ranking(std::span<const FleetModel> models);

/// One JSON document each; NaN is null.
std::string measure_json(const ModelMeasure& model);              ///< organ-measure/1
std::string groups_json(std::span<const FleetModel> models);      ///< z_report_complete.json
std::string ranking_json(std::span<const FleetModel> models);     ///< z_measure_report.json
std::string dissection_json(std::span<const FleetModel> models);  ///< dissection_report.json

/// The report in Markdown; every figure beside its null.
std::string report_markdown(std::span<const FleetModel> models);

/// The ranking as a table for a terminal of `width` columns; of several models also their parts
/// side by side and the laws of scale.
std::string ranking_text(std::span<const FleetModel> models, std::size_t width);

/// A model to be measured, by the name that its files and rows get.
struct NamedModel {
  std::string name;
  std::string path;
};

/// The models at or below `address`, in order of path: GGUF files (of a split set the first one),
/// and folders with safetensors files or organs (organ/extract/extract.hpp). A path that is a file
/// is itself, as is an address that is none of a local path. Hidden folders are passed over.
/// Errors: MissingInputError E-ORGAN-FLEET (66) where there is none.
std::vector<std::string> find_models(const std::string& address);

/// Names for `paths`: the last part of each without .gguf and split number, parents before it where
/// several are equal.
std::vector<NamedModel> named_models(const std::vector<std::string>& paths);

/// Measures `settings.run.model` into `settings.run.output` and reads back what reports need.
/// `settings` gets the classes of organs and the order of the files. `outcome` says how the run
/// ended; after a stop, and for a worker's share, nothing is read back. Errors: as
/// commands::measure_model(); FormatError E-ORGAN-COUNT (65) where a tensor is lost.
std::optional<ModelMeasure> measure_model(commands::SpectraSettings settings,
                                          const std::string& name, const engine::RunHooks& hooks,
                                          engine::RunOutcome& outcome);

/// Writes NAME.measure.json of every measured model, z_report_complete.json, z_measure_report.json,
/// dissection_report.json and report.md into `folder`, which is made where absent. Errors:
/// throw_output_error().
void write_reports(const std::string& folder, std::span<const FleetModel> models);

/// Seconds of NAME.measure.json in `folder`, that an earlier run took; NaN where it does not say.
double earlier_seconds(const std::string& folder, const std::string& name);

}  // namespace vindex::fleet
