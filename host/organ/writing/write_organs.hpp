// Owns writing a folder of organs beside the organs themselves: its manifest, and the threads that
// write one organ each.
#pragma once

#include "organ_file.hpp"

#include "core/json/json_document.hpp"
#include "organ/manifest/manifest_write.hpp"
#include "organ/source/gguf_source.hpp"
#include "write/output_folder.hpp"
#include "write/range_copy.hpp"

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

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
/// Throws ConfigurationError E-ORGAN-MANIFEST: the manifest would have `what`.
[[noreturn]] void refuse_manifest_size(const std::string& what);

}  // namespace vindex::organ
