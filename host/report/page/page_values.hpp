// Owns how numbers and texts of a results file stand in a page: short, and so that page/data.js
// reads them back.
//
//   a list of numbers     [1, 0.25, null] where there are few; else {"n": 70000, "t": "f32",
//                         "z": "..."}, the base64 text of a zlib stream of the little-endian
//                         values, all their first bytes together, then all second ones, ...
//   a list of texts       {"texts": ["a", "b"], "at": numbers of them}
//   a list of names       the same, where \u0001 in a text stands for the row's layer and \u0002
//                         for its expert
//
// NaN is null in a plain list and NaN in a packed one; an integer of a packed list that is missing
// is the smallest of its type.
#pragma once

#include "core/json/json_document.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::report {

/// RFC 4648, with padding.
std::string base64(std::span<const std::byte> bytes);

/// Real numbers as float32 rounded to `bits` significant bits (24: as float32 has them); relative
/// error 2^-bits. Plain lists have the shortest decimals of the rounded values.
Json packed_reals(std::span<const double> values, int bits);
/// Integers; NaN and what does not fit 32 bits: missing.
Json packed_integers(std::span<const double> values);
/// Whole numbers from 0 to 65535 as they are.
Json packed_codes(std::span<const std::uint16_t> values);
Json packed_texts(std::span<const std::string> texts);

/// What identifies a row beside its name.
struct NamedRow {
  std::string_view name;
  std::int32_t layer = -1, expert = -1;
};
Json packed_names(std::span<const NamedRow> rows);

/// `json` as text that may stand within <script>: no `<`, and no line separator of JavaScript.
std::string script_text(const Json& json);

}  // namespace vindex::report
