// Owns the bytes of a chunk as HDF5's filters shuffle, deflate and fletcher32 would leave them,
// made without the library: it runs them on one thread, and spends most of deflate's time on the
// low bytes of mantissas, in which there is nothing to find. Any HDF5 reader undoes them. Formats:
// HDF5 File Format Specification 3.0, IV.A.2.l "filter pipeline"; RFC 1950 and 1951.
//
// packed_rows.hpp packs on every core.
#pragma once

#include "hdf5.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::results {

/// `values` is a whole chunk of elements of `element_bytes` each. The low bytes of all elements
/// come together, then the next ones; where a plane of bytes is noise it is stored, else deflated.
/// Thread-safe. Errors: OutOfMemory.
std::vector<std::byte> pack_chunk(std::span<const std::byte> values, std::size_t element_bytes);

/// Fletcher's checksum over big-endian 16-bit words as HDF5 defines it (an odd last byte is a high
/// byte; sums modulo 65535 that are never 0 but for zeros alone).
std::uint32_t fletcher32(std::span<const std::byte> bytes);

/// Writes `values`, all rows of a dataset of `count` rows, in chunks of `step`; each is packed
/// here. For columns of tables: one chunk, mostly.
template <typename T>
void write_packed_values(h5::Dataset& dataset, std::uint64_t count, std::uint64_t step,
                         std::span<const T> values) {
  const std::uint64_t width = count > 0 ? values.size() / count : 0;
  std::vector<T> padded;
  for (std::uint64_t first = 0; first < count; first += step) {
    std::span<const T> chunk = values.subspan(first * width, std::min(step, count - first) * width);
    dataset.note_values(std::as_bytes(chunk));
    if (chunk.size() < step * width) {
      padded.assign(chunk.begin(), chunk.end());
      padded.resize(step * width);
      chunk = padded;
    }
    dataset.write_packed(first, pack_chunk(std::as_bytes(chunk), sizeof(T)));
  }
}

}  // namespace vindex::results
