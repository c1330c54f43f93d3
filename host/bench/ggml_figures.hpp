// Owns the published speed of ggml's own decoders, the bar of this project's: one thread, float32
// written per second, beside a memcpy of the same output on the same machine.
#pragma once

#include <optional>
#include <string_view>

namespace vindex::bench {

/// What ggml's decoder of `encoding` would write per second, in GB/s, on a machine whose memcpy
/// writes `memcpy_gb_per_s`, if it keeps its share of it; nothing where no figure is known.
std::optional<double> ggml_decode_gb_per_s(std::string_view encoding, double memcpy_gb_per_s);

}  // namespace vindex::bench
