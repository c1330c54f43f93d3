// Owns the way of a unit's bytes from its files to a back end: matrices are read in the order of
// their use into a few slots of one staging buffer, and a slot that the back end releases takes the
// next matrix. A unit of hundreds of matrices so needs the memory of a few.
//
// Why nothing waits for ever. (1) A unit gets all its memory at once, before anything of it is read
// (MemoryLease, first come first served), so no unit waits for memory while it holds some. (2) Its
// slots are its own: a read of matrix k waits only for the release of earlier matrices of the same
// unit. (3) The unit has at least as many slots as the back end may hold unreleased when it asks
// for the next matrix (BackendLimits::held_inputs), so whenever the back end waits for matrix k, a
// slot was free for it and its read is under way. (4) A read under way ends, by bytes, by an error
// or by stop(), and each of them wakes who waits. Units that no consumer has taken yet fill their
// slots and pause without holding anyone up.
#pragma once

#include "loaded_unit.hpp"
#include "source_watch.hpp"

#include "backend/backend.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/plan/work_plan.hpp"
#include "input/bulk/bulk_reader.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <stop_token>
#include <vector>

namespace vindex::engine {

class UnitSlots;

/// The bytes of one unit, on their way. Inputs may be used by one thread at a time.
class UnitStream final : public ReadingUnit {
 public:
  /// Begins to read `work` (of `models`, planned by plan_rows()) through `reader` into memory of
  /// `staging`. `lease` covers work.memory_bytes; its staging part is given back as soon as every
  /// matrix was released, the rest at the end. Everything referred to must outlive the stream and,
  /// if it ends early, the reads under way. Errors: OutOfMemory.
  UnitStream(const ModelViews& models, const WorkUnit& work, const MakeStaging& staging,
             input::BulkReader& reader, std::shared_ptr<MemoryLease> lease);
  ~UnitStream() override;

  std::size_t size() const;
  /// The input of unit.matrices[i], or null where it could not be opened (a streamed unit whose
  /// companions cannot be read; see error()). Its slab functions wait for the bytes. A matrix that
  /// cannot be read gives zeros, so that its neighbours of a batch are worked on, and an error();
  /// one that was released before is read again, slab by slab.
  MatrixInput* input(std::size_t i);
  /// Waits until matrix i has arrived or failed; throws Stopped.
  void wait(std::size_t i);
  /// What kept matrix i from being read, or null. Final once its slab functions have returned:
  /// asked then, before its numbers are believed, it also reports a file that changed meanwhile.
  std::exception_ptr error(std::size_t i) const;
  /// Throws error(i) where there is one.
  void require_read(std::size_t i) const;

  /// The files of model `model`, for work that reads pieces by itself.
  SourceWatch& watch(std::size_t model);

 private:
  std::shared_ptr<UnitSlots> slots_;
  std::vector<std::unique_ptr<MatrixInput>> inputs_;
};

}  // namespace vindex::engine
