// Owns laying out a unit's matrices in slots, requesting their ranges, and the states of a slot.
#include "unit_slots.hpp"

#include "range_reader.hpp"
#include "stored_parts.hpp"

#include "core/process/stop.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include <vindex/error.hpp>

#include <cstring>
#include <stop_token>
#include <utility>

namespace vindex::engine {

namespace {

void keep_first(std::exception_ptr& kept, std::exception_ptr error) {
  if (kept == nullptr) {
    kept = std::move(error);
  }
}

}  // namespace

UnitSlots::UnitSlots(const ModelViews& models, const WorkUnit& unit, input::BulkReader& reader,
                     std::shared_ptr<MemoryLease> lease, std::stop_token stop)
    : models_(models),
      unit_(unit),
      reader_(reader),
      lease_(std::move(lease)),
      matrices_(unit.matrices.size()),
      stop_(std::move(stop)) {
  for (const ModelView& model : models) {
    watches_.push_back(std::make_unique<SourceWatch>(*model.files));
  }
  for (std::size_t slot = unit.slots; slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
  if (unit.packed) {
    packed_at_.push_back(0);
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      packed_at_.push_back(packed_at_.back() + staged_bytes(record(i)).slot);
    }
  }
}

void UnitSlots::begin(std::unique_ptr<StagingBuffer> staging) {
  staging_ = std::move(staging);
  const std::span<std::byte> memory = aligned(staging_->bytes());
  const std::uint64_t slots = unit_.packed ? packed_at_.back() : unit_.slots * unit_.slot_bytes;
  expects(unit_.shared_bytes + slots <= memory.size(), "staging memory for every slot of a unit");
  base_ = memory.data();
  read_shared();
  read_next();
}

const decode::EncodedMatrix& UnitSlots::wait(std::size_t i) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop_, [&] { return is_ready(i); });
  throw_if_stopped(stop_);
  Matrix& matrix = matrices_[i];
  if (!matrix.checked) {
    matrix.checked = true;
    check(i, matrix);
  }
  return matrix.view;
}

void UnitSlots::release(std::size_t i) {
  std::unique_ptr<StagingBuffer> freed;
  bool next = false;
  {
    const std::lock_guard lock(mutex_);
    Matrix& matrix = matrices_[i];
    if (matrix.released) {
      return;
    }
    matrix.released = true;
    ++released_;
    next = matrix.arrived && free_slot_of(matrix);
    freed = freed_staging();
  }
  give_back(std::move(freed));
  if (next) {
    read_next();
  }
}

std::exception_ptr UnitSlots::error(std::size_t i) {
  {
    const std::lock_guard lock(mutex_);
    const Matrix& matrix = matrices_[i];
    const bool used = matrix.checked || matrix.released || unit_.streamed;
    if (matrix.error != nullptr || !used) {
      return matrix.error;
    }
  }
  const model::MatrixRecord& matrix = record(i);
  std::exception_ptr error = watch(i).error(matrix.codes.tensor);
  for (const model::CompanionPart& companion : matrix.companions) {
    if (error == nullptr) {
      error = watch(i).error(companion.part.tensor);
    }
  }
  const std::lock_guard lock(mutex_);
  keep_first(matrices_[i].error, std::move(error));
  return matrices_[i].error;
}

void UnitSlots::set_error(std::size_t i, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  keep_first(matrices_[i].error, std::move(error));
}

/// Looks into what has arrived. Group indices that name no group become an error and zeros, so that
/// the neighbours of a batch are worked on.
void UnitSlots::check(std::size_t i, Matrix& matrix) {
  try {
    check_companions(record(i), matrix.view);
  } catch (const Error&) {
    keep_first(matrix.error, std::current_exception());
    const auto indices = matrix.view.companion(decode::CompanionRole::kGroupIndex)->bytes;
    std::memset(base_ + (indices.data() - base_), 0, indices.size());
  }
}

/// True where there is a next matrix for it.
bool UnitSlots::free_slot_of(Matrix& matrix) {
  free_slots_.push_back(std::exchange(matrix.slot, kNoSlot));
  return next_ < matrices_.size() && !stop_.stop_requested();
}

/// The staging memory, once nothing of it is or will be used.
std::unique_ptr<StagingBuffer> UnitSlots::freed_staging() {
  const bool over = released_ == matrices_.size() && under_way_ == 0 && shared_arrived_;
  return over ? std::move(staging_) : nullptr;
}

void UnitSlots::give_back(std::unique_ptr<StagingBuffer> freed) {
  if (freed != nullptr) {
    freed.reset();
    lease_->give_back(unit_.staging_bytes);
  }
}

input::ByteRange UnitSlots::range_of(std::size_t i, const model::TensorPart& part) {
  return {&source_of(watch(i).files(), part.tensor), part.offset, part.bytes};
}

/// The small companions of every matrix, in one pass over the files.
void UnitSlots::read_shared() {
  std::vector<input::ByteRange> ranges;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    matrices_[i].first_shared = ranges.size();
    for (const model::CompanionPart& companion : record(i).companions) {
      if (shares_memory(unit_, companion)) {
        ranges.push_back(range_of(i, companion.part));
      }
    }
  }
  const input::Placement placement = input::place_ranges(ranges, kMergedGap);
  expects(placement.bytes <= unit_.shared_bytes, "room for the companions of a unit");
  for (const std::uint64_t at : placement.at) {
    shared_at_.push_back(base_ + at);
  }
  if (ranges.empty()) {
    shared_arrived_ = true;
    return;
  }
  reader_.submit(extents_of(placement, base_),
                 [self = shared_from_this()](const std::exception_ptr& error) {
                   self->shared_has_arrived(error != nullptr);
                 });
}

void UnitSlots::shared_has_arrived(bool failed) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    for (const model::CompanionPart& companion : record(i).companions) {
      if (!shares_memory(unit_, companion)) {
        continue;
      }
      std::byte* const into = shared_at_[at++];
      watch(i).was_read(companion.part.tensor);
      if (failed) {  // one by one, so that the error is reported of the right matrix
        try {
          read_part(watch(i), companion.part, {into, companion.part.bytes});
        } catch (...) {
          set_error(i, std::current_exception());
        }
      }
    }
  }
  std::unique_ptr<StagingBuffer> freed;
  {
    const std::lock_guard lock(mutex_);
    shared_arrived_ = true;
    freed = freed_staging();
    changed_.notify_all();
  }
  give_back(std::move(freed));
}

/// Fills free slots with the next matrices.
void UnitSlots::read_next() {
  while (true) {
    std::size_t i = 0;
    std::byte* slot = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (stop_.stop_requested() || free_slots_.empty() || next_ == matrices_.size()) {
        return;
      }
      i = next_++;
      matrices_[i].slot = free_slots_.back();
      free_slots_.pop_back();
      ++under_way_;
      slot = slot_at(i);
    }
    read_matrix(i, slot);
  }
}

/// Where the bytes of matrix i go, which has a slot. Of a packed unit, slot i is that of matrix i:
/// none is used twice.
std::byte* UnitSlots::slot_at(std::size_t i) {
  return unit_.packed ? base_ + packed_at_[i]
                      : base_ + unit_.shared_bytes + matrices_[i].slot * unit_.slot_bytes;
}

std::size_t UnitSlots::slot_bytes(std::size_t i) const {
  return unit_.packed ? packed_at_[i + 1] - packed_at_[i] : unit_.slot_bytes;
}

void UnitSlots::read_matrix(std::size_t i, std::byte* slot) {
  std::vector<input::BulkExtent> extents;
  try {
    extents = lay_out(i, slot);
  } catch (...) {
    has_arrived(i, std::current_exception());
    return;
  }
  reader_.submit(extents, [self = shared_from_this(), i](const std::exception_ptr& error) {
    self->has_arrived(i, error);
  });
}

/// Where the parts of matrix i go in `slot`, and its view over them.
std::vector<input::BulkExtent> UnitSlots::lay_out(std::size_t i, std::byte* slot) {
  const model::MatrixRecord& matrix = record(i);
  std::vector<input::ByteRange> ranges = {range_of(i, matrix.codes)};
  for (const model::CompanionPart& companion : matrix.companions) {
    if (!shares_memory(unit_, companion)) {
      ranges.push_back(range_of(i, companion.part));
    }
  }
  const input::Placement placement = input::place_ranges(ranges, kMergedGap);
  expects(placement.bytes <= slot_bytes(i), "a slot that holds every matrix of its unit");
  std::vector<std::span<const std::byte>> companions;
  std::size_t own = 1;
  std::size_t shared = matrices_[i].first_shared;
  for (const model::CompanionPart& companion : matrix.companions) {
    const std::byte* at =
        shares_memory(unit_, companion) ? shared_at_[shared++] : slot + placement.at[own++];
    companions.emplace_back(at, companion.part.bytes);
  }
  matrices_[i].view = encoded_view(matrix, slot + placement.at[0], companions);
  matrices_[i].memory = {slot, static_cast<std::size_t>(placement.bytes)};
  return extents_of(placement, slot);
}

void UnitSlots::has_arrived(std::size_t i, std::exception_ptr error) {
  watch(i).was_read(record(i).codes.tensor);
  for (const model::CompanionPart& companion : record(i).companions) {
    watch(i).was_read(companion.part.tensor);
  }
  if (error != nullptr) {
    std::memset(matrices_[i].memory.data(), 0, matrices_[i].memory.size());
  }
  std::unique_ptr<StagingBuffer> freed;
  bool next = false;
  {
    const std::lock_guard lock(mutex_);
    Matrix& matrix = matrices_[i];
    if (error != nullptr) {
      keep_first(matrix.error, std::move(error));
    }
    matrix.arrived = true;
    --under_way_;
    next = matrix.released && free_slot_of(matrix);
    freed = freed_staging();
    changed_.notify_all();
  }
  give_back(std::move(freed));
  if (next) {
    read_next();
  }
}

}  // namespace vindex::engine
