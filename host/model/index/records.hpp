// Owns turning logical tensors into rows: which are matrices, their slices, orientation and byte
// ranges, which bytes of which stored tensors each is made of, and the order of rows in the results
// (layer, block, role, expert, slice, name); and the model's overall numbers: what the tensors
// show, what the configuration claims, and warnings where the two differ. The tensors are believed;
// no claim is ever divided by.
#pragma once

#include "model/config/model_config.hpp"
#include "model/families/families.hpp"
#include "model/logical_tensor.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::model {

/// Fills `index.tensors`, `index.matrices` (in the results' order) and warnings about layouts from
/// `logicals` (in order of name). Errors: FormatError where a count does not fit 63 bits or the
/// model has more matrices than any model could.
void build_records(const input::ModelFiles& files, const std::vector<LogicalTensor>& logicals,
                   const Naming& naming, const IndexOptions& options, ModelIndex& index);

/// Sets codes and companions of `matrix`, slice `slice` (-1: all) of the `slices` of `logical`;
/// `unsupported` where they do not divide, cannot be decoded or contradict the shape.
void set_parts(const input::ModelFiles& files, const LogicalTensor& logical, std::int64_t slice,
               std::int64_t slices, MatrixRecord& matrix);

/// Positions of `rows` in the results' order.
std::vector<std::uint32_t> row_order(const std::vector<const MatrixRecord*>& rows);

using MatrixIterator = std::vector<MatrixRecord>::iterator;

/// Puts rows into the results' order.
void sort_matrices(MatrixIterator begin, MatrixIterator end);

/// Fills `index.shape` from `index.matrices` and `index.tensors`, adding W-KEY-CONTRADICTS warnings
/// that name both numbers.
void derive_shape(const input::ModelFiles& files, Claims& claims, const QuantClaims& quant,
                  ModelIndex& index);

}  // namespace vindex::model
