// Owns turning logical tensors into rows: which are matrices, their slices, orientation and byte
// ranges.
#pragma once

#include "families.hpp"
#include "logical_tensor.hpp"

#include <vindex/model/model_index.hpp>

#include <string>
#include <vector>

namespace vindex::model {

/// Where names get their meaning from.
struct Naming {
  Dialect dialect = Dialect::kHuggingFace;
  const NameTable* table = nullptr;  ///< null: generic mode, every block is `other`
  bool layout_declared = false;      ///< the architecture names its layout of fused experts
};

/// Fills `index.tensors`, `index.matrices` (in the results' order) and warnings about layouts from
/// `logicals` (in order of name). Errors: FormatError where a count does not fit 63 bits or the
/// model has more matrices than any model could.
void build_records(const shard::ModelFiles& files, const std::vector<LogicalTensor>& logicals,
                   const Naming& naming, const IndexOptions& options, ModelIndex& index);

}  // namespace vindex::model
