// Owns what both containers share when a model is put together from files.
#pragma once
#include "model_files.hpp"
#include "model_store.hpp"

#include "core/text/name_index.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vindex::input {

/// Opens one member; the header is the caller's business.
Shard open_shard(ModelStore& store, const std::string& name);

/// The names of all tensors, in their order.
std::vector<std::string_view> tensor_names(const ModelFiles& model);

/// Errors: FormatError E-TENSOR-TWICE where two shards hold a tensor of the same name. `index` is
/// over tensor_names(model).
void refuse_doubled_tensors(const ModelFiles& model, const NameIndex& index);

/// Throws FormatError E-FOLDER-SEVERAL listing the models of the store.
[[noreturn]] void throw_several_models(const ModelStore& store,
                                       const std::vector<std::string>& models);

/// One warning naming files of the folder that are not part of the model.
void warn_of_others(const std::vector<std::string>& others, ModelFiles& model);

/// One warning for each folder that shards are links into (MemberState::foreign_folder).
void warn_of_links(ModelStore& store, ModelFiles& model);

/// Names for a message, escaped, the first ten.
std::string join_names(const std::vector<std::string>& names);

}  // namespace vindex::input
