// Owns the copying.
#include "joined_dump.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "input/local/file_source.hpp"
#include "model/routers/carried_rule.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

namespace vindex::commands {

bool is_one_file(const std::string& output) {
  std::error_code error;
  return output.ends_with(".safetensors") && !std::filesystem::is_directory(output, error);
}

void join_dump(std::span<const DumpArrayPlan> plan, const std::string& folder,
               const std::string& to) {
  constexpr OutputErrorIds kErrors = {"E-OUTPUT-WRITE", "E-OUTPUT-WRITE", "E-OUTPUT-WRITE",
                                      "E-OUTPUT-WRITE"};
  constexpr std::uint64_t kPiece = 4U << 20U;
  AtomicFile file(to, kErrors);
  const std::string rule_file = folder + "/" + std::string(model::kCarriedRuleFile);
  std::string rule;
  if (path_kind(rule_file) == PathKind::kFile) {
    rule = whole_text(*input::open_file_source(rule_file));
  }
  const std::string header = safetensors_header(plan, rule);
  file.write(0, std::as_bytes(std::span(header)));
  std::uint64_t at = header.size();
  std::vector<std::byte> piece;
  for (const DumpArrayPlan& array : plan) {
    const auto source = input::open_file_source(folder + "/" + array.file);
    const std::uint64_t own = safetensors_header(std::span(&array, 1)).size();
    if (source->size() != own + array.bytes) {
      throw FormatError("E-TRACE-STATE", source->name(), "not the array that a trace left");
    }
    for (std::uint64_t done = 0; done < array.bytes; done += piece.size()) {
      piece.resize(std::min(kPiece, array.bytes - done));
      source->read(own + done, piece);
      file.write(at + done, piece);
    }
    at += array.bytes;
  }
  file.publish();
}

}  // namespace vindex::commands
