// Owns the temporary names of files that are being written, and clearing those that killed
// processes left behind.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace vindex {

/// A new name beside `path` that says which process of which machine uses it, and when that began:
/// numbers of processes are used again.
std::string temporary_name(const std::string& path);

/// Removes what killed processes left under temporary names of the file or folder `path`, and of no
/// other: those of this machine at once, those of others after a day.
void remove_stale_temporaries_of(const std::string& path);

/// The same for several outputs of one folder, which is listed once.
void remove_stale_temporaries_of(std::span<const std::string> paths);

/// The same for every output in `folder`.
void remove_stale_temporaries_in(const std::string& folder);

/// What remove_stale_temporaries_in() would remove.
std::vector<std::string> stale_temporaries_in(const std::string& folder);

}  // namespace vindex
