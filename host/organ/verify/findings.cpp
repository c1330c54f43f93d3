// Owns gathering findings by file.
#include "findings.hpp"

#include <fmt/format.h>

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

}  // namespace vindex::organ
