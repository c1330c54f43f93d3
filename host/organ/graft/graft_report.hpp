// Owns what a graft says, for people and for programs.
#pragma once

#include "graft.hpp"

#include <cstddef>
#include <string>

namespace vindex::organ {

/// The report for people, lines of at most `width` columns.
std::string graft_text(const GraftReport& report, std::size_t width);
/// The same as one document of schema "organ-graft/1".
std::string graft_json(const GraftReport& report);

}  // namespace vindex::organ
