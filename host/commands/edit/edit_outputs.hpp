// Owns what is left on disk: a model or an adapter, and a patch.
#pragma once

#include "targets.hpp"

#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <string>
#include <vector>

namespace vindex::edit {

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
