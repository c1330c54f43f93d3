// Owns the compiled decoders of the schemes of several tensors.
#include "format_rows.hpp"

namespace vindex::decode {

std::span<const FormatRow> scheme_rows() { return rows_of(SchemeDecoders{}); }

}  // namespace vindex::decode
