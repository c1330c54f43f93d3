// Owns how the experts of a group are cut, so that the same piece of every one of them lies in
// memory at a time, and what that takes. Pure.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"
#include "model/experts/expert_groups.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <vector>

namespace vindex::commands {

/// The same rows (or columns) of every expert of a group, as stored.
struct ExpertCut {
  bool columns = false;  ///< codes lie transposed: runs of bytes hold columns
  std::int64_t first = 0, count = 0;
};

/// A piece of one matrix: where its bytes are in the file, and the view of them.
struct CutBytes {
  decode::EncodedMatrix view;  ///< `codes` is still the matrix's own
  std::uint64_t offset = 0;    ///< of the first byte needed, from the first of the codes
  std::uint64_t bytes = 0;     ///< from there to the last one needed
  std::int64_t lead = 0;       ///< `offset` less that of the byte that view.codes stands for
};
CutBytes cut_of(const decode::EncodedMatrix& whole, const ExpertCut& cut);

/// Pieces of about `bytes` of all present experts together, at least one step: rows that are summed
/// together, or columns of whole groups.
std::vector<ExpertCut> cuts_of(const model::ModelIndex& index, const model::ExpertGroup& group,
                               std::uint64_t bytes);

/// Most bytes that one cut needs of each present expert, as RangeSet::bytes_for takes them.
std::vector<std::uint64_t> bytes_of_cuts(const model::ModelIndex& index,
                                         const model::ExpertGroup& group,
                                         const std::vector<ExpertCut>& cuts);

/// `matrix` without bytes: companions have their shapes alone.
decode::EncodedMatrix shape_view(const model::MatrixRecord& matrix);

}  // namespace vindex::commands
