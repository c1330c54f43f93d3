// Owns edits as files. A patch is a safetensors file: NAME.a [r, in] and NAME.b [out, r] for every
// edited matrix, W' = W + b a; NAME#I of slice I of a stack. Its __metadata__:
//   format             "vindex-patch/1"
//   base_model_digest  SHA-256 of the lines "NAME DIGEST\n" of all edited matrices, by name
//   digests            JSON {"NAME": {"before": DIGEST, "after": DIGEST}}: SHA-256 of the decoded
//                      float32 weights that the edit was made from, and of those it left; "after"
//                      is absent where none were written
//   program            what wrote it
// Read as well: LoRA adapters of PEFT and MLX (safetensors) and of llama.cpp (GGUF).
#pragma once

#include "matrix_edit.hpp"

#include "core/files/atomic_file.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "write/output_folder.hpp"
#include <vindex/error.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vindex::edit {

/// A parameter of PEFT's that is the stack of all experts of a layer.
struct ParameterOfExperts {
  std::int32_t layer = -1;
  std::string role;
  std::int64_t experts = 0;
  std::optional<std::array<int, 3>> peft_version;  ///< that made it; empty: unknown
};

/// One matrix of a patch.
struct PatchEntry {
  std::string tensor;       ///< logical name (raw bytes)
  std::int32_t slice = -1;  ///< -1: the tensor is one matrix
  LowRankEdit edit;
  std::string before, after;  ///< hex digests; empty: unknown
  /// Of an adapter of such a parameter; the model may hold its experts one by one.
  std::optional<ParameterOfExperts> parameter;

  std::string key() const;  ///< NAME or NAME#I
};

struct Patch {
  std::string kind;         ///< "vindex-patch/1", "LoRA adapter"
  bool knows_base = false;  ///< of a kind that says which weights it was made from
  std::vector<PatchEntry> entries;
  std::vector<Warning> warnings;
  /// general.architecture of a GGUF adapter, empty where it has none; nothing for any other file.
  std::optional<std::string> architecture;
};

/// The model that a patch is for.
struct PatchBase {
  const input::ModelFiles& files;
  const model::ModelIndex& index;
};

/// A patch or an adapter of which no more than headers is read, so that what they refute is refused
/// before factors of any size are read.
class PatchFile {
 public:
  virtual ~PatchFile() = default;
  /// All but values: the factors of its entries have sides and a rank and are empty.
  const Patch& outline() const { return outline_; }
  /// The patch: entries of the outline in its order, with their factors. Errors: FormatError
  /// E-PATCH-FORMAT for values that are not finite, ConfigurationError E-ADAPTER-REST; those of
  /// reading.
  virtual Patch read() = 0;

 protected:
  Patch outline_;
};

/// Opens a patch or an adapter: a file, or the folder of one. An adapter's scale (alpha / r,
/// rslora, patterns; model/index_model) is in the factors. Whole tensors beside the factors that
/// hold what `base` holds already (PEFT saves embeddings that it adapts) are left out. What `base`
/// refers to must outlive the file. Errors: FormatError (65) E-PATCH-* for what is neither,
/// E-ADAPTER-PAIR for a factor that is missing or of another shape; ConfigurationError (78)
/// E-ADAPTER-DORA for magnitudes, which are no sum, E-ADAPTER-VARIANT for what else is none,
/// E-ADAPTER-PAIR for other factors that are no pair, E-ADAPTER-REST where the adapter also
/// replaces whole tensors or biases, unless `force`; those of open_model() and index_model().
std::unique_ptr<PatchFile> open_patch(const std::string& path, bool force,
                                      const PatchBase* base = nullptr);

/// open_patch() and PatchFile::read().
Patch read_patch(const std::string& path, bool force, const PatchBase* base = nullptr);

/// Writes a patch to `file`, which is flushed and keeps its temporary name. Errors: those of
/// SafetensorsWriter and AtomicFile.
void write_patch(AtomicFile& file, const std::vector<PatchEntry>& entries,
                 const std::string& program);

/// What a LoRA needs to know of the matrix that it adapts.
struct AdaptedMatrix {
  const PatchEntry* entry = nullptr;
  bool embedding = false;
  bool transposed = false;   ///< stored in x out
  std::int64_t slices = -1;  ///< of the stack that it is of; -1: none
  /// PEFT adapts the parameter rather than the module: in models with experts it takes modules
  /// called gate, up_proj, down_proj, ... for those of experts, wherever they are.
  bool parameter = false;
  /// Of an expert that is stored alone: the stack that transformers makes of all (empty: none), how
  /// many rows its slices have, and where this matrix begins in slice `expert`.
  std::string stack = {};
  std::int32_t expert = -1;
  std::int64_t stack_rows = 0, first_row = 0;
};

/// Writes adapter_config.json and adapter_model.safetensors, float32: modules by their whole paths,
/// alpha = r everywhere, so that what PEFT merges is b a. Stacks are `target_parameters`, slices
/// that are not edited zero, and factors of parameters are filled up with zeros to one rank; of two
/// stacks of a module the wrapper of gate_up_proj is within that of down_proj. Errors:
/// ConfigurationError E-LORA-STACKS (78) for other stacks of one module, whose order PEFT takes
/// from the model's class; those of OutputFolder. `folder` is not published.
void write_peft_adapter(write::OutputFolder& folder, const std::vector<AdaptedMatrix>& matrices,
                        const std::string& base_model);

/// Writes an adapter that llama.cpp loads, float32: general.type adapter, adapter.type lora,
/// adapter.lora.alpha, NAME.lora_a and NAME.lora_b (stacks with a third dimension, token_embd with
/// A turned). `file` is flushed and keeps its temporary name. Errors: those of gguf::Writer.
/// Source: llama.cpp src/llama-adapter.cpp, convert_lora_to_gguf.py.
void write_gguf_adapter(AtomicFile& file, const std::vector<AdaptedMatrix>& matrices,
                        const std::string& architecture, const std::string& program);

/// As open_patch() says of adapters.
std::unique_ptr<PatchFile> open_adapter(const std::string& path, bool force, const PatchBase* base);

}  // namespace vindex::edit
