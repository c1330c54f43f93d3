// Owns a dump of activations as something the runner streams: which arrays it holds, by role and
// layer, and which token and prompt each row is. Names (docs/commands/activations.md):
//   hidden.L [tokens, hidden]   mlp.L [tokens, neurons]   router_logits.L [tokens, experts]
//   logits [tokens, vocabulary]   token_ids [tokens] integers   prompt [tokens] integers
// Matrices are F64 F32 F16 BF16; layers are numbered from 0 in decimal.
#pragma once

#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

inline constexpr std::string_view kHiddenRole = "hidden";
inline constexpr std::string_view kMlpRole = "mlp";
inline constexpr std::string_view kRouterLogitsRole = "router_logits";
inline constexpr std::string_view kLogitsRole = "logits";

/// Rows [first, first + count) of every matrix of a dump: one prompt.
struct PromptRows {
  std::int64_t prompt = 0;  ///< as the dump numbers it
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Move-only; owns the sources.
struct Dump {
  input::ModelFiles files;
  /// One record for each matrix: tensor "hidden.3", role "hidden", layer 3 (-1 for logits), block
  /// other, rows = tokens, cols = width. In order of layer, then role. `shape.architecture` is
  /// "dump".
  ModelIndex index;
  std::int64_t tokens = 0;
  std::vector<std::int64_t> token_ids;  ///< empty where the dump has none
  std::vector<PromptRows> prompts;      ///< empty where the dump has none; they tile the rows
};

/// Opens a folder or file of .npy or .safetensors arrays with the names above; reads headers,
/// token_ids and prompt. Arrays of other names are named in a warning (W-DUMP-OTHERS). Errors:
/// those of input::open_array_files(); FormatError (65) E-DUMP-EMPTY without a matrix, E-DUMP-SHAPE
/// for ranks, token counts or widths that disagree, E-DUMP-TYPE, E-DUMP-PROMPT for a prompt whose
/// rows do not lie together.
Dump open_dump(const std::string& path, const std::stop_token& stop = {});

/// Indices into `dump.index.matrices` of one role, layers ascending.
std::vector<std::int64_t> matrices_of_role(const Dump& dump, std::string_view role);

}  // namespace vindex::model
