// Owns `vindex decode`: the float32 values of one logical tensor, exactly those that a measurement
// uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace vindex::run {

/// Writes tensor `name` (logical) of the model at `path`, little-endian float32 in the stored
/// weight's own order, to `output` (temporary name, then renamed; never half-written). All slices
/// unless `slice`. Memory: one slab. Returns the number of values. Errors: UsageError E-TENSOR /
/// E-SLICE for a name or slice that is not there, FormatError E-UNSUPPORTED for an encoding that
/// cannot be decoded, OutputError, SystemError.
std::int64_t decode_tensor(const std::string& path, const std::string& model_config,
                           const std::string& name, std::optional<std::int32_t> slice,
                           const std::string& output);

}  // namespace vindex::run
