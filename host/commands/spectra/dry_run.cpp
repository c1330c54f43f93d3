// Owns which bytes of which files are tried, and a temporary file beside the output.
#include "dry_run.hpp"

#include "core/files/atomic_file.hpp"
#include "engine/units/matrix_loader.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace vindex::commands {

namespace {

constexpr std::uint64_t kSampleBytes = 16U << 20U;

/// First and last byte of what is needed of a file.
using Ends = std::map<ByteSource*, std::pair<std::uint64_t, std::uint64_t>>;

void add_part(const input::ModelFiles& files, const model::TensorPart& part, Ends& ends) {
  if (part.tensor < 0 || part.bytes == 0) {
    return;
  }
  const std::uint64_t last = part.offset + part.bytes - 1;
  const auto [entry, is_new] =
      ends.try_emplace(&engine::source_of(files, part.tensor), part.offset, last);
  if (!is_new) {
    entry->second.first = std::min(entry->second.first, part.offset);
    entry->second.second = std::max(entry->second.second, last);
  }
}

void read_ends(const Ends& ends) {
  for (const auto& [source, place] : ends) {
    std::byte first{};
    std::byte last{};
    const ReadRequest requests[] = {{place.first, std::span(&first, 1)},
                                    {place.second, std::span(&last, 1)}};
    source->read_many(requests);
  }
}

/// Reads the beginning of the largest part.
void time_sample(const input::ModelFiles& files, const model::TensorPart& part,
                 AccessProof& proof) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(part.bytes, kSampleBytes)));
  const auto begun = std::chrono::steady_clock::now();
  engine::source_of(files, part.tensor).read(part.offset, bytes);
  proof.sample_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  proof.sample_bytes = bytes.size();
}

}  // namespace

std::uint64_t needed_disk(const engine::WorkPlan& plan, std::uint64_t copies) {
  return 2 * plan.output_bytes + std::min(copies, plan.read_bytes);
}

AccessProof prove_access(const engine::RunSettings& settings, const engine::SelectedModel& model,
                         const engine::WorkPlan& plan) {
  Ends ends;
  const model::TensorPart* largest = nullptr;
  for (const std::int64_t i : model.selected) {
    const model::MatrixRecord& record = model.index.matrices[static_cast<std::size_t>(i)];
    if (!record.unsupported.empty()) {
      continue;
    }
    add_part(model.files, record.codes, ends);
    for (const model::CompanionPart& companion : record.companions) {
      add_part(model.files, companion.part, ends);
    }
    if (record.codes.tensor >= 0 && (largest == nullptr || record.codes.bytes > largest->bytes)) {
      largest = &record.codes;
    }
  }
  read_ends(ends);
  AccessProof proof;
  proof.files = static_cast<std::int64_t>(ends.size());
  if (largest != nullptr) {
    time_sample(model.files, *largest, proof);
  }
  if (!settings.output.empty()) {
    const AtomicFile trial(settings.output);  // removed at the end of this block
    require_free_space(settings.output, needed_disk(plan, 0));
  }
  return proof;
}

}  // namespace vindex::commands
