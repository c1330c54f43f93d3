// Owns what failed in a storage while libhdf5 read or wrote it: the library's own report knows no
// errno, and a medium that cannot be read is no damaged file.
#pragma once

namespace vindex::results {

/// Throws, once, the error of a transfer that failed under the library on this thread since the
/// last file was opened: what Storage::rethrow_failure() throws, or std::bad_alloc where there was
/// no memory for it. Nothing where none failed.
void rethrow_failed_transfer();

/// What happened before is of another file.
void forget_failed_transfer() noexcept;

}  // namespace vindex::results
