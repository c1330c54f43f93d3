// Owns writing the miniature as one GGUF file (architecture deepseek2) with truth.json.
#pragma once

#include "model_plan.hpp"

#include <vindex/write/output_folder.hpp>

namespace vindex::synth {

/// Writes `plan`, a plan_kimi_k2_mini(), to kimi-k2-mini-Q8_0.gguf in `folder` and publishes.
/// Matrices are Q8_0, vectors and routers F32. Errors: those of OutputFolder.
void write_gguf_model(const ModelPlan& plan, write::OutputFolder& folder);

}  // namespace vindex::synth
