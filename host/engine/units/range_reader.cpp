// Owns a set of ranges in one buffer: laid out, requested, awaited.
#include "range_reader.hpp"

#include "core/process/stop.hpp"
#include "engine/plan/work_plan.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <utility>

namespace vindex::engine {

std::span<std::byte> aligned(std::span<std::byte> memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.subspan((input::kDirectAlignment - address % input::kDirectAlignment) %
                        input::kDirectAlignment);
}

std::vector<input::BulkExtent> extents_of(const input::Placement& placement, std::byte* base) {
  std::vector<input::BulkExtent> extents;
  for (const input::Placement::MergedRange& piece : placement.pieces) {
    extents.push_back({piece.range, base + piece.at, true});
  }
  return extents;
}

RangeSet::RangeSet(ReadingUnit& unit, std::uint64_t bytes)
    : reader_(unit.reader()), memory_(unit.take_staging(bytes)) {
  const std::span<std::byte> all = aligned(memory_->bytes());
  base_ = all.data();
  room_ = all.size();
}

RangeSet::~RangeSet() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !is_under_way_; });
}

void RangeSet::begin(std::vector<input::ByteRange> ranges) {
  expects(!is_under_way_, "one set of ranges at a time");
  ranges_ = std::move(ranges);
  errors_.assign(ranges_.size(), nullptr);
  placement_ = input::place_ranges(ranges_, kMergedGap);
  expects(placement_.bytes <= room_, "room for a set of ranges");
  const std::vector<input::BulkExtent> extents = extents_of(placement_, base_);
  has_failed_ = false;
  is_under_way_ = !extents.empty();
  if (extents.empty()) {
    return;
  }
  reader_.submit(extents, [this](const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    has_failed_ = error != nullptr;
    is_under_way_ = false;
    arrived_.notify_all();
  });
}

void RangeSet::wait() {
  {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !is_under_way_; });
  }
  if (!has_failed_) {
    return;
  }
  has_failed_ = false;
  // One by one, so that the trouble is reported of the right range.
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const input::ByteRange& range = ranges_[i];
    try {
      range.source->read(range.offset,
                         {base_ + placement_.at[i], static_cast<std::size_t>(range.bytes)});
    } catch (const std::exception&) {
      errors_[i] = std::current_exception();
    }
  }
}

std::uint64_t RangeSet::bytes_for(const std::vector<std::uint64_t>& sizes) {
  std::uint64_t bytes = input::kDirectAlignment;
  for (const std::uint64_t size : sizes) {
    bytes += input::placed_bytes_at_most(size, kMergedGap);
  }
  return bytes;
}

void read_in_turns(ReadingUnit& unit, std::uint64_t bytes, std::size_t turns,
                   const std::function<std::vector<input::ByteRange>(std::size_t)>& ranges_of,
                   const std::function<void(std::size_t, const RangeSet&)>& take) {
  RangeSet first(unit, bytes);
  RangeSet second(unit, bytes);
  RangeSet* const sets[] = {&first, &second};
  std::size_t begun = 0;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    throw_if_stopped(unit.stop_token());
    for (; begun < std::min(turns, turn + 2); ++begun) {
      sets[begun % 2]->begin(ranges_of(begun));
    }
    sets[turn % 2]->wait();
    take(turn, *sets[turn % 2]);
  }
}

}  // namespace vindex::engine
