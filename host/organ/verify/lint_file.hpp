// Owns a GGUF file that may break every rule, as far as a walk came.
#pragma once

#include "findings.hpp"

#include "core/files/byte_source.hpp"
#include "decode/encoding/element_type.hpp"
#include "gguf/walker.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::organ {

/// A key as the walk met it.
struct LintKey : gguf::WalkedKey {
  std::string text;  ///< of a string, its first kilobyte
};

struct LintTensor : gguf::WalkedTensor {
  std::optional<decode::ElementType> type;
  std::optional<std::uint64_t> bytes;  ///< nothing where shape or type cannot be
};

/// A tensor as findings name it.
std::string of_tensor(const gguf::WalkedTensor& tensor);

struct LintFile {
  std::string path;
  std::unique_ptr<ByteSource> source;
  std::uint32_t version = 0;
  bool big_endian = false;
  std::vector<LintKey> keys;
  std::vector<LintTensor> tensors;
  std::uint64_t alignment = 32;
  std::uint64_t header_end = 0;   ///< behind the table
  std::uint64_t data_offset = 0;  ///< header_end, aligned
  bool complete = false;          ///< all keys and all entries were read

  const LintKey* key(std::string_view name) const;
  /// A number of an integer type; nothing otherwise.
  std::optional<std::uint64_t> number(std::string_view name) const;
};

/// Walks through the file, judging keys and entries each by itself.
void read_lint_file(LintFile& file, Findings& findings);
}  // namespace vindex::organ
