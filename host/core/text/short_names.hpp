// Owns how the names of tensors of one list are shortened for people: without what says nothing,
// and without what all of them share.
#pragma once

#include "text_table.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vindex {

/// Names without a leading `model.` or `model.layers.`, without `.weight`, and (unless
/// `keep_shared`) without the parts (between dots) that all of them begin or end with; each keeps a
/// part at least. Whole where two different names would become equal.
struct ShortNames {
  std::vector<std::string> names;
  /// "blk.*.weight": what was taken from all of them; empty: nothing was.
  std::string shared;
};
ShortNames short_names(std::span<const std::string> names, bool keep_shared = false);

/// A line for below the table, "names: blk.*.weight"; nothing where nothing is shared.
std::string shared_text(const ShortNames& names, std::size_t width);

/// table_text() of rows whose first column are names below a heading, which become short ones where
/// the table takes more than `width` columns otherwise, and lose what they share where it still
/// does.
std::string names_table_text(std::vector<std::vector<std::string>> rows,
                             const std::vector<TextColumn>& columns, std::size_t width);

}  // namespace vindex
