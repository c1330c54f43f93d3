// Owns what the descriptions of all runs say alike: when, by which program, from which files, and
// with which warnings.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/results/run_store.hpp>
#include <vindex/shard/bulk_reader.hpp>
#include <vindex/shard/model_files.hpp>

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::run {

using Json = nlohmann::ordered_json;

/// Title, history and the command of `run`, begun now.
void describe_command(const std::vector<std::string>& command, const std::string& title,
                      results::RunDescription& run);

/// "file NAME" and what of the file must stay: bytes, modification time (it survives a copy to
/// another disk), header.
std::vector<std::pair<std::string, std::string>> file_lines(const shard::ModelFiles& files);

/// One object per file of the model.
Json file_inputs(const shard::ModelFiles& files);

/// Who computes.
Json back_end_list(const std::vector<std::unique_ptr<measure::Backend>>& backends);

/// Program, compiler and reader.
Json program_environment(const shard::BulkReader& reader, Json back_ends);

/// What was found out about a model.
Json shape_json(const model::ModelShape& shape);

/// Adds a line for every warning of a model's files and of its index; `side` stands before the text
/// where there are two models.
void add_warnings(const shard::ModelFiles& files, const model::ModelIndex& index,
                  std::string_view side, std::vector<std::string>& messages);

}  // namespace vindex::run
