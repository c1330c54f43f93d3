// Owns the compiled decoders of ggml's blocks.
#include "format_rows.hpp"

namespace vindex::decode {

std::span<const FormatRow> ggml_rows() { return rows_of(GgmlDecoders{}); }

}  // namespace vindex::decode
