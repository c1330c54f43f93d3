// Owns `vindex decode`: the float32 values of one logical tensor, exactly those that a measurement
// uses.
#pragma once

#include "engine/units/source_watch.hpp"
#include "model/model_index.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::commands {

/// Hands `use` the float32 weights of `record` as stored, whole rows at a time, in their order. Who
/// believes them asks the watch first. Errors: those of reading.
void decode_slabs(engine::SourceWatch& watch, const model::MatrixRecord& record,
                  const std::function<void(std::span<const float>)>& use);

struct DecodeOutcome {
  std::int64_t values = 0;        ///< written
  std::vector<Warning> warnings;  ///< about the model's files
};

/// Writes tensor `name` (logical) of the model at `path`, little-endian float32 in the stored
/// weight's own order, to `output` (temporary name, then renamed; never half-written; "-" is
/// standard output). All slices unless `slice`. Without `replace` a file that is there is not
/// touched, and a results file or one of the model (its configuration and index too) never is.
/// Memory: one slab. Errors: UsageError E-TENSOR / E-SLICE for a name or slice that is not there,
/// FormatError E-UNSUPPORTED for an encoding that cannot be decoded, OutputError, SystemError.
DecodeOutcome decode_tensor(const std::string& path, const std::string& model_config,
                            const std::string& name, std::optional<std::int32_t> slice,
                            const std::string& output, bool replace);

}  // namespace vindex::commands
