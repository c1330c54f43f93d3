// Owns the writing of a compressed dataset chunk by chunk, packed on every core.
#pragma once

#include "results/hdf5/chunk_pack.hpp"
#include "results/hdf5/hdf5.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace vindex::results {

/// Rows per chunk of a dataset with `row_bytes` per row: about half a mebibyte, so that a chunk
/// fits the library's default cache of one.
std::uint64_t rows_per_chunk(std::uint64_t row_bytes);

inline std::uint64_t rows_per_chunk(std::uint64_t row_bytes) {
  constexpr std::uint64_t kChunkBytes = 512U << 10U;
  return std::clamp<std::uint64_t>(kChunkBytes / std::max<std::uint64_t>(row_bytes, 1), 1, 4096);
}

/// Writes `count` rows in chunks of `step` rows, `elements` values each (zeros behind the last row
/// unless `fetch` fills them). Rows are fetched and written here, one chunk after the other;
/// between them every core packs one.
template <typename T, typename Fetch>
void write_packed_rows(h5::File& file, h5::Dataset& dataset, std::uint64_t count,
                       std::uint64_t step, std::uint64_t elements, const Fetch& fetch) {
  constexpr std::uint64_t kMaxBytes = 64U << 20U;  // of all chunks on their way
  const std::uint64_t fitting = kMaxBytes / std::max<std::uint64_t>(elements * sizeof(T), 1);
  // Where the system has no thread to give, a chunk is packed when it is its turn.
  constexpr auto kWhereThereIsAThread = std::launch::async | std::launch::deferred;
  const std::uint64_t window = std::clamp<std::uint64_t>(
      std::min<std::uint64_t>(std::thread::hardware_concurrency(), fitting), 1, 32);
  std::deque<std::pair<std::uint64_t, std::future<std::vector<std::byte>>>> packing;
  const auto write_first = [&] {
    dataset.write_packed(packing.front().first, packing.front().second.get());
    packing.pop_front();
    file.check_storage();
  };
  for (std::uint64_t first = 0; first < count; first += step) {
    if (packing.size() == window) {
      write_first();
    }
    std::vector<T> block(elements, T{});
    fetch(first, std::span(block));
    const std::uint64_t real = std::min(step, count - first) * (elements / step);
    dataset.note_values(std::as_bytes(std::span(block).first(real)));
    // Not handed over but copied: where there is no thread it is taken a second time.
    const auto pack = [block = std::make_shared<const std::vector<T>>(std::move(block))] {
      return pack_chunk(std::as_bytes(std::span(*block)), sizeof(T));
    };
    packing.emplace_back(first, std::async(kWhereThereIsAThread, pack));
  }
  while (!packing.empty()) {
    write_first();
  }
}

}  // namespace vindex::results
