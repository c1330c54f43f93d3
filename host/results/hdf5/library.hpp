// Owns what all calls of libhdf5 share: its lock, checking of return codes, type identifiers, text
// attributes.
#pragma once

#include "handle.hpp"
#include "types.hpp"

#include <vindex/error.hpp>

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>

namespace vindex::results::h5 {

/// Held around every call of libhdf5, which is built without threads in mind: whatever threads ask,
/// one of them is in the library at a time. Functions of ours that hold it call each other.
class LibraryLock {
 public:
  LibraryLock() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> lock_;
};

/// Opens the library's quiet mode on this thread: no error stack on stderr, no plugins.
void quiet();

/// Throws what kept the library's last call from its work, where that is no fault of the file: what
/// failed in the storage under it, or Error E-MEMORY (70) where it found no memory.
void rethrow_cause();

/// Throws std::bad_alloc where a file cannot be opened for want of memory: libhdf5 1.10 takes a
/// quarter of a MiB for it and crashes where it does not get it.
void require_room_for_a_file();

/// `id` unless the library refused; then the cause, or an error. Writing: internal (70); reading:
/// FormatError.
inline std::int64_t written(std::int64_t result, const std::string& what) {
  if (result < 0) {
    rethrow_cause();
    throw Error(ExitCode::kInternal, "E-HDF5", "the HDF5 library failed to write " + what);
  }
  return result;
}

inline std::int64_t was_read(std::int64_t result, const std::string& label,
                             const std::string& what) {
  if (result < 0) {
    rethrow_cause();
    throw FormatError("E-RESULTS-HDF5", printable(label),
                      "cannot read " + printable(what) + " (damaged, or no results file)");
  }
  return result;
}

/// What is said of text and of numbers that are not those of their digest.
inline constexpr const char* kOtherThanDigest =
    "not what its digest is of: the file is damaged, or another program changed it, which then has "
    "to remove or renew the digest";

/// The text of an open attribute; `where` names it. Errors: FormatError where it is no string.
std::string read_text_attribute(std::int64_t attribute, const std::string& label,
                                const std::string& where);
void write_attribute(hid_t object, const std::string& where, const std::string& name, hid_t stored,
                     hid_t memory, const Handle& space, const void* data);
void write_text_attribute(hid_t object, const std::string& where, const std::string& name,
                          const std::string& value);
/// The object at `path` of a file that is written.
Handle object_at(hid_t file, const std::string& path);

Handle space_of(const Shape& shape);
Handle scalar_space();

/// Bytes that a dataset takes in the file. Throws what failed in the storage under it.
std::uint64_t storage_size(hid_t dataset);

/// In memory (native byte order).
hid_t memory_type(Type type);
/// In the file: little-endian, whatever the host; vlen UTF-8 strings. The library's own to close.
hid_t file_type(Type type);

}  // namespace vindex::results::h5
