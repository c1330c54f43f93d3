// Owns what the program knows of the terminal it talks to.
#pragma once

#include <cstddef>

namespace vindex::apps {

/// Columns of the terminal behind `descriptor`, asked anew at every call, so that a resized window
/// is followed. Where it is no terminal or does not say: those that COLUMNS names, else 80.
std::size_t text_width(int descriptor);

/// True where one line of `descriptor` can be written again and again: a terminal that knows how to
/// erase.
bool is_live(int descriptor);

}  // namespace vindex::apps
