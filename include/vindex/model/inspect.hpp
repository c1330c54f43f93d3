// Owns what `vindex inspect` says about a model.
#pragma once

#include <vindex/model/model_index.hpp>
#include <vindex/shard/model_files.hpp>

#include <string>

namespace vindex::model {

/// One JSON document, schema "vindex-inspect/1", ending in a newline; `tensor_list` only where
/// `with_tensor_list`. Always valid UTF-8: a name that is not is shown as printable() does.
std::string inspect_json(const shard::ModelFiles& files, const ModelIndex& index,
                         bool with_tensor_list);

/// The same for people: aligned columns, names printable(), ending in a newline.
std::string inspect_text(const shard::ModelFiles& files, const ModelIndex& index,
                         bool with_tensor_list);

}  // namespace vindex::model
