// Owns the columns of what rows are of and how they ended, from which kinds of files choose.
#pragma once

#include "columns.hpp"

namespace vindex::results {

inline constexpr MemberColumn kTensorColumn = {"tensor", "logical name of the tensor in the model",
                                               &StoredRow::tensor};
inline constexpr MemberColumn kSliceColumn = {"slice", "index within a stacked tensor, -1 if none",
                                              &StoredRow::slice};
inline constexpr MemberColumn kLayerColumn = {
    "layer", "layer number in the tensor's name, -1 if none", &StoredRow::layer};
inline constexpr MemberColumn kExpertColumn = {"expert", "expert number, -1 if none",
                                               &StoredRow::expert};
inline constexpr MemberColumn kBlockColumn = {
    "block", "part of the transformer that the matrix belongs to", &StoredRow::block};
inline constexpr MemberColumn kRoleColumn = {"role", "what the matrix does in its block",
                                             &StoredRow::role};
inline constexpr MemberColumn kRowsColumn = {"rows", "outputs of the matrix", &StoredRow::rows};
inline constexpr MemberColumn kColsColumn = {"cols", "inputs of the matrix", &StoredRow::cols};
inline constexpr MemberColumn kEncodingColumn = {"encoding", "how the weights are stored",
                                                 &StoredRow::encoding};
inline constexpr MemberColumn kStatusColumn = {"status", "outcome of the measurement",
                                               &StoredRow::status};
inline constexpr MemberColumn kReasonColumn = {
    "reason", "why a value is missing or the row was not measured", &StoredRow::reason};

/// Of files whose rows are cells of a layer.
inline constexpr MemberColumn kCellMembers[] = {kTensorColumn,   kLayerColumn,  kBlockColumn,
                                                kRoleColumn,     kRowsColumn,   kColsColumn,
                                                kEncodingColumn, kStatusColumn, kReasonColumn};

}  // namespace vindex::results
