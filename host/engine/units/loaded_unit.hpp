// Owns what a pool of workers and what reads ranges need to know of a unit of work.
#pragma once

#include "backend/backend.hpp"
#include "engine/plan/work_plan.hpp"
#include "input/bulk/bulk_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

namespace vindex::engine {

/// A unit handed to a consumer.
class LoadedUnit {
 public:
  explicit LoadedUnit(const WorkUnit& work) : unit(&work) {}
  virtual ~LoadedUnit() = default;
  LoadedUnit(const LoadedUnit&) = delete;
  LoadedUnit& operator=(const LoadedUnit&) = delete;
  /// Wakes those waiting for bytes of this unit, with Stopped, and asks those who compute with them
  /// to end. From any thread.
  void stop() { stop_.request_stop(); }
  std::stop_token stop_token() const { return stop_.get_token(); }
  const WorkUnit* unit;

 private:
  std::stop_source stop_;
};

/// Host memory for encoded bytes. Errors: OutOfMemory.
using MakeStaging = std::function<std::unique_ptr<StagingBuffer>(std::size_t bytes)>;

/// One with what ranges of files are read with (range_reader.hpp); both outlive it.
class ReadingUnit : public LoadedUnit {
 public:
  ReadingUnit(const WorkUnit& work, input::BulkReader& reader, MakeStaging staging)
      : LoadedUnit(work), reader_(reader), staging_(std::move(staging)) {}
  input::BulkReader& reader() { return reader_; }
  std::unique_ptr<StagingBuffer> take_staging(std::uint64_t bytes) {
    return staging_(static_cast<std::size_t>(bytes));
  }

 private:
  input::BulkReader& reader_;
  MakeStaging staging_;
};

}  // namespace vindex::engine
