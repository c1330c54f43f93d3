// Owns what taking apart has in common for both containers: which tensors, and the report.
#pragma once

#include "extract_settings.hpp"

#include "model/selection/selection.hpp"
#include "organ/manifest/manifest_write.hpp"
#include "organ/source/organ_class.hpp"

#include <set>
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

}  // namespace vindex::organ
