// Owns an edit of a model from settings to files: which matrices, which factors, what it did, and
// the outputs: a model with the tensors touched encoded again and every other byte copied, or a
// LoRA adapter; a patch beside either. All is computed before anything is written.
#pragma once

#include "edit_settings.hpp"

#include <cstddef>
#include <string>

namespace vindex::edit {

/// Errors: UsageError (64) E-TENSOR, E-SLICE, E-EDIT-*, E-OUTPUT-KIND, E-USAGE for numbers that are
/// not finite; FormatError (65) for arrays and patches that are malformed or do not fit,
/// E-PATCH-TENSOR for a patch of a matrix that is not there; OutputError (73) E-OUTPUT-SOURCE for
/// an output that is read here; ConfigurationError (78) E-ENCODE-TYPE for an encoding that cannot
/// be written, E-PATCH-BASE for a patch of other or unknown weights, E-PATCH-SHAPE,
/// E-EDIT-SINGULAR, E-BUDGET; those of open_model(), index_model(), rewrite_model(), Backend.
EditResult edit_model(const EditSettings& settings);

/// The document "vindex-edit/1" (docs/commands/edit.md).
std::string edit_json(const EditResult& result);

/// For people, within `width` columns.
std::string edit_text(const EditResult& result, std::size_t width);

}  // namespace vindex::edit
