// Owns selecting, and counting what was selected.
#include "extraction.hpp"

#include "organ/writing/write_organs.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::organ {

OrganFilter::OrganFilter(const ExtractSettings& settings)
    : settings_(settings),
      classes_(parse_classes(settings.types)),
      layers_(model::parse_selection(settings.layers, {}, {}, {})) {}

bool OrganFilter::wants(const std::string& tensor) const {
  const OrganName name = classify(tensor);
  return classes_.contains(name.organ_class) &&
         model::wants(layers_, name.block, model::Block::kOther, {});
}

std::string OrganFilter::text() const {
  return fmt::format("--type {}{}", settings_.types.empty() ? "all" : settings_.types,
                     settings_.layers.empty() ? std::string() : " --layers " + settings_.layers);
}

void require_some(const std::vector<ManifestTensor>& tensors, const ExtractSettings& settings,
                  const OrganFilter& filter) {
  if (tensors.empty()) {
    throw MissingInputError("E-ORGAN-NONE", fmt::format("{}: no tensor is of {}",
                                                        printable(settings.model), filter.text()));
  }
  if (tensors.size() > kMaxManifestTensors) {
    refuse_manifest_size(
        fmt::format("{} tensors, more than the {}", tensors.size(), kMaxManifestTensors));
  }
}

ManifestContext context_of(const ExtractSettings& settings, const OrganFilter& filter) {
  return {settings.tool, utc_now(), filter.text(), settings.by_reference};
}

void count_tensors(const std::vector<ManifestTensor>& tensors, ExtractReport& report) {
  report.classes = class_counts(tensors);
  for (const ClassCount& count : report.classes) {
    report.bytes += count.bytes;
  }
  report.tensors = tensors.size();
}

}  // namespace vindex::organ
