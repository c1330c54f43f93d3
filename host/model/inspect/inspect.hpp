// Owns what `vindex inspect` says about a model.
#pragma once

#include "core/text/text_table.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstddef>
#include <limits>
#include <string>

namespace vindex::model {

/// One JSON document, schema "vindex-inspect/1", ending in a newline; `tensor_list` only where
/// `with_tensor_list`. Always valid UTF-8: a name that is not is shown as printable() does.
std::string inspect_json(const input::ModelFiles& files, const ModelIndex& index,
                         bool with_tensor_list);

/// Columns that the text may take. The list of tensors goes to other programs where there is no
/// terminal: there its lines are whole, however long.
struct InspectWidths {
  std::size_t tables = kUsualWidth;
  std::size_t list = std::numeric_limits<std::size_t>::max();
};

/// The same for people: aligned columns, names printable(), ending in a newline. Where the list
/// does not fit, its blocks and roles are left out, then its names shortened in the middle.
std::string inspect_text(const input::ModelFiles& files, const ModelIndex& index,
                         bool with_tensor_list, const InspectWidths& widths = {});

/// What is inspected, as on the command line.
struct InspectSettings {
  std::string model, model_config;
  bool reshape_out = false, lora = false;
  bool tensor_list = false, json = false;
  bool verify = false;  ///< read every file whole and compare its SHA-256 with the published one
};

/// Opens the model and says either. Errors: those of input::open_model(), index_model() and
/// input::verify_files().
std::string inspect_model(const InspectSettings& settings, const InspectWidths& widths);

}  // namespace vindex::model
