// Owns both ways of assembling: restoring a folder, and choosing whether a recipe is meant.
#include "assemble.hpp"

#include "recipe.hpp"
#include "recipe_compose.hpp"

#include "core/digest.hpp"
#include "core/files/path_kind.hpp"
#include "core/process/parallel.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/opening/organ_folder.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/writing/provenance.hpp"
#include "write/range_copy.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

namespace vindex::organ {
namespace {

constexpr std::uint64_t kAssembleBufferBytes = std::uint64_t{256} << 10U;

std::string target_of(const AssembleSettings& settings, const std::string& own_name) {
  if (settings.output.ends_with('/') || is_folder(settings.output)) {
    return (std::filesystem::path(settings.output) / own_name).string();
  }
  return settings.output;
}

/// Which tensors have other bytes than their digests say; reads them all.
std::vector<bool> changed_bytes(const GgufSource& source, const AssembleSettings& settings) {
  const std::vector<OrganTensor>& tensors = source.tensors();
  const std::size_t threads = thread_count(kAssembleBufferBytes, settings.threads);
  write::CopyTally tally;
  std::vector<write::RangeCopier> copiers(threads, write::RangeCopier(tally, settings.stop));
  std::vector<char> changed(tensors.size(), 0);
  for_each_index(tensors.size(), threads, [&](std::size_t worker, std::size_t i) {
    const OrganTensor& tensor = tensors[i];
    if (!tensor.sha256.empty()) {
      const auto digest =
          copiers[worker].digest(*source.files()[tensor.file].source, tensor.offset, tensor.bytes);
      // Where it is stopped, compose() sees that too.
      changed[i] = digest && *digest != tensor.sha256 ? 1 : 0;
    }
  });
  return {changed.begin(), changed.end()};
}

bool is_model_key(const gguf::Key& key) { return !is_split_key(key.name); }

/// The files that the source was, keys verbatim but for the first's where `first` is given.
Composition as_it_was(const GgufSource& source, std::optional<gguf::KeySection> first,
                      std::vector<ComposedTensor> tensors) {
  Composition composition;
  for (std::size_t i = 0; i < source.splits().size(); ++i) {
    ComposedFile& file = composition.files.emplace_back();
    const GgufSplit& split = source.splits()[i];
    if (i == 0 && first) {
      file.keys = std::move(*first);
      for (const gguf::Key& key : split.header.keys) {
        if (is_split_key(key.name)) {
          file.keys.copy(key, split.header, *split.source);
        }
      }
    } else {
      file.keys = source.copy_keys(i);
    }
    file.bare_end = split.bare_end;
  }
  for (const OrganTensor& tensor : source.tensors()) {
    ++composition.files[tensor.split].tensor_count;
  }
  composition.tensors = std::move(tensors);
  return composition;
}

void require_whole(const GgufSource& source) {
  if (source.tensors().size() < source.tensors_total()) {
    throw ConfigurationError(
        "E-ORGAN-PARTIAL",
        fmt::format(
            "{}: a selection of {} of {} tensors; a model needs all: extract without --type "
            "and --layers, or name it as a donor in a recipe",
            printable(source.path()), source.tensors().size(), source.tensors_total()));
  }
}

void assemble_model(const AssembleSettings& settings, AssembleReport& report) {
  OpenGgufOptions options;
  options.accept_changed = settings.accept_changed;
  const auto source = open_gguf(settings.input, options);
  require_whole(*source);
  report.warnings = source->warnings();
  std::vector<ComposedTensor> tensors = passed_through(*source);
  report.tensors = tensors.size();
  if (settings.accept_changed) {
    const std::vector<bool> changed = changed_bytes(*source, settings);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (changed[i]) {
        tensors[i].sha256.clear();
        report.changed.push_back(tensors[i].layout.name);
      }
    }
  }
  std::optional<gguf::KeySection> first;
  if (!report.changed.empty() || source->changed()) {
    Provenance provenance;
    provenance.parents = {source.get()};
    provenance.history =
        fmt::format("assemble: {} tensors are not as they were extracted", report.changed.size());
    first = changed_keys(*source, tensors, provenance);
  }
  Composition composition =
      settings.shard_bytes
          ? split_by_size(first ? std::move(*first) : source->copy_keys(0, is_model_key),
                          std::move(tensors), *settings.shard_bytes)
          : as_it_was(*source, std::move(first), std::move(tensors));
  ComposeOptions how;
  how.replace = settings.replace;
  how.threads = settings.threads;
  how.stop = settings.stop;
  how.inputs = source->input_paths();  // also of a model without tensors
  report.composed =
      compose(composition, target_of(settings, source->splits().front().file_name), how);
}

}  // namespace

AssembleReport assemble(const AssembleSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  AssembleReport report;
  (is_recipe(settings.input) ? assemble_recipe : assemble_model)(settings, report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace vindex::organ
