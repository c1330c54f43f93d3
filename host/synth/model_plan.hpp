// Owns the description of a model to be written: its tensors under their logical names, how each is
// stored and what is planted in it; and what is written of it: a folder in the Hugging Face layout
// or one GGUF file (architecture deepseek2), with truth.json beside either, which says what was
// planted in every matrix and what its encoding cost (docs/commands/synth.md).
#pragma once

#include "recipe.hpp"

#include "core/json/json_document.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encoding/encoding.hpp"
#include "write/output_folder.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::synth {

/// One tensor. A vector has recipe.rows 1 and is stored with one dimension.
struct PlannedTensor {
  std::string name;  ///< logical: "model.layers.1.mlp.experts.0.down_proj.weight"
  decode::Encoding encoding;
  Recipe recipe;
  bool is_vector = false;
};

/// A model in the Hugging Face layout.
struct ModelPlan {
  std::string spec;
  std::uint64_t seed = 0;
  std::string config;  ///< text of config.json
  std::vector<PlannedTensor> tensors;
  std::uint64_t shard_bytes = 5'000'000'000;  ///< a shard holds at most this much (or one tensor)
  /// A new shard begins right after the codes of these, so that their scales lie in the next.
  std::vector<std::string> break_after_codes_of;
};

/// Encodings of the quantised matrices of a variant.
enum class Variant : std::uint8_t { kFp8, kInt4, kBf16, kQ8_0 };

/// The miniature Kimi-K2.
ModelPlan plan_kimi_k2_mini(Variant variant, const std::string& spec, std::uint64_t seed);

/// What a layer can be made of.
inline constexpr std::array<Kind, 5> kLayerKinds = {Kind::kGaussian, Kind::kPowerlaw, Kind::kSpiked,
                                                    Kind::kRowscale, Kind::kTrained};

/// One layer's routed experts under the deepseek_v3 names: down_proj, rows x cols; of kTrained also
/// gate_proj and up_proj, cols x rows, since a spectrum goes by its role. Expert e of several takes
/// place e/(experts - 1) in the role's ranges, an only one the middle. Errors: UsageError where the
/// encoding cannot store such rows.
ModelPlan plan_layer(std::int64_t experts, std::int64_t rows, std::int64_t cols, Variant variant,
                     Kind kind, const std::string& spec, std::uint64_t seed);

/// The recipe of a layer's down_proj in the middle of its role's ranges, but for its key.
Recipe layer_recipe(Kind kind, std::int64_t rows, std::int64_t cols);

/// Sizes of the miniature, for config.json and GGUF keys.
struct MiniSizes {
  std::int64_t hidden = 256;
  std::int64_t layers = 4;
  std::int64_t dense_layers = 1;
  std::int64_t heads = 8;
  std::int64_t query_rank = 96;
  std::int64_t key_value_rank = 64;
  std::int64_t nope = 32;
  std::int64_t rope = 16;
  std::int64_t value = 32;
  std::int64_t dense_width = 640;
  std::int64_t expert_width = 192;
  std::int64_t experts = 16;
  std::int64_t active = 4;
  std::int64_t shared = 1;
  std::int64_t vocabulary = 320;
};

/// quantization_config of config.json for a variant; null for kBf16 and kQ8_0.
Json quantization_config(Variant variant);

/// The encoding that `variant` gives to matrices it quantises.
decode::Encoding variant_encoding(Variant variant);

/// Writes `plan`, a plan_kimi_k2_mini(), to kimi-k2-mini-Q8_0.gguf in `folder` and publishes.
/// Matrices are Q8_0, vectors and routers F32. Errors: those of OutputFolder.
void write_gguf_model(const ModelPlan& plan, write::OutputFolder& folder);

/// Draws, encodes and writes every tensor of `plan` to `folder`, one matrix per thread at a time
/// (memory: about 6 bytes per weight of the largest matrix and thread), and publishes. Errors:
/// those of OutputFolder.
void write_huggingface_model(const ModelPlan& plan, write::OutputFolder& folder);

/// One matrix (or slice of a stacked tensor) as written.
struct TruthRow {
  std::string tensor;  ///< logical name
  std::int64_t slice = -1;
  std::string encoding;
  Recipe recipe;
  decode::EncodingLoss loss;
  std::string part_of;    ///< drawn as part of this matrix, to which kind and values then belong
  std::int64_t rows = 0;  ///< as stored
  std::int64_t cols = 0;
};

/// The text of truth.json.
std::string truth_text(const std::string& spec, std::uint64_t seed,
                       const std::vector<TruthRow>& rows);

}  // namespace vindex::synth
