// Owns a range of a file that passes by once, from its first byte to its last, in windows. What the
// page cache holds of it is copied when it is asked for, by who asks, piece by piece into memory
// that stays in his core's cache; windows of the rest are read past the page cache and ahead of
// him. So nothing is copied twice, no thread waits for another where there is nothing to wait for,
// and memory is a few windows whatever the length.
#pragma once

#include "range_reader.hpp"

#include "input/bulk/read_extent.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vindex::engine {

/// True where the codes of `matrix` can pass by: rows one behind the other, of no product, in a
/// local file. A store is asked for what it serves best, larger ranges.
bool can_pass_by(const input::ModelFiles& files, const model::MatrixRecord& matrix);

/// Used by one thread at a time.
class ReadAheadWindow {
 public:
  /// Bytes that are read together.
  static constexpr std::uint64_t kWindowBytes = 4ULL << 20U;

  /// Begins to read. Memory is the unit's, which must outlive it, as must the range's source.
  /// Errors: OutOfMemory.
  ReadAheadWindow(ReadingUnit& unit, const input::ByteRange& range);

  /// Bytes [first, first + count) of the range, until the next call. Calls may come in any order,
  /// but only ascending ones find their windows read. Errors: as BulkReader::submit(); Stopped.
  const std::byte* at(std::uint64_t first, std::uint64_t count);

  /// Memory for the windows of a range of `bytes`, at most.
  static std::uint64_t window_memory(std::uint64_t bytes);

 private:
  /// In use, and ahead of it.
  static constexpr std::uint64_t kWindows = 3;

  struct Window {
    std::uint64_t number = ~std::uint64_t{0};
    bool is_resident = false;                 ///< copied when it is asked for
    std::unique_ptr<RangeSet> set = nullptr;  ///< made when the first window needs it
  };

  std::uint64_t window_count() const;
  input::ByteRange window_range(std::uint64_t number) const;
  Window& open(std::uint64_t number);
  void begin(Window& window, std::uint64_t number);
  static const std::byte* wait(Window& window);

  ReadingUnit& unit_;
  input::ByteRange range_;
  std::array<Window, kWindows> windows_;
  std::unique_ptr<std::byte[]> piece_;  ///< what is copied, and what reaches over windows
  std::uint64_t piece_bytes_ = 0;
};

}  // namespace vindex::engine
