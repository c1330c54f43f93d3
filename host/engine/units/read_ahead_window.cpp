// Owns what can pass by, which windows are under way, and putting what was asked for together from
// them.
#include "read_ahead_window.hpp"

#include "stored_parts.hpp"

#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstring>
#include <exception>

namespace vindex::engine {

bool can_pass_by(const input::ModelFiles& files, const model::MatrixRecord& matrix) {
  return matrix.product == nullptr &&
         decode::code_layout(matrix.encoding.scheme) == decode::CodeLayout::kRows &&
         source_of(files, matrix.codes.tensor).descriptor() >= 0;
}

ReadAheadWindow::ReadAheadWindow(ReadingUnit& unit, const input::ByteRange& range)
    : unit_(unit), range_(range) {
  if (range.bytes > 0) {
    (void)open(0);
  }
}

std::uint64_t ReadAheadWindow::window_count() const {
  return ceil_divide(range_.bytes, kWindowBytes);
}

input::ByteRange ReadAheadWindow::window_range(std::uint64_t number) const {
  const std::uint64_t first = number * kWindowBytes;
  return {range_.source, range_.offset + first, std::min(kWindowBytes, range_.bytes - first)};
}

std::uint64_t ReadAheadWindow::window_memory(std::uint64_t bytes) {
  const std::uint64_t windows = std::min(kWindows, ceil_divide(bytes, kWindowBytes));
  return windows * RangeSet::bytes_for({std::min(bytes, kWindowBytes)});
}

const std::byte* ReadAheadWindow::at(std::uint64_t first, std::uint64_t count) {
  expects(first <= range_.bytes && count <= range_.bytes - first, "bytes within their range");
  throw_if_stopped(unit_.stop_token());
  const std::uint64_t end = first + count;
  if (count > 0 && first / kWindowBytes == (end - 1) / kWindowBytes) {
    Window& window = open(first / kWindowBytes);
    if (!window.is_resident) {
      return wait(window) + first % kWindowBytes;
    }
  }
  if (count > piece_bytes_) {
    piece_bytes_ = 0;
    piece_ = nullptr;
    piece_ = std::make_unique_for_overwrite<std::byte[]>(count);  // not zeroed: it takes as long
    piece_bytes_ = count;
  }
  std::byte* into = piece_.get();
  while (first < end) {
    const std::uint64_t number = first / kWindowBytes;
    const std::uint64_t some = std::min(end, (number + 1) * kWindowBytes) - first;
    Window& window = open(number);
    if (window.is_resident) {
      unit_.reader().copy({range_.source, range_.offset + first, some}, into);
    } else {
      std::memcpy(into, wait(window) + first % kWindowBytes, some);
    }
    first += some;
    into += some;
  }
  return piece_.get();
}

/// Window `number`, it and those behind it begun.
ReadAheadWindow::Window& ReadAheadWindow::open(std::uint64_t number) {
  const std::uint64_t end = std::min(window_count(), number + kWindows);
  for (std::uint64_t next = number; next < end; ++next) {
    Window& window = windows_[next % kWindows];
    if (window.number != next) {
      begin(window, next);
    }
  }
  return windows_[number % kWindows];
}

void ReadAheadWindow::begin(Window& window, std::uint64_t number) {
  if (window.set != nullptr) {
    window.set->wait();  // of a window that was passed over
  }
  const input::ByteRange range = window_range(number);
  window.is_resident = unit_.reader().is_resident(range);
  if (!window.is_resident) {
    if (window.set == nullptr) {
      const std::uint64_t most = std::min(range_.bytes, kWindowBytes);
      window.set = std::make_unique<RangeSet>(unit_, RangeSet::bytes_for({most}));
    }
    window.set->begin({range});
  }
  window.number = number;
}

/// The first byte of a window that is read ahead.
const std::byte* ReadAheadWindow::wait(Window& window) {
  window.set->wait();
  if (const std::exception_ptr& error = window.set->errors().front(); error != nullptr) {
    std::rethrow_exception(error);
  }
  return window.set->at(0);
}

}  // namespace vindex::engine
