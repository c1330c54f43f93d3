// Owns writing a GGUF model, one file or splits, from tensors of many sources: bytes that pass
// through are cloned or copied by the kernel where it can, what is made anew comes from a function.
// Memory is bounded by a few buffers per thread; nothing appears under its name before all of it is
// on the device.
#pragma once

#include "composition.hpp"

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

struct ComposeOptions {
  bool replace = false;       ///< files of these names may be replaced
  std::int32_t threads = 0;   ///< that copy; 0: by the machine
  std::stop_token stop = {};  ///< requested: nothing is left behind
  /// Paths that must not be written over, beside the files of every source used.
  std::vector<std::string> inputs = {};
};

struct ComposeReport {
  std::vector<std::string> files;  ///< paths written, in order
  std::uint64_t bytes = 0;         ///< of all files
  std::uint64_t cloned = 0;        ///< bytes that share blocks with their source
  std::uint64_t kernel = 0;        ///< bytes that the kernel copied
  std::uint64_t read = 0;          ///< bytes that went through this process
  bool stopped = false;            ///< by ComposeOptions::stop; nothing was written
};

/// Where the files of a composition of `count` files with the target `target` will lie: `target`
/// itself for one; PREFIX-00001-of-0000N.gguf for more, PREFIX being the target without ".gguf" or
/// without such an ending.
std::vector<std::string> composed_paths(const std::string& target, std::size_t count);

/// What E-ORGAN-DIGEST says of a tensor.
inline constexpr const char* kOtherBytes =
    "its bytes are not those that the manifest was written of; `vindex organ assemble "
    "--accept-changed` takes them as they are";

/// Writes `composition`. Errors: OutputError E-OUTPUT-SOURCE where a target is an input,
/// E-OUTPUT-EXISTS without `replace`, E-OUTPUT-*; SystemError E-OUT-SPACE (74); FormatError
/// E-ORGAN-DIGEST naming the tensor and file whose bytes have another digest than `sha256`;
/// SystemError E-INPUT-CHANGED (74) where a source changed meanwhile; those of gguf::Writer.
ComposeReport compose(const Composition& composition, const std::string& target,
                      const ComposeOptions& options = {});

}  // namespace vindex::organ
