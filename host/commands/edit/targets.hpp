// Owns which matrices an edit is of, and the direction that a deletion takes from each.
#pragma once

#include "edit_settings.hpp"

#include "backend/backend.hpp"
#include "engine/units/source_watch.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::edit {

using Records = std::vector<const model::MatrixRecord*>;

/// The matrices that --tensor and --slice, or --tensors and --layers, name; row order. Errors:
/// UsageError E-TENSOR, E-SLICE, E-SELECTION.
Records find_targets(const model::ModelIndex& index, const EditSettings& settings);

/// The matrix of a patch's entry. A name that the model does not have may differ from one by
/// leading parts ("model.layers..." for "layers..."), if only one fits. `patch` names the file.
/// Errors: FormatError E-PATCH-TENSOR (65) where there is none, ConfigurationError E-PATCH-SHAPE.
const model::MatrixRecord& target_of(const model::ModelIndex& index, const PatchEntry& entry,
                                     const std::string& patch);

/// Refuses a deletion without a side from a square matrix, where a direction fits both and one of
/// them is wrong. A singular vector takes the same rank-1 part on either. Errors: UsageError
/// E-EDIT-SIDE.
void require_side(const Records& targets, const EditSettings& settings);

/// How many matrices the stack of `matrix` has; -1: it is none.
std::int64_t stack_size(const model::ModelIndex& index, const model::MatrixRecord& matrix);

/// Refuses a direction of another length than the side of `matrix` that it is taken from; `text`
/// says what it is. Errors: FormatError E-EDIT-SHAPE.
void require_length(const model::MatrixRecord& matrix, const EditSettings& settings,
                    std::int64_t length, const std::string& text);

/// A unit vector and what it is.
struct ChosenDirection {
  Direction direction;
  std::string text;
};

/// The direction that `settings` names for `matrix`. A feature is row F of the gate_proj of the
/// matrix's own MLP (layer, block, expert). `backend` finds singular vectors. Errors: UsageError
/// E-EDIT-FEATURE, E-EDIT-DIRECTION; ConfigurationError E-BUDGET; those of require_length().
ChosenDirection choose_direction(engine::SourceWatch& watch, const model::ModelIndex& index,
                                 const model::MatrixRecord& matrix, const EditSettings& settings,
                                 const std::vector<double>* file, Backend* backend);

}  // namespace vindex::edit
