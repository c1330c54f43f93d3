// Owns the compiled decoders of plain types.
#include "format_rows.hpp"

namespace vindex::decode {

std::span<const FormatRow> plain_rows() { return rows_of(PlainDecoders{}); }

}  // namespace vindex::decode
