// Owns what `vindex show` and the ends of `vindex experts`, `cka`, `activations` and `routing`
// print of their files, and `vindex show --top` of all of them: rows of numbers beside what noise
// gives, by what their kind says is to be shown.
#pragma once

#include "top_rows.hpp"

#include <cstddef>
#include <string>

namespace vindex::report {

/// "OUT.h5: 12 of 12 layers measured (complete), MODEL".
std::string cells_headline(const results::ViewHead& view);
/// The rows as a table of at most `width` columns, values beside what noise gives. Of `top` (what
/// keep_top() made of it) the rows alone, with the names of their tensors.
std::string cells_text(const results::ResultsView& view, std::size_t width,
                       const TopRows& top = {});
}  // namespace vindex::report
