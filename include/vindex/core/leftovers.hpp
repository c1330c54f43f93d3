// Owns the temporary names that files and folders have until they are whole, and what killed
// processes leave under them.
#pragma once

#include <string>

namespace vindex {

/// A new name beside `path` that says which process of which machine uses it, and when that began:
/// numbers of processes are used again.
std::string temporary_name(const std::string& path);

/// Removes what killed processes left under temporary names of the file or folder `path` (a folder
/// with all that it holds), and of no other:
/// those of this machine at once, those of others after a day.
void remove_leftovers_of(const std::string& path);

/// The same for every file in `folder`.
void remove_leftovers_in(const std::string& folder);

}  // namespace vindex
