// Owns choosing matrices: --layers, --blocks, --roles and --tensors of the command line; and what
// is said of what stays unmeasured: matrices that cannot be decoded, and tensors with many sides
// that are no matrices.
#pragma once
#include "model/model_index.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vindex::model {

/// A regular expression over names, checked and compiled once.
class NamePattern;

/// Which matrices are selected. An empty list asks for all; filled ones must all hold.
struct Selection {
  std::vector<std::pair<std::int32_t, std::int32_t>> layers = {};  ///< closed ranges; -1: no layer
  std::vector<Block> blocks = {};
  std::vector<std::string> roles = {};
  /// Against the whole logical name; null: all.
  std::shared_ptr<const NamePattern> tensors = nullptr;
  std::string tensors_text = {};  ///< of the pattern, as given
};

/// Reads the texts of the command line; empty ones ask for all. `layers` "0,1,15-20" (-1: what is
/// in no layer), `blocks` and `roles` lists of names as the results file spells them, `tensors` an
/// ECMAScript regular expression that must match the WHOLE logical name. Errors: UsageError naming
/// the option and the part that is wrong; for the expression also where it is longer than 1024
/// bytes, refers back, looks around, or compiles to more than 8 MiB. Matching takes time linear in
/// the name (RE2).
Selection parse_selection(const std::string& layers, const std::string& blocks,
                          const std::string& roles, const std::string& tensors);

/// Whether `selection` wants a matrix there, as far as layers, blocks and roles go.
bool wants(const Selection& selection, std::int32_t layer, Block block, const std::string& role);

/// Indices into `index.matrices` of what `selection` wants, ascending.
std::vector<std::int64_t> select(const ModelIndex& index, const Selection& selection);

/// Whether the pattern is one of the whole name.
bool name_matches(const NamePattern& pattern, const std::string& name);

/// "0-3,7 and -1 (no layer)": `layers` as --layers takes them; of more than 24 ranges the first
/// ones and the last.
std::string layers_text(const std::set<std::int32_t>& layers);

/// What of `selection` names nothing in `index`, one line for each such part of a list: what there
/// is instead, what was probably meant. Empty where every part names something, which does not mean
/// that they do so together.
std::vector<std::string> unmatched_parts(const ModelIndex& index, const Selection& selection);

/// Why `selection` selects nothing of `index`, one line without the model's name.
std::string empty_selection_text(const ModelIndex& index, const Selection& selection);

/// "12 tensors of rank 3 or more stand unmeasured: 10 convolution, 2 rank 4, for example NAME", or
/// nothing where every such tensor is measured (a stack of experts is). Vectors and biases are not
/// counted: nobody misses them.
std::string unmeasured_text(const ModelIndex& index);

/// Why the weights of `matrix` cannot be had; empty where they can.
std::string undecodable_text(const MatrixRecord& matrix);

}  // namespace vindex::model
