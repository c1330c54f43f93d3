// Owns what `show` says of single experts in a file of `vindex experts`: which stand out from the
// others of their layer and role, and how far the farthest would by chance; and the overlaps of
// their subspaces.
#pragma once

#include "core/json/json_document.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/view/summary.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::commands {

/// Schema::derive: of every expert the mean of its cosines with the others, the largest of them,
/// and with whom; NaN for one without a cosine. Then one number: statistics::robust_scale() of the
/// cosines of all pairs.
std::vector<std::vector<double>> derive_experts(const results::StoredRow& row,
                                                results::BulkSource& bulk);

/// An expert whose robust score is beyond what the farthest of as many normal values (of the pairs
/// of as many experts with normal cosines, where it is by its nearest) has in 95 of 100 draws.
struct OutlyingExpert {
  const results::ViewRow* row = nullptr;
  std::int64_t expert = 0;
  const char* of = "";  ///< "norm", "mean cosine", "nearest"
  double value = 0.0, median = 0.0, z = 0.0;
  double z_noise = 0.0;       ///< that 95 % point
  std::int64_t nearest = -1;  ///< of "nearest": the other expert
};

/// The farthest first. `groups`: how many groups and statistics were looked at.
struct OutlyingExperts {
  std::vector<OutlyingExpert> experts;
  std::int64_t groups = 0, groups_with = 0;
};
OutlyingExperts outlying_experts(const results::ResultsView& shown);

/// Overlaps where the file has them, and the experts that stand out.
std::vector<results::SummaryTable> expert_tables(const results::ResultsView& shown,
                                                 const OutlyingExperts& found);
/// What stands out, and how much of it chance gives.
std::string outliers_text(const OutlyingExperts& found);
/// The same for programs: `outlying`.
Json expert_members(const OutlyingExperts& found);

}  // namespace vindex::commands
