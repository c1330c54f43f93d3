// Owns measuring whole models for reports: which models lie below a folder, each one's run on the
// job runner with samples taken, resumed where it stopped, and the documents that report them.
#pragma once

#include <vindex/organ/measure_report.hpp>
#include <vindex/run/measure_run.hpp>

#include <string>
#include <vector>

namespace vindex::organ {

/// A model to be measured, by the name that its files and rows get.
struct NamedModel {
  std::string name;
  std::string path;
};

/// The models at or below `path`, in order of path: GGUF files (of a split set the first one), and
/// folders with safetensors files. A path that is a file is itself. Hidden folders are passed over.
/// Errors: MissingInputError E-ORGAN-FLEET (66) where there is none.
std::vector<std::string> find_models(const std::string& path);

/// Names for `paths`: the last part of each without .gguf and split number, parents before it where
/// several are equal.
std::vector<NamedModel> named_models(const std::vector<std::string>& paths);

/// Measures `settings.model` into `settings.output` and reads back what reports need. `settings`
/// gets the classes of organs and the order of the files. `outcome` says how the run ended; after a
/// stop, and for a worker's share, nothing is read back. Errors: as run::measure_model();
/// FormatError E-ORGAN-COUNT (65) where a tensor is lost.
std::optional<ModelMeasure> measure_model(run::RunSettings settings, const std::string& name,
                                          const run::RunHooks& hooks, run::RunOutcome& outcome);

/// Writes NAME.measure.json of every measured model, z_report_complete.json, z_measure_report.json,
/// dissection_report.json and report.md into `folder`, which is made where absent. Errors:
/// throw_output_error().
void write_reports(const std::string& folder, std::span<const FleetModel> models);

/// Seconds of NAME.measure.json in `folder`, that an earlier run took; NaN where it does not say.
double earlier_seconds(const std::string& folder, const std::string& name);

}  // namespace vindex::organ
