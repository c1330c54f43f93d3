// Owns writing a planned model in the Hugging Face layout: shards, index, config.json, truth.json.
#pragma once

#include "model_plan.hpp"

#include <vindex/write/output_folder.hpp>

namespace vindex::synth {

/// Draws, encodes and writes every tensor of `plan` to `folder`, one matrix per thread at a time
/// (memory: about 6 bytes per weight of the largest matrix and thread), and publishes. Errors:
/// those of OutputFolder.
void write_huggingface_model(const ModelPlan& plan, write::OutputFolder& folder);

}  // namespace vindex::synth
