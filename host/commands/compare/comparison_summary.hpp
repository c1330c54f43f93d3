// Owns what `vindex show` and the end of `vindex compare` say of a file of pairs: their spread over
// (block, role) or over layers, apart by how both sides are stored.
#pragma once

#include "model/model_index.hpp"
#include "model/selection/selection.hpp"
#include "results/view/results_view.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::commands {

/// The compared pairs of one (block, role), or of one layer, and of one pair of encodings.
struct PairGroup {
  model::Block block = model::Block::kOther;  ///< of roles
  std::string role;
  std::int32_t layer = -1;  ///< of layers
  std::string encoding_a, encoding_b;
  std::int64_t pairs = 0;       ///< all of them
  std::int64_t compared = 0;    ///< of them measured
  std::int64_t same_bits = 0;   ///< of these
  std::int64_t changed = 0;     ///< of these, those whose weights differ
  std::string worst;            ///< tensor of A with the largest relative error, with its slice
  std::vector<double> numbers;  ///< medians and extremes over pairs; NaN where none has a value
};

struct ComparisonSummary : results::ViewHead {
  std::int64_t unpaired_a = 0, unpaired_b = 0;
  bool delta = false;             ///< the spectra of differences are known
  std::int64_t subspace = 0;      ///< directions whose overlap is known; 0: none
  bool by_layer = false;          ///< groups are layers
  std::vector<PairGroup> groups;  ///< in the order of layers, or of blocks and roles
};

/// Of the state of a comparison at `path`. Errors: those of results::read_view(); UsageError
/// E-SELECTION where no pair is in `selection`.
ComparisonSummary read_comparison(const std::string& path, const model::Selection& selection = {},
                                  bool by_layer = false);

/// Leaves the `count` groups with the largest number `by` (a member of a group in
/// comparison_json(); empty: the error over that of their kind), the smallest where `is_ascending`;
/// those without one are left out. Errors: UsageError E-COLUMN.
void keep_top_groups(ComparisonSummary& compared, std::size_t count, const std::string& by,
                     bool is_ascending);

}  // namespace vindex::commands
