// Owns what the descriptions of all runs have in common: when, by which program, from which files,
// as given by whom, computed by what, and with which warnings.
#pragma once

#include "backend/backend.hpp"
#include "core/json/json_document.hpp"
#include "engine/run_settings.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "results/schema/run_description.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::engine {

/// The description of a run begun now, of `model` as given: title, history, command. The
/// fingerprint begins with the numeric version.
results::RunDescription begin_description(results::FileSchema schema, const std::string& model,
                                          const std::string& title,
                                          const std::vector<std::string>& command);

/// "revision" of a store that is of one commit, and "file NAME" with what of the file must stay:
/// bytes, header and, where there is no revision, modification time (it survives a copy to another
/// disk).
std::vector<std::pair<std::string, std::string>> file_lines(const input::ModelFiles& files);

/// Adds the file_lines() to the fingerprint, `side` before each. Returns what /run/inputs says of
/// the files: one object each.
Json add_inputs(const input::ModelFiles& files, std::string_view side,
                results::RunDescription& run);

/// /run/settings: `own`, which the job alone is given, and what every job is.
Json all_settings(Json own, const RunSettings& settings);

/// /run/environment: program, compiler, reader, back ends, and variables that were taken out of the
/// environment. Where there are no back ends, the host computes with `host_threads`.
Json environment(const RunSettings& settings, const input::BulkReader& reader,
                 const std::vector<std::unique_ptr<Backend>>& backends,
                 std::int32_t host_threads = 0);

/// /run/environment at the end of a run: also which way its bytes took, and what timed reads of
/// both ways came to, by which `reader` chose.
std::string with_reading(const std::string& environment_json, const input::BulkReader& reader);

/// What was found out about a model.
Json shape_json(const model::ModelShape& shape);

/// Adds a line for every warning of a model's files and of its index; `side` stands before the text
/// where there are two models.
void add_warnings(const input::ModelFiles& files, const model::ModelIndex& index,
                  std::string_view side, std::vector<std::string>& messages);

/// "fast", "default", "strict".
std::string mode_name(SpectrumMode mode);

}  // namespace vindex::engine
