// Owns taking many models apart in one command: each into a folder of its own, what is there
// already left as it is, one report of what that took.
#pragma once

#include "measure_fleet.hpp"

#include "organ/extract/extract_settings.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::fleet {

struct DissectedModel {
  std::string name;
  std::string path;
  std::string folder;  ///< where its organs lie
  std::optional<organ::ExtractReport> report = std::nullopt;
  bool earlier = false;      ///< a run before did it; seconds are that run's, NaN: unknown
  std::string failure = {};  ///< one line
};

/// `models`, and what find_models() finds at or below `folders` but for what was taken apart
/// already. Errors: those of find_models().
std::vector<NamedModel> models_to_dissect(std::vector<std::string> models,
                                          std::span<const std::string> folders);

/// Seconds of models by name.
using EarlierSeconds = std::map<std::string, double>;
/// What the report in `folder` says that earlier runs took; empty where there is none of ours.
EarlierSeconds earlier_dissection(const std::string& folder);

/// Takes `named` apart into FOLDER/NAME, unless its organs lie there; `settings` say how. Errors:
/// those of organ::extract(); OutputError E-OUTPUT-NOT-EMPTY where what lies there are organs of
/// another model, version or selection.
DissectedModel dissect(const NamedModel& named, const std::string& folder,
                       organ::ExtractSettings settings, const EarlierSeconds& earlier);

/// dissection_report.json of `folder` (organ-dissection/1), which is there. Errors:
/// throw_output_error().
void write_dissection(const std::string& folder, std::span<const DissectedModel> models,
                      bool by_reference);
std::string dissection_text(std::span<const DissectedModel> models, std::size_t width,
                            bool by_reference);
std::string dissection_json(std::span<const DissectedModel> models, bool by_reference);

}  // namespace vindex::fleet
