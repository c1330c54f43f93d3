// Owns the document that a manifest is.
#pragma once

#include "manifest.hpp"

#include "core/json/json_document.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/source/organ_class.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vindex::organ {

/// What extract knows besides.
struct ManifestContext {
  std::string tool;     ///< program and version
  std::string created;  ///< ISO 8601
  std::string selection;
  bool by_reference = false;  ///< bytes lie in the source
};

/// The document, and in `sidecars` (by name) the keys that do not stand in it. `tensors` as they
/// were extracted from `source`, `total`: how many the model has.
Json manifest_json(const GgufSource& source, const std::vector<ManifestTensor>& tensors,
                   std::uint64_t total, const ManifestContext& context,
                   std::vector<std::pair<std::string, gguf::KeySection>>& sidecars);

/// The document of any container. `source` and `keys` (null: none) say what it was, `total` how
/// many tensors it has.
Json manifest_document(const ManifestContext& context, std::uint64_t total, Json source, Json keys,
                       const std::vector<ManifestTensor>& tensors);

struct ClassCount {
  std::uint64_t tensors = 0;
  std::uint64_t params = 0;
  std::uint64_t bytes = 0;
};
using ClassCounts = std::array<ClassCount, kOrganClasses>;  ///< by OrganClass

ClassCounts class_counts(const std::vector<ManifestTensor>& tensors);
/// An object with a member for every class.
Json class_counts_json(const ClassCounts& counts);

/// Throws FormatError E-ORGAN-NAME where `name` cannot stand in JSON.
void require_utf8_name(const std::string& name, const std::string& where);

/// A local name made absolute, links followed as far as they exist; other addresses as they are.
std::string absolute_path(const std::string& path);

}  // namespace vindex::organ
