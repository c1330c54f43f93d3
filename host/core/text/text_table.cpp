// Owns the tables of character widths, the cutting of text into characters, and the layout of
// columns that give way in a fixed order.
#include "text_table.hpp"

#include "utf8.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace vindex {

namespace {

struct Range {
  char32_t first, last;
};

/// General categories Mn, Me and zero-width format characters.
constexpr std::array<Range, 25> kZeroWidth = {
    {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
     {0x06D6, 0x06DC}, {0x0900, 0x0902}, {0x093C, 0x093C}, {0x0941, 0x0948}, {0x094D, 0x094D},
     {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1160, 0x11FF}, {0x1AB0, 0x1ACE},
     {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20F0},
     {0x302A, 0x302D}, {0x3099, 0x309A}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}}};

/// East Asian Width W and F of Unicode 14.
constexpr std::array<Range, 56> kWide = {
    {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
     {0x23F0, 0x23F0},   {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
     {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
     {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
     {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
     {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
     {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},
     {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},
     {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
     {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
     {0xA960, 0xA97C},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},
     {0xFE30, 0xFE6B},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x18D08},
     {0x1AFF0, 0x1B2FB}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E},
     {0x1F191, 0x1F19A}, {0x1F200, 0x1F265}, {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}}};

template <std::size_t N>
bool is_in(const std::array<Range, N>& ranges, char32_t code) {
  const auto* after =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](char32_t c, const Range& range) { return c < range.first; });
  return after != ranges.begin() && code <= (after - 1)->last;
}

/// What is never cut: an escape \xNN, or a character with the combining ones behind it.
struct Grapheme {
  std::size_t bytes = 0, columns = 0;
};

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool is_escape(std::string_view rest) {
  return rest.size() >= 4 && rest[0] == '\\' && rest[1] == 'x' && is_hex(rest[2]) &&
         is_hex(rest[3]);
}

/// The character at the beginning of `rest`, which is valid UTF-8 and not empty.
Grapheme character_of(std::string_view rest) {
  const auto [bytes, code] = utf8_character(rest);
  if (bytes < 2) {
    return {1, 1};
  }
  return {bytes, is_in(kZeroWidth, code) ? 0U : (is_in(kWide, code) ? 2U : 1U)};
}

Grapheme grapheme_of(std::string_view rest) {
  if (is_escape(rest)) {
    return {4, 4};
  }
  Grapheme grapheme = character_of(rest);
  while (grapheme.bytes < rest.size() && static_cast<unsigned char>(rest[grapheme.bytes]) >= 0x80) {
    const Grapheme next = character_of(rest.substr(grapheme.bytes));
    if (next.columns > 0) {
      break;
    }
    grapheme.bytes += next.bytes;
  }
  return grapheme;
}

/// The longest beginning of `text` in `columns`.
std::string_view beginning(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t used = 0; bytes < text.size();) {
    const Grapheme grapheme = grapheme_of(text.substr(bytes));
    used += grapheme.columns;
    if (used > columns) {
      break;
    }
    bytes += grapheme.bytes;
  }
  return text.substr(0, bytes);
}

/// The longest end of `text` in `columns`.
std::string_view ending(std::string_view text, std::size_t columns) {
  std::size_t left = display_width(text);
  std::size_t at = 0;
  while (left > columns) {
    const Grapheme grapheme = grapheme_of(text.substr(at));
    left -= grapheme.columns;
    at += grapheme.bytes;
  }
  return text.substr(at);
}

/// Which columns of a table stay, how wide they are and what stands before each.
class Layout {
 public:
  Layout(const std::vector<TextColumn>& columns, std::vector<std::size_t> widths,
         std::size_t indent)
      : columns_(columns), widths_(std::move(widths)), indent_(indent) {}

  void fit(std::size_t width) {
    is_tight_ = total(widths_) > width;
    drop(width, widths_, &TextColumn::dropped_as);
    std::vector<std::size_t> least = widths_;
    for (std::size_t i = 0; i < least.size(); ++i) {
      least[i] = columns_[i].min_width == 0 ? least[i] : std::min(least[i], columns_[i].min_width);
    }
    drop(width, least, &TextColumn::given_up_as);
    if (is_tight_) {
      is_tight_ = false;
      is_tight_ = total(widths_) > width;
    }
    shrink(width);
  }

  bool is_shown(std::size_t i) const { return shown_[i]; }
  std::size_t width(std::size_t i) const { return widths_[i]; }
  /// Spaces before column `i`.
  std::size_t gap(std::size_t i) const {
    const auto first = std::find(shown_.begin(), shown_.end(), true);
    return i == static_cast<std::size_t>(first - shown_.begin()) ? indent_
           : is_tight_ && columns_[i].is_close                   ? 1
                                                                 : 2;
  }

 private:
  std::size_t total(const std::vector<std::size_t>& widths) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      sum += shown_[i] ? widths[i] + gap(i) : 0;
    }
    return sum;
  }

  void drop(std::size_t width, const std::vector<std::size_t>& widths,
            std::uint8_t TextColumn::*order) {
    for (unsigned int turn = 1; turn <= columns_.size() && total(widths) > width; ++turn) {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        shown_[i] = shown_[i] && columns_[i].*order != turn;
      }
    }
  }

  /// Shortens columns until all take `width` or nothing gives way.
  void shrink(std::size_t width) {
    for (std::size_t now = total(widths_); now > width;) {
      // The widest gives way until it is no wider than the next one.
      std::size_t widest = widths_.size();
      std::size_t next = 0;
      for (std::size_t i = 0; i < widths_.size(); ++i) {
        if (!shown_[i] || columns_[i].min_width == 0 || widths_[i] <= columns_[i].min_width) {
          continue;
        }
        if (widest == widths_.size() || widths_[i] > widths_[widest]) {
          next = widest == widths_.size() ? 0 : widths_[widest];
          widest = i;
        } else {
          next = std::max(next, widths_[i]);
        }
      }
      if (widest == widths_.size()) {
        return;
      }
      const std::size_t floor =
          std::min(std::max(next, columns_[widest].min_width), widths_[widest] - 1);
      const std::size_t less = std::min(now - width, widths_[widest] - floor);
      widths_[widest] -= less;
      now -= less;
    }
  }

  const std::vector<TextColumn>& columns_;
  std::vector<std::size_t> widths_;
  std::vector<bool> shown_ = std::vector<bool>(widths_.size(), true);
  std::size_t indent_;
  bool is_tight_ = false;
};

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Grapheme grapheme = character_of(text.substr(at));
    columns += grapheme.columns;
    at += grapheme.bytes;
  }
  return columns;
}

std::string shortened(std::string_view text, std::size_t width, Keep keep) {
  constexpr std::string_view kGap = "...";
  // Every column takes a byte at least: most texts need no look at their characters.
  if (text.size() <= width || display_width(text) <= width) {
    return std::string(text);
  }
  const bool is_marked = width > kGap.size();
  const std::size_t room = is_marked ? width - kGap.size() : width;
  const std::string gap(is_marked ? kGap : "");
  switch (keep) {
    case Keep::kStart:
      return std::string(beginning(text, room)) + gap;
    case Keep::kEnd:
      return gap + std::string(ending(text, room));
    case Keep::kBothEnds:
      break;
  }
  return std::string(beginning(text, room / 2)) + gap + std::string(ending(text, room - room / 2));
}

std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<TextColumn>& columns, std::size_t width,
                       std::size_t indent) {
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  Layout layout(columns, std::move(widths), indent);
  layout.fit(width);

  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!layout.is_shown(i)) {
        continue;
      }
      line.append(layout.gap(i), ' ');
      const std::string cell = shortened(row[i], layout.width(i), columns[i].keep);
      const std::size_t used = display_width(cell);
      const std::size_t padding = used < layout.width(i) ? layout.width(i) - used : 0;
      line.append(columns[i].right ? padding : 0, ' ');
      line += cell;
      line.append(columns[i].right ? 0 : padding, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string wrapped_text(std::string_view text, std::size_t width, std::size_t indent) {
  std::size_t used = std::min(text.find_first_not_of(' '), text.size());
  std::string out(used, ' ');
  text.remove_prefix(used);
  for (bool is_first = true; !text.empty(); is_first = false) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t columns = display_width(word);
    if (is_first) {
      // Where it stands: behind the spaces that the paragraph begins with.
    } else if (used > 0 && used + 1 + columns > width) {
      out += '\n' + std::string(indent, ' ');
      used = indent;
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += columns;
  }
  return out;
}

}  // namespace vindex
