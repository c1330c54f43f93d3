// Owns what `vindex show` and the end of `vindex compare` report of a file of pairs: their spread
// over (block, role) or over layers, apart by how both sides are stored, and the text and the JSON
// of that.
#pragma once
#include "model/model_index.hpp"
#include "model/selection/selection.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::commands {

/// The compared pairs of one (block, role), or of one layer, and of one pair of encodings.
struct ComparedGroup {
  model::Block block = model::Block::kOther;  ///< of roles
  std::string role;
  std::int32_t layer = -1;  ///< of layers
  std::string encoding_a, encoding_b;
  std::int64_t pairs = 0;       ///< all of them
  std::int64_t compared = 0;    ///< of them measured
  std::int64_t same_bits = 0;   ///< of these
  std::int64_t changed = 0;     ///< of these, those whose weights differ
  std::string worst;            ///< tensor of A with the largest relative error, with its slice
  std::vector<double> numbers;  ///< medians and extremes over pairs; NaN where none has a value
};

struct Compared {
  std::string path, model_a, model_b, backend;
  std::string state;  ///< as RunStatus::state
  std::int64_t pairs = 0, compared = 0;
  std::int64_t unpaired_a = 0, unpaired_b = 0;
  bool delta = false;                 ///< the spectra of differences are known
  std::int64_t subspace = 0;          ///< directions whose overlap is known; 0: none
  bool by_layer = false;              ///< groups are layers
  std::vector<ComparedGroup> groups;  ///< in the order of layers, or of blocks and roles
};

/// Reads the state of a comparison at `path`: the published file, its parts, or both. Errors:
/// MissingInputError where there is neither; FormatError as validate_file(), also where it is of
/// another schema; UsageError E-SELECTION where no pair is in `selection`.
Compared read_compared(const std::string& path, const model::Selection& selection = {},
                       bool by_layer = false);

/// Leaves the `count` groups with the largest number `by` (a member of a group in compared_json();
/// empty: the error over that of their kind), the smallest where `is_ascending`; those without one
/// are left out. Errors: UsageError E-COLUMN.
void keep_top_groups(Compared& compared, std::size_t count, const std::string& by,
                     bool is_ascending);

/// The groups as a table of at most `width` columns, and the matrices without a partner.
std::string compared_text(const Compared& compared, std::size_t width);
/// The same as one JSON document, schema "vindex-compare-summary/1", null for NaN.
std::string compared_json(const Compared& compared);

}  // namespace vindex::commands
