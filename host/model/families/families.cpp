// Owns expanding patterns into a table, and looking names up in it.
#include "families.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::model {

namespace {

/// Appends every expansion of `pattern`'s (a|b) groups to `out`. Groups do not nest.
void expand(std::string_view pattern, const std::string& done, std::vector<std::string>& out) {
  const std::size_t open = pattern.find('(');
  if (open == std::string_view::npos) {
    out.push_back(done + std::string(pattern));
    return;
  }
  const std::size_t close = pattern.find(')', open);
  expects(close != std::string_view::npos, "unclosed group in a name pattern");
  for (const std::string_view choice : split(pattern.substr(open + 1, close - open - 1), '|')) {
    expand(pattern.substr(close + 1),
           done + std::string(pattern.substr(0, open)) + std::string(choice), out);
  }
}

/// The key form of a pattern: `{expert}` is a number like any other.
std::string key_of(std::string_view pattern, bool& has_expert) {
  constexpr std::string_view kExpert = "{expert}";
  const std::size_t at = pattern.find(kExpert);
  has_expert = at != std::string_view::npos;
  if (!has_expert) {
    return std::string(pattern);
  }
  return std::string(pattern.substr(0, at)) + '#' +
         std::string(pattern.substr(at + kExpert.size()));
}

char folded(char c) {
  if (c == '-') {
    return '_';
  }
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return folded(x) == folded(y); });
}

}  // namespace

NameTable::NameTable(Dialect dialect, std::string_view convention) {
  std::vector<std::string> keys;
  // Rows of the family's own convention win over those that every family shares.
  for (const bool own : {true, false}) {
    for (const NameRow& row : name_rows(dialect)) {
      if (own ? (row.convention.empty() || row.convention != convention)
              : !row.convention.empty()) {
        continue;
      }
      keys.clear();
      expand(row.pattern, "", keys);
      for (const std::string& pattern : keys) {
        Meaning meaning{row.block, row.role, row.layout, false};
        std::string key = key_of(pattern, meaning.has_expert);
        meanings_.try_emplace(std::move(key), meaning);
      }
    }
  }
}

const Meaning* NameTable::find(const TensorName& name) const {
  if (const auto found = meanings_.find(name.key); found != meanings_.end()) {
    return &found->second;
  }
  static constexpr Meaning kNorm{Block::kNorm, "", Layout::kMatrix, false};
  if (is_norm_name(name.last)) {
    return &kNorm;
  }
  std::size_t dot = name.key.rfind('.');
  std::string scratch;
  for (int steps = 0; dot != std::string::npos && steps < 8; ++steps) {
    scratch.assign(name.key, 0, dot);
    scratch += ".*";
    if (const auto found = meanings_.find(scratch); found != meanings_.end()) {
      return &found->second;
    }
    dot = dot == 0 ? std::string::npos : name.key.rfind('.', dot - 1);
  }
  return nullptr;
}

std::optional<std::string_view> known_family(Dialect dialect, std::string_view architecture) {
  for (const FamilyRow& row : family_rows(dialect)) {
    for (const std::string_view each : split(row.architectures, ' ')) {
      if (same_name(each, architecture)) {
        return row.convention;
      }
    }
  }
  return std::nullopt;
}

bool is_norm_name(std::string_view last) {
  return last.find("norm") != std::string_view::npos || last.starts_with("ln_");
}

}  // namespace vindex::model
