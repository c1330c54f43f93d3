// Owns what taking apart has in common for both containers.
#pragma once

#include "extract.hpp"

#include "core/json/json_document.hpp"
#include "model/selection/selection.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/writing/organ_file.hpp"
#include "write/output_folder.hpp"
#include "write/range_copy.hpp"

#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

/// Which tensors are selected, checked.
class OrganFilter {
 public:
  explicit OrganFilter(const ExtractSettings& settings);
  bool wants(const std::string& tensor) const;
  /// As the manifest says it.
  std::string text() const;

 private:
  const ExtractSettings& settings_;
  std::set<OrganClass> classes_;
  model::Selection layers_;
};

/// Errors: MissingInputError E-ORGAN-NONE where `tensors` is empty.
void require_some(const std::vector<ManifestTensor>& tensors, const ExtractSettings& settings,
                  const OrganFilter& filter);

ManifestContext context_of(const ExtractSettings& settings, const OrganFilter& filter);

void count_tensors(const std::vector<ManifestTensor>& tensors, ExtractReport& report);

/// "2026-11-26T01:02:03Z".
std::string utc_now();

/// Calls `body` for every tensor, from several threads (0: by the machine), each with its copier;
/// false from it, or the stop token, ends all with Stopped. Returns how many bytes share blocks.
std::uint64_t for_each_tensor(
    std::vector<ManifestTensor>& tensors, std::int32_t threads, const std::stop_token& stop,
    const std::function<bool(ManifestTensor& tensor, write::RangeCopier& copier)>& body);

void write_manifest(const Json& json, write::OutputFolder& folder);
/// The manifest of a GGUF model of `total` tensors, and the keys that do not stand in it.
void write_model_manifest(const GgufSource& source, const std::vector<ManifestTensor>& tensors,
                          std::uint64_t total, const ManifestContext& context,
                          write::OutputFolder& folder);
/// What organs of `source` say of it.
OrganOrigin organ_origin(const GgufSource& source);

/// Of a safetensors model.
void extract_safetensors(const ExtractSettings& settings, const OrganFilter& filter,
                         ExtractReport& report);

}  // namespace vindex::organ
