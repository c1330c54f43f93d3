// Owns which routed experts belong side by side: all of one layer and role, whether they are slices
// of a stack or tensors of their own.
#pragma once
#include "model/model_index.hpp"
#include "model/selection/selection.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::model {

/// One expert of a group.
struct GroupMember {
  std::int64_t matrix = -1;  ///< into ModelIndex::matrices; -1: the model has none
  std::string error;         ///< why it is not compared: missing, of another shape, unsupported
};

/// The routed experts of one (layer, role).
struct ExpertGroup {
  /// What the results file says of it: `tensor` is the stack's name, or the experts' with `*` in
  /// place of their number; `rows` and `cols` those of most of them; `unsupported` where not one
  /// can be decoded; no codes.
  MatrixRecord record;
  std::vector<GroupMember> members;  ///< by number of the expert
  std::uint64_t present() const;
};

/// The groups of what `selection` wants, by layer and role. Experts are numbered up to the largest
/// of the layer. A second matrix of one (layer, role, expert) begins a group of its own.
std::vector<ExpertGroup> expert_groups(const ModelIndex& index, const Selection& selection);

}  // namespace vindex::model
