// Owns the plan of a forward pass: its stages in order, what each reads and costs, and how the
// memory budget is shared between weights, the residual stream and blocks of tokens. Pure.
#pragma once

#include "backend/forward_backend.hpp"
#include "commands/trace/tokens/trace_prompts.hpp"
#include "engine/plan/work_plan.hpp"
#include "model/model_index.hpp"
#include "model/transformer/transformer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::commands {

enum class StageKind : std::uint8_t {
  kEmbedding,
  kAttention,
  kDense,
  kRouter,  ///< router and shared expert
  kExpert,  ///< one routed expert
  kSum,     ///< what the experts gave, to the residual stream
};

struct TraceStage {
  StageKind kind = StageKind::kEmbedding;
  std::size_t layer = 0;               ///< index into Transformer::layers
  std::size_t expert = 0;              ///< of kExpert
  std::vector<std::int64_t> matrices;  ///< of the index, each once, in the order of their use
  std::string name;                    ///< "layer 3, expert 17"
  double cost = 0.0;                   ///< flop, about
  bool ends_layer = false;
};

/// The stages of layers from `first_layer` on, the embedding before layer 0.
std::vector<TraceStage> plan_stages(const model::Transformer& transformer,
                                    const model::ModelIndex& index, const TracePrompts& prompts,
                                    std::int32_t first_layer);

/// What the engine needs to know of them; row i is stages[i]. Memory of blocks is not in it.
std::vector<engine::RowWork> stage_works(const std::vector<TraceStage>& stages,
                                         const model::ModelIndex& index,
                                         const ForwardBackend& backend);

/// Tokens of a block: of whole prompts for attention (or one longer prompt), of any tokens for a
/// feed-forward. Enough for a product to take longer than decoding its weights, which is done for
/// every block. One number for every budget: a library's product gives other bits to a row of
/// another shape.
inline constexpr std::int64_t kTraceBlock = 1024;

/// Small vectors, buffers of rows that are written: everything that is not counted.
inline constexpr std::uint64_t kTraceBeside = std::uint64_t{24} << 20U;

/// How the budget is shared.
struct TraceMemory {
  bool rows_in_file = false;         ///< the residual stream, and what is added to it
  std::uint64_t reserved_bytes = 0;  ///< of the budget: what is no weights
  std::uint64_t least = 0;           ///< the smallest budget that is enough
};

/// Of `ram_budget` bytes beside `reserved_bytes` of the caller. Errors: ConfigurationError E-BUDGET
/// (78).
TraceMemory plan_memory(const model::Transformer& transformer, const TracePrompts& prompts,
                        const std::vector<engine::RowWork>& works, const ForwardBackend& backend,
                        const model::ModelIndex& index, std::uint64_t ram_budget,
                        std::uint64_t reserved_bytes);

}  // namespace vindex::commands
