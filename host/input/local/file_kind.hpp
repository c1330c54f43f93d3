// Owns telling files apart by content: the two containers, and what commonly lies where one of them
// is expected (pointers of version control, error pages, pickles, archives), each refused by name.
#pragma once

#include "file_source.hpp"

namespace vindex::input {

enum class FileKind { kGguf, kSafetensors };

/// The container that `source` holds. Errors: FormatError E-FILE-* naming what it is instead. A
/// file that is nothing known counts as what its name says.
FileKind detect_container(ByteSource& source);

/// For JSON files (index, config): refuses what is no text at all, or a pointer or page.
void refuse_other_than_json(ByteSource& source);

}  // namespace vindex::input
