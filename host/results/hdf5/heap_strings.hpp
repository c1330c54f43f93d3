// Owns reading strings of variable length past libhdf5. Its version 1.10 believes the sizes and the
// indices that stand in a global heap, which no checksum covers: one wrong byte there makes it read
// outside its memory or loop for ever (H5HG_read, H5HG__cache_heap_deserialize).
#pragma once

#include "storage.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::results {

/// The strings that `count` references at byte `offset` point to, up to their first NUL. Layout,
/// little-endian (HDF5 File Format Specification 3.0, III.E): reference = length u32, address of a
/// collection u64, index u32; collection = "GCOL", version 1, 3 bytes, size u64, then objects of
/// index u16, reference count u16, 4 bytes, size u64 and the bytes padded to 8; index 0 is free
/// space up to the end. `where` is for messages. Errors: FormatError E-RESULTS-DATA for whatever
/// does not fit.
std::vector<std::string> read_heap_strings(Storage& storage, std::uint64_t offset,
                                           std::uint64_t count, const std::string& where);

/// Whether the bytes just read from `address` begin no heap collection, or one whose objects follow
/// each other up to its end: what libhdf5 walks without looking. For the driver below it.
bool heap_is_sound(Storage& storage, std::uint64_t address,
                   std::span<const std::byte> bytes) noexcept;

}  // namespace vindex::results
