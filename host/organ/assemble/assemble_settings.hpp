// Owns what is asked of putting a model together, and what it reports.
#pragma once

#include "organ/writing/compose.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

struct AssembleSettings {
  /// An extracted folder or its manifest, a recipe (organ-recipe/1), or any GGUF model.
  std::string input;
  /// A file, or a folder that exists (or ends in '/'): the source's own names in it. Of splits the
  /// names follow composed_paths().
  std::string output;
  /// Bytes of tensors per file; 0: everything in one file; nothing: as the source was.
  std::optional<std::uint64_t> shard_bytes;
  /// Organs that are not as the manifest says are taken as they are, and the keys say so.
  bool accept_changed = false;
  bool replace = false;
  std::int32_t threads = 0;
  std::stop_token stop = {};
};

struct AssembleReport {
  ComposeReport composed;
  std::size_t tensors = 0;
  /// Tensors whose bytes, type or shape are not as the manifest says (accept_changed).
  std::vector<std::string> changed = {};
  /// What a recipe did: lines for people.
  std::vector<std::string> notes = {};
  std::vector<Warning> warnings = {};
  double seconds = 0.0;
};

}  // namespace vindex::organ
