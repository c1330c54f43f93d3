// Owns the table of decodable formats, put together from its lists.
#include "encoding_table.hpp"

#include "format_rows.hpp"

#include <vector>

namespace vindex::decode {

bool is_decodable(const Encoding& encoding) { return find_format(encoding) != nullptr; }

std::span<const FormatRow> format_rows() {
  static const std::vector<FormatRow> kRows = [] {
    std::vector<FormatRow> rows;
    for (const auto part : {plain_rows(), ggml_rows(), scheme_rows()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    return rows;
  }();
  return kRows;
}

const FormatRow* find_format(const Encoding& encoding) {
  for (const FormatRow& row : format_rows()) {
    if (row.scheme == encoding.scheme && row.type == encoding.type && row.bits == encoding.bits) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace vindex::decode
