// Owns PEFT's adapters of parameters that are stacks of experts (target_parameters), which share a
// pair: A [experts * r, in], expert by expert, and B [out, r * experts], experts fastest.
// Source: PEFT src/peft/tuners/lora/layer.py (ParamWrapper).
#pragma once

#include <vindex/edit/patch.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/shard/model_files.hpp>

#include <vector>

namespace vindex::edit {

/// The pair behind `record`, which model/index_model found no product for, as one entry for each
/// expert; empty where the configuration does not say which parameter it is of or what its rank is:
/// several of one module, patterns of ranks or alphas.
std::vector<PatchEntry> parameter_entries(const shard::ModelFiles& files,
                                          const model::MatrixRecord& record);

}  // namespace vindex::edit
