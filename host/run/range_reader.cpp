// Owns a set of ranges in one buffer: laid out, requested, awaited.
#include "range_reader.hpp"

#include <vindex/core/error.hpp>
#include <vindex/run/work_plan.hpp>

#include <utility>

namespace vindex::run {

RangeSet::RangeSet(shard::BulkReader& reader, const MakeStaging& staging, std::uint64_t bytes)
    : reader_(reader), memory_(staging(static_cast<std::size_t>(bytes))) {
  const std::span<std::byte> all = memory_->bytes();
  const auto address = reinterpret_cast<std::uintptr_t>(all.data());
  const std::size_t skipped =
      (shard::kDirectAlignment - address % shard::kDirectAlignment) % shard::kDirectAlignment;
  base_ = all.data() + skipped;
  room_ = all.size() - skipped;
}

RangeSet::~RangeSet() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !is_under_way_; });
}

void RangeSet::begin(std::vector<shard::ByteRange> ranges) {
  expects(!is_under_way_, "one set of ranges at a time");
  ranges_ = std::move(ranges);
  errors_.assign(ranges_.size(), nullptr);
  placement_ = shard::place_ranges(ranges_, kMergedGap);
  expects(placement_.bytes <= room_, "room for a set of ranges");
  std::vector<shard::BulkExtent> extents;
  for (const shard::Placement::Piece& piece : placement_.pieces) {
    extents.push_back({piece.range, base_ + piece.at, true});
  }
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
    const shard::ByteRange& range = ranges_[i];
    try {
      range.source->read(range.offset,
                         {base_ + placement_.at[i], static_cast<std::size_t>(range.bytes)});
    } catch (const std::exception&) {
      errors_[i] = std::current_exception();
    }
  }
}

std::uint64_t RangeSet::bytes_for(const std::vector<std::uint64_t>& sizes) {
  std::uint64_t bytes = shard::kDirectAlignment;
  for (const std::uint64_t size : sizes) {
    bytes += shard::placed_bytes_at_most(size, kMergedGap);
  }
  return bytes;
}

}  // namespace vindex::run
