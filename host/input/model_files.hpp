// Owns what is known of a model from its containers' headers alone: files, stored tensors with byte
// ranges, the GGUF key list, config.json. No names are interpreted here: that is the model layer.
#pragma once

#include "core/files/byte_source.hpp"
#include "core/json/json.hpp"
#include "decode/encoding/element_type.hpp"
#include "gguf/header.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::input {

class ModelStore;  // model_store.hpp

enum class ContainerFormat { kSafetensors, kGguf };

/// One tensor as stored.
struct StoredTensor {
  std::string name;  ///< raw bytes from the file: print through printable()
  decode::ElementType type = decode::ElementType::kF32;
  /// Outermost first (torch order; GGUF's ne reversed); may be empty or hold 0.
  std::vector<std::int64_t> shape;
  std::int32_t shard = 0;    ///< index into ModelFiles::shards
  std::uint64_t offset = 0;  ///< absolute in the file
  std::uint64_t bytes = 0;
};

/// One file of the model.
struct Shard {
  std::string path;           ///< as opened: ModelStore::location()
  std::string file_name;      ///< last component: the results' `shard` column
  SourceIdentity identity;    ///< at opening
  std::string header_sha256;  ///< hex digest of the header bytes
  std::unique_ptr<ByteSource> source;
};

/// Errors: SystemError E-INPUT-CHANGED (74) where the file is not what it was at opening; `how`:
/// what was done with it meanwhile.
void require_unchanged(const Shard& shard, const char* how = "read");

/// A model's files, headers read and validated. Move-only; owns the sources.
struct ModelFiles {
  ContainerFormat format = ContainerFormat::kSafetensors;
  std::string path;                       ///< as the user gave it
  std::shared_ptr<ModelStore> store;      ///< that they were opened from
  std::vector<Shard> shards;              ///< in file-name order
  std::vector<StoredTensor> tensors;      ///< in shard order, then file offset
  std::optional<JsonValue> config;        ///< config.json (safetensors), if found
  std::optional<JsonValue> quantisation;  ///< hf_quant_config.json (ModelOpt), if found
  std::optional<JsonValue> adapter;       ///< adapter_config.json (PEFT), beside LoRA factors
  std::vector<std::string> side_files;    ///< paths of what else was read: index, configurations
  std::vector<gguf::Key> keys;            ///< of the first GGUF shard, in file order
  std::uint32_t gguf_version = 0;         ///< of that shard: how the values of its keys lie there
  bool gguf_big_endian = false;
  std::vector<Warning> warnings;
};

struct OpenOptions {
  std::string model_config;  ///< --model-config FILE; empty: look beside the model
  bool adapter = false;      ///< a GGUF adapter (LoRA) is no refusal
  /// A GGUF file of which no tensor can be a matrix is refused (E-NOTHING) before its names are
  /// kept.
  bool for_matrices = false;
  std::int32_t threads = 0;   ///< that read headers; 0: one for each usable core, at most 8
  std::stop_token stop = {};  ///< of waiting for a server, now and later: open_store()
};

/// Throws MissingInputError E-NOTHING (66): the model at `path` has no weight matrix.
[[noreturn]] void throw_nothing_to_measure(const std::string& path);

}  // namespace vindex::input
