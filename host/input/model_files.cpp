// Owns the refusals of files that changed and of models without matrices.
#include "model_files.hpp"

#include "core/files/byte_source.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::input {

void require_unchanged(const Shard& shard, const char* how) {
  if (shard.source->identity() != shard.identity) {
    throw SystemError("E-INPUT-CHANGED", 0,
                      fmt::format("{}: the file was changed, replaced or removed while it was {}; "
                                  "nothing was written",
                                  printable(shard.path), how));
  }
}

void throw_nothing_to_measure(const std::string& path) {
  throw MissingInputError(
      "E-NOTHING",
      fmt::format("{}: nothing to measure: the model has no weight matrix", printable(path)));
}

}  // namespace vindex::input
