// Owns interleaved ranges: sets of ranges on their way from files to memory, the next set read
// while the one before is worked on. For rows whose matrices are needed side by side, a piece of
// each at a time (Reading::kPieces); memory and reader are the unit's.
#pragma once

#include "loaded_unit.hpp"

#include "backend/backend.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/bulk/placement.hpp"
#include "input/bulk/read_extent.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace vindex::engine {

/// `memory` from its first byte on that direct reads may begin at.
std::span<std::byte> aligned(std::span<std::byte> memory);
/// The reads that fill `placement`, which begins at `base`.
std::vector<input::BulkExtent> extents_of(const input::Placement& placement, std::byte* base);

/// Memory for one set and the reads into it. One thread begins and waits.
class RangeSet {
 public:
  /// Errors: OutOfMemory.
  RangeSet(ReadingUnit& unit, std::uint64_t bytes);
  /// Waits for what is under way.
  ~RangeSet();
  RangeSet(const RangeSet&) = delete;
  RangeSet& operator=(const RangeSet&) = delete;

  /// Begins to read `ranges`; the bytes of the set before are gone. Nothing may be under way.
  void begin(std::vector<input::ByteRange> ranges);
  /// Waits; errors()[i] is what kept range i from being read, or null.
  void wait();
  const std::vector<std::exception_ptr>& errors() const { return errors_; }
  /// The first byte of range i.
  const std::byte* at(std::size_t i) const { return base_ + placement_.at[i]; }

  /// Memory that a set of ranges of these sizes needs at most.
  static std::uint64_t bytes_for(const std::vector<std::uint64_t>& sizes);

 private:
  input::BulkReader& reader_;
  std::unique_ptr<StagingBuffer> memory_;
  std::byte* base_ = nullptr;
  std::size_t room_ = 0;
  std::vector<input::ByteRange> ranges_;
  input::Placement placement_;
  std::vector<std::exception_ptr> errors_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  bool is_under_way_ = false;
  bool has_failed_ = false;
};

/// Calls take(turn, set) for every turn in order, the ranges_of() it in `set` and those of the next
/// turn on their way. Takes memory of two sets of `bytes`, RangeSet::bytes_for() the largest.
void read_in_turns(ReadingUnit& unit, std::uint64_t bytes, std::size_t turns,
                   const std::function<std::vector<input::ByteRange>(std::size_t turn)>& ranges_of,
                   const std::function<void(std::size_t turn, const RangeSet& set)>& take);

}  // namespace vindex::engine
