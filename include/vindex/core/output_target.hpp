// Owns the question whether a translation (an export, decoded weights) may take the place of what
// lies under its name.
#pragma once

#include <string>

namespace vindex {

/// Returns where nothing lies at `path`, or a regular file that `replace` allows to be replaced;
/// what is no regular file is left to whoever opens it. Errors: OutputError E-OUTPUT-EXISTS for a
/// file without `replace`; E-OUTPUT-RESULTS for an HDF5 file, with `replace` too: measurements
/// cost hours, a translation seconds.
void require_free_target(const std::string& path, bool replace);

}  // namespace vindex
