// Owns gathering findings by file, and looking up what a file holds.
#include "lint_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::organ {
namespace {

constexpr std::uint64_t kMaxListed = 20;

}  // namespace

const char* level_name(VerifyLevel level) {
  return level == VerifyLevel::kError     ? "error"
         : level == VerifyLevel::kWarning ? "warning"
                                          : "note";
}

void Findings::set_file(std::string file) { file_ = std::move(file); }

void Findings::add(const char* id, VerifyLevel level, std::string where, std::string what,
                   std::string advice) {
  auto& [of_level, count] = counts_[id];
  of_level = level;
  ++(level == VerifyLevel::kError     ? report_.errors
     : level == VerifyLevel::kWarning ? report_.warnings
                                      : report_.notes);
  if (++count <= kMaxListed) {
    report_.findings.push_back(
        {id, level, file_, std::move(where), std::move(what), std::move(advice)});
  }
}

void Findings::finish_file() {
  for (const auto& [id, entry] : counts_) {
    if (entry.second > kMaxListed) {
      report_.findings.push_back({id, entry.first, file_, "",
                                  fmt::format("and {} more of these", entry.second - kMaxListed),
                                  ""});
    }
  }
  counts_.clear();
}

const LintKey* LintFile::key(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [name](const LintKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> LintFile::number(std::string_view name) const {
  const LintKey* found = key(name);
  return found != nullptr && gguf::is_integer(found->type) ? std::optional(found->bits)
                                                           : std::nullopt;
}

}  // namespace vindex::organ
