// Owns what tensor names mean: the table of families (architectures and their conventions) and the
// table of name patterns. docs/models/families.md shows how to add one.
// Patterns: `{layer}` stands for `layers.N`, `blk.N`, `blocks.N` or `h.N`; `{expert}` and `#` for a
// number; `(a|b)` for either; a final `.*` for any rest (tried after every exact row). Wrappers
// (`model.`, `language_model.`) and `.weight` are not written.
#pragma once

#include "tensor_name.hpp"

#include "model/model_index.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vindex::model {

/// How a tensor of this name is laid out.
enum class Layout : std::uint8_t {
  kMatrix,                 ///< 2-D out x in
  kTransposed,             ///< 2-D in x out
  kExpertStack,            ///< 3-D [expert, out, in]
  kExpertStackTransposed,  ///< 3-D [expert, in, out]
  kHeadStack,              ///< 3-D [head, rows, cols], as stored
  kLookupTable,            ///< numbers that index something: never a weight
};

/// What a name means.
struct Meaning {
  Block block = Block::kOther;
  std::string_view role;  ///< empty: the last part of the name
  Layout layout = Layout::kMatrix;
  bool has_expert = false;  ///< the first number outside the layer's is an expert
};

/// The names of one dialect under one family's convention. Threads may share one.
class NameTable {
 public:
  /// `convention` as known_family() gives it; rows of other conventions are left out.
  NameTable(Dialect dialect, std::string_view convention);

  /// The meaning of `name`, or null where the table has none.
  const Meaning* find(const TensorName& name) const;

 private:
  std::unordered_map<std::string, Meaning> meanings_;
};

/// The convention of the family called `architecture` (model_type or general.architecture; '-' and
/// '_' are the same), or nothing where the table does not know it.
std::optional<std::string_view> known_family(Dialect dialect, std::string_view architecture);

/// True for `norm`, `input_layernorm`, `ln_1`, `attn_q_a_norm`.
bool is_norm_name(std::string_view last);

/// A row of the tables, which are pure data (family_tables.cpp).
struct NameRow {
  std::string_view pattern;
  Block block;
  std::string_view role;  ///< empty: the last part of the name
  Layout layout = Layout::kMatrix;
  std::string_view convention{};  ///< empty: every family
};

struct FamilyRow {
  std::string_view convention;     ///< empty: the shared rows say everything
  std::string_view architectures;  ///< with spaces between
};

std::span<const NameRow> name_rows(Dialect dialect);
std::span<const FamilyRow> family_rows(Dialect dialect);

/// Where names get their meaning from.
struct Naming {
  Dialect dialect = Dialect::kHuggingFace;
  const NameTable* table = nullptr;  ///< null: generic mode, every block is `other`
  bool layout_declared = false;      ///< the architecture names its layout of fused experts
};

}  // namespace vindex::model
