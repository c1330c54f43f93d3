// Owns GGUF models as they lie: one file, or the splits of a set, which name each other and tell of
// one model; put together as a model, or every file with its own header, for those who take files
// apart or write them again. Who wants a model's tensors takes open_model().
#pragma once
#include "gguf/header.hpp"
#include "input/model_files.hpp"
#include "input/model_store.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::input {

/// One file with its header read: the tensors in the table's order, keys as they stand.
struct GgufFile {
  Shard shard;  ///< of a big-endian file the source swaps tensor data
  gguf::Header header;
  std::optional<std::uint64_t> number;         ///< split.no, from 0
  std::optional<std::uint64_t> count;          ///< split.count
  std::optional<std::uint64_t> tensors_total;  ///< split.tensors.count
};

/// The parts of PREFIX-%05d-of-%05d.gguf.
struct SplitName {
  std::string prefix;
  std::uint64_t number = 0;  ///< from 1
  std::uint64_t count = 0;

  std::string file_name(std::uint64_t of_number) const;
};
std::optional<SplitName> parse_split_name(const std::string& file_name);

/// The file or folder that `store` names; a split stands for its whole set. Any kind of GGUF:
/// models, adapters, importance matrices. Errors: those of open_model(), FormatError E-GGUF-MAGIC
/// for another container.
std::vector<GgufFile> open_gguf_set(ModelStore& store, std::vector<Warning>& warnings);

/// Adds the model that the opened member `shard` of `store` belongs to. Errors: FormatError
/// E-SPLIT-* for sets that are incomplete, doubled, mixed or misnumbered, E-GGUF-KIND for files
/// that hold no model (an adapter is one where `options` ask for it).
void open_gguf_model(ModelStore& store, Shard shard, const OpenOptions& options, ModelFiles& model);

/// Opens the GGUF model of a folder. Errors: those of open_gguf_model(); FormatError
/// E-FOLDER-SEVERAL listing the models where there is more than one.
void open_gguf_folder(ModelStore& store, const std::vector<std::string>& files,
                      const OpenOptions& options, ModelFiles& model);

}  // namespace vindex::input
