// Owns the steps of an edit: which matrices it is of, the direction that a deletion takes from
// each, the arrays that settings name and what sides they must have, and what is left on disk: a
// model or an adapter, and a patch.
#pragma once

#include "edit_model.hpp"

#include "engine/units/source_watch.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstdint>
#include <optional>
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

struct EditArrays {
  std::optional<std::vector<double>> direction;  ///< of a file
  std::optional<Matrix> keys, values;            ///< columns; of `insert` one
  std::optional<Matrix> covariance, probe;
};

/// Reads them, each into at most `max_bytes`, once the headers of all fit all `targets`: a file of
/// other sides is refused unread, whatever its size. Errors: those of NpyMatrix; FormatError
/// E-EDIT-SHAPE.
EditArrays read_arrays(const EditSettings& settings, const Records& targets,
                       std::uint64_t max_bytes);

/// A model whose edit is computed.
struct EditedModel {
  const input::ModelFiles& files;
  const model::ModelIndex& index;
  const Records& targets;       ///< beside EditResult::matrices
  write::ScratchFile* scratch;  ///< of new bytes; null: no model is written
  const std::vector<NewPart>& parts;
};

/// Whether `output` is to be one file: it ends in .safetensors or .gguf.
bool names_a_file(const std::string& output);

/// Before the work: whether the outputs can be made under their names. Errors: UsageError
/// E-OUTPUT-KIND, E-USAGE; OutputError E-OUTPUT-SOURCE, E-OUTPUT-EXISTS, E-OUTPUT-NOT-EMPTY.
void require_outputs(const EditSettings& settings, const input::ModelFiles& files);

/// Likewise: whether an adapter that is asked for can hold edits of `targets`. Errors: those of
/// Experts::place().
void require_adaptable(const EditSettings& settings, const input::ModelFiles& files,
                       const model::ModelIndex& index, const Records& targets);

/// Writes them; the patch takes its name last, so that it never stands for a model that is not
/// there. Sets `result.stopped` where a stop was asked for, then nothing appears.
void write_outputs(const EditedModel& model, EditResult& result);

}  // namespace vindex::edit
