// Owns the slots of a unit of work: which matrix lies where, what is on its way, what has arrived.
#pragma once

#include "source_watch.hpp"

#include "backend/backend.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/plan/work_plan.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/bulk/read_extent.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::engine {

/// Shared with the reader: it lives until the last read under way has ended. Thread-safe.
class UnitSlots : public std::enable_shared_from_this<UnitSlots> {
 public:
  UnitSlots(const ModelViews& models, const WorkUnit& unit, input::BulkReader& reader,
            std::shared_ptr<MemoryLease> lease, std::stop_token stop);

  /// Begins to read into `staging`; nothing is read of a streamed unit.
  void begin(std::unique_ptr<StagingBuffer> staging);

  std::size_t size() const { return matrices_.size(); }
  const std::stop_token& stop_token() const { return stop_; }
  const model::MatrixRecord& record(std::size_t i) const {
    return record_of(models_, unit_.matrices[i]);
  }
  SourceWatch& watch(std::size_t i) {
    return watch_of(static_cast<std::size_t>(unit_.matrices[i].model));
  }
  SourceWatch& watch_of(std::size_t model) { return *watches_[model]; }

  /// Waits for the bytes of matrix i; the view is of the whole matrix. Throws Stopped.
  const decode::EncodedMatrix& wait(std::size_t i);
  /// The bytes of matrix i are needed no more; its slot takes the next one.
  void release(std::size_t i);
  /// What kept matrix i from being read, or null. Once it was used, its files are asked whether
  /// they are still those that were opened: each once for all that the unit has read of it.
  std::exception_ptr error(std::size_t i);
  /// The first error of matrix i stays.
  void set_error(std::size_t i, std::exception_ptr error);

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  struct Matrix {
    std::size_t slot = kNoSlot;
    std::size_t first_shared = 0;  ///< its first place in shared_at_
    std::span<std::byte> memory;   ///< of the slot that holds it
    decode::EncodedMatrix view;
    std::exception_ptr error;
    bool arrived = false, released = false, checked = false;
  };

  void check(std::size_t i, Matrix& matrix);
  bool is_ready(std::size_t i) const { return matrices_[i].arrived && shared_arrived_; }
  bool free_slot_of(Matrix& matrix);
  std::unique_ptr<StagingBuffer> freed_staging();
  void give_back(std::unique_ptr<StagingBuffer> freed);
  input::ByteRange range_of(std::size_t i, const model::TensorPart& part);
  void read_shared();
  void shared_has_arrived(bool failed);
  void read_next();
  std::byte* slot_at(std::size_t i);
  std::size_t slot_bytes(std::size_t i) const;
  void read_matrix(std::size_t i, std::byte* slot);
  std::vector<input::BulkExtent> lay_out(std::size_t i, std::byte* slot);
  void has_arrived(std::size_t i, std::exception_ptr error);

  const ModelViews& models_;
  const WorkUnit& unit_;
  input::BulkReader& reader_;
  std::shared_ptr<MemoryLease> lease_;  // before the memory that it stands for
  std::unique_ptr<StagingBuffer> staging_;
  std::byte* base_ = nullptr;
  std::vector<std::size_t> packed_at_;  ///< of a packed unit: where each matrix lies behind base_
  std::vector<std::byte*> shared_at_;   ///< per shared companion, in the order of the unit
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<SourceWatch>> watches_;  ///< per model
  std::vector<Matrix> matrices_;
  std::vector<std::size_t> free_slots_;
  std::size_t next_ = 0, released_ = 0, under_way_ = 0;
  bool shared_arrived_ = false;
  std::stop_token stop_;
};

}  // namespace vindex::engine
