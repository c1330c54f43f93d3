// Owns the driver by which libhdf5 reads and writes a Storage.
#pragma once

#include "storage.hpp"

#include <cstdint>

namespace vindex::results {

/// The HDF5 driver (an hid_t) whose driver info is a `Storage*`; registered once per process.
std::int64_t storage_driver();

/// Throws, once, the error of a transfer that failed under the library on this thread since the
/// last file was opened: what Storage::rethrow_failure() throws, or std::bad_alloc where there was
/// no memory for it. Nothing where none failed.
void rethrow_failed_transfer();

/// What happened before is of another file.
void forget_failed_transfer() noexcept;

}  // namespace vindex::results
