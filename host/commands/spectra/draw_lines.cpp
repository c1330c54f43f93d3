// Owns the texts of a draw.
#include "draw_lines.hpp"

#include "results/schema/file_description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace vindex::commands {

namespace {

std::string line_name() { return std::string(results::kDerivedLine) + "sample seed"; }

}  // namespace

std::pair<std::string, std::string> draw_line(std::uint64_t seed) {
  return {line_name(), std::to_string(seed)};
}

std::optional<std::string> draw_seed(const results::Fingerprint& lines) {
  const std::string name = line_name();
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const auto& line) { return line.first == name; });
  return found == lines.end() ? std::nullopt : std::optional(found->second);
}

std::string sample_attribute(std::span<const results::StoredRow* const> rows,
                             const std::string& seed) {
  std::int64_t most = 1;
  for (const results::StoredRow* row : rows) {
    if (row->block == model::Block::kRoutedExpert) {
      most = std::max(most, std::int64_t{row->draw} + 1);
    }
  }
  return fmt::format("{}:{}", most, seed);
}

}  // namespace vindex::commands
