// Owns which files of this machine a process may read: all of them, or those beneath some folders
// alone, for a run that serves somebody who may name models but not this machine's files. What a
// model leads to counts, not what it is called: links, shards of an index, sources of a recipe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace vindex {

/// From now on open_to_read() and expect_readable_place() refuse whatever does not lie beneath one
/// of the folders `roots`; with none, everything. To be called once, before threads begin. Errors:
/// ConfigurationError E-READ-BOUNDS (78) for a root that is not absolute or cannot be opened.
void read_only_beneath(const std::vector<std::string>& roots);

/// Whether read_only_beneath() was called: nothing of other machines is read then either.
bool reading_is_bounded();

/// The one gate of files that are read: a descriptor as of ::open() with O_RDONLY, O_CLOEXEC and
/// `flags`, or -1 with errno. Where reading is bounded, links are followed first and the file is
/// then opened from its root without following any, so that nothing can change in between: by
/// openat2() (RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS), or where the kernel has none or forbids it,
/// component by component with O_NOFOLLOW. Errors: SystemError E-READ-OUTSIDE (77) for a file that
/// lies, links followed, beneath no root; where it would be is not told.
int open_to_read(const std::string& path, int flags = 0);

/// For folders that are listed and links that are examined. Errors: as open_to_read(); nothing is
/// said of what is not there.
void expect_readable_place(const std::string& path);

namespace testing {
/// Takes the bounds away again, and opens by components where `by_components`, as on a kernel
/// without openat2().
void forget_reading_bounds();
void open_by_components(bool by_components);
}  // namespace testing

}  // namespace vindex
