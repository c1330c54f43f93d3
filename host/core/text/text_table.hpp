// Owns how text fits a number of columns: the width of UTF-8 in a terminal, shortening that cuts
// between characters, tables whose columns give way where they would be too wide together, and
// paragraphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex {

/// What a table or a line may take where nobody said otherwise, and where there is no terminal.
inline constexpr std::size_t kUsualWidth = 80;

/// Columns that a terminal takes for `text`, which has been through printable(): 2 for wide
/// characters of East Asian scripts and emoji, 0 for combining ones (ranges of Unicode 15.0,
/// EastAsianWidth.txt and general category Mn, as far as scripts in use go).
std::size_t display_width(std::string_view text);

/// Which part of a text that is too long survives; "..." stands for the rest.
enum class Keep : std::uint8_t { kStart, kEnd, kBothEnds };

/// `text` (printable()) in at most `width` columns. Neither a UTF-8 character nor an escape \xNN is
/// cut. Below 4 columns there is no room for "..." and only the kept end stays.
std::string shortened(std::string_view text, std::size_t width, Keep keep);

/// One column of a table.
struct TextColumn {
  bool right = false;            ///< numbers
  std::size_t min_width = 0;     ///< may be shortened to this width; 0: never
  Keep keep = Keep::kBothEnds;   ///< which part of a shortened cell survives
  bool is_close = false;         ///< one space before it, not two, where the table is too wide
  std::uint8_t dropped_as = 0;   ///< 1: left out first where the whole cells have no room, 2: next
  std::uint8_t given_up_as = 0;  ///< the same where not even the shortened ones have; 0: never
};

/// `rows` (cells printable(), each row as many as `columns`; the first may be a heading) with every
/// column as wide as its widest cell, two spaces before each but the first, which has `indent`.
/// Where that takes more than `width` columns, the close ones move together; columns are dropped in
/// their order, and given up in theirs; the widest of those with a `min_width` are shortened; what
/// never gives way may still be wider. Lines end without spaces.
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<TextColumn>& columns, std::size_t width,
                       std::size_t indent = 0);

/// `text`, one paragraph, broken between words into lines of at most `width` columns; all but the
/// first, which keeps its own, begin with `indent` spaces. A word that is longer stays whole, so
/// that names can be copied.
std::string wrapped_text(std::string_view text, std::size_t width, std::size_t indent = 0);

}  // namespace vindex
