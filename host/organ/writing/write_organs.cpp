// Owns writing organs side by side, and their manifest.
#include "write_organs.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "gguf/writing/writer.hpp"
#include <vindex/error.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <utility>

namespace vindex::organ {

namespace {

/// Held by each thread: a copier's buffer and a header.
constexpr std::uint64_t kExtractThreadBytes = std::uint64_t{1} << 20U;

}  // namespace

void refuse_manifest_size(const std::string& what) {
  throw ConfigurationError("E-ORGAN-MANIFEST",
                           fmt::format("the manifest would have {} that are read again: extract "
                                       "selections (--type, --layers)",
                                       what));
}

std::string utc_now() {
  std::tm now = {};
  const std::time_t seconds = std::time(nullptr);
  ::gmtime_r(&seconds, &now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now);
}

std::uint64_t for_each_tensor(
    std::vector<ManifestTensor>& tensors, std::int32_t threads, const std::stop_token& stop,
    const std::function<bool(ManifestTensor& tensor, write::RangeCopier& copier)>& body) {
  // More than there are cores: each waits for the device at the end of its file.
  const std::int32_t wanted = threads > 0 ? threads : 4 * usable_cores();
  write::CopyTally tally;
  std::vector<write::RangeCopier> copiers(thread_count(kExtractThreadBytes, wanted),
                                          write::RangeCopier(tally, stop));
  for_each_index(tensors.size(), copiers.size(), [&](std::size_t worker, std::size_t i) {
    throw_if_stopped(stop);
    if (!body(tensors[i], copiers[worker])) {
      throw Stopped{};
    }
  });
  return tally.cloned;
}

void write_manifest(const Json& json, write::OutputFolder& folder) {
  // Paths of files may be no UTF-8: they are reported, not used, where bytes were copied.
  const std::string text = json.dump(1) + "\n";
  if (text.size() > kLargestManifest) {
    refuse_manifest_size(fmt::format("{} bytes, more than the {}", text.size(), kLargestManifest));
  }
  folder.write_text(kManifestName, text);
}

void write_model_manifest(const GgufSource& source, const std::vector<ManifestTensor>& tensors,
                          std::uint64_t total, const ManifestContext& context,
                          write::OutputFolder& folder) {
  std::vector<std::pair<std::string, gguf::KeySection>> sidecars;
  const Json json = manifest_json(source, tensors, total, context, sidecars);
  for (const auto& [name, keys] : sidecars) {
    gguf::Writer(folder.create(name), keys, {}).finish();
  }
  write_manifest(json, folder);
}

OrganOrigin organ_origin(const GgufSource& source) {
  return {source.architecture(),
          source.text("general.name").value_or(source.splits().front().file_name),
          source.text("general.uuid").value_or(std::string())};
}

}  // namespace vindex::organ
