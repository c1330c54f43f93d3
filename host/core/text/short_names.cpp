// Owns taking names apart at their dots, and the decision which leading and trailing parts all of
// them share.
#include "short_names.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace vindex {

namespace {

using Parts = std::vector<std::string>;

/// A name, and what stands behind it: "[5]" or "#5" of a slice.
struct Name {
  Parts parts;
  std::string slice;
};

Name taken_apart(std::string_view name) {
  Name out;
  const std::size_t slice = name.find_first_of("[#");
  out.slice = slice == std::string_view::npos ? "" : name.substr(slice);
  name = name.substr(0, slice);
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    out.parts.emplace_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return out;
}

std::string joined(const Parts& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : ".") + part;
  }
  return text;
}

/// Parts that all `names` have at the same distance from one end, one part of each left over.
template <typename Get>
std::size_t common_count(const std::vector<Name>& names, const Get& part_at) {
  std::size_t least = names.front().parts.size();
  for (const Name& name : names) {
    least = std::min(least, name.parts.size());
  }
  std::size_t count = 0;
  while (count + 1 < least && std::all_of(names.begin(), names.end(), [&](const Name& name) {
           return part_at(name, count) == part_at(names.front(), count);
         })) {
    ++count;
  }
  return count;
}

void drop_first(Parts& parts, std::string_view what) {
  if (parts.size() > 1 && parts.front() == what) {
    parts.erase(parts.begin());
  }
}

}  // namespace

ShortNames short_names(std::span<const std::string> names, bool keep_shared) {
  ShortNames out;
  std::vector<Name> all;
  for (const std::string& name : names) {
    all.push_back(taken_apart(name));
  }
  Parts begin;
  Parts end;
  const bool is_list = !keep_shared && std::set<std::string>(names.begin(), names.end()).size() > 1;
  if (is_list) {
    const std::size_t last = common_count(
        all, [](const Name& name, std::size_t i) { return name.parts[name.parts.size() - 1 - i]; });
    end.assign(all.front().parts.end() - static_cast<std::ptrdiff_t>(last),
               all.front().parts.end());
    for (Name& name : all) {
      name.parts.resize(name.parts.size() - last);
    }
    const std::size_t first =
        common_count(all, [](const Name& name, std::size_t i) { return name.parts[i]; });
    begin.assign(all.front().parts.begin(),
                 all.front().parts.begin() + static_cast<std::ptrdiff_t>(first));
    for (Name& name : all) {
      name.parts.erase(name.parts.begin(), name.parts.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  for (Name& name : all) {
    drop_first(name.parts, "model");
    drop_first(name.parts, "layers");
    if (name.parts.size() > 1 && name.parts.back() == "weight") {
      name.parts.pop_back();
    }
    out.names.push_back(joined(name.parts) + name.slice);
  }
  const auto different = [](std::span<const std::string> list) {
    return std::set<std::string>(list.begin(), list.end()).size();
  };
  if (different(out.names) != different(names)) {
    out.names.assign(names.begin(), names.end());
    return out;
  }
  if (!begin.empty() || !end.empty()) {
    out.shared =
        joined(begin) + (begin.empty() ? "*" : ".*") + (end.empty() ? "" : ".") + joined(end);
  }
  return out;
}

std::string shared_text(const ShortNames& names, std::size_t width) {
  return names.shared.empty() ? "" : wrapped_text("names: " + names.shared, width, 2) + "\n";
}

std::string names_table_text(std::vector<std::vector<std::string>> rows,
                             const std::vector<TextColumn>& columns, std::size_t width) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    names.push_back(rows[i].front());
  }
  const auto fits = [&] {
    std::istringstream lines(table_text(rows, columns, std::numeric_limits<std::size_t>::max()));
    for (std::string line; std::getline(lines, line);) {
      if (display_width(line) > width) {
        return false;
      }
    }
    return true;
  };
  ShortNames names_now;
  for (const bool keep_shared : {true, false}) {
    if (fits()) {
      break;
    }
    names_now = short_names(names, keep_shared);
    for (std::size_t i = 1; i < rows.size(); ++i) {
      rows[i].front() = names_now.names[i - 1];
    }
  }
  return table_text(rows, columns, width) + shared_text(names_now, width);
}

}  // namespace vindex
