// Owns the files of a GGUF model as they lie: one file, or every split of its set in order, each
// with its own header. For those who take files apart or write them again; who wants a model's
// tensors takes open_model().
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

}  // namespace vindex::input
