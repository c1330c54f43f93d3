// Owns staging memory between units: a buffer that one unit is done with is the next one's, so that
// the system need not clear its pages again for every unit. What is kept is bounded and no part of
// the budget that units share: the runner sets it aside.
#pragma once

#include <vindex/engine/unit_stream.hpp>
#include <vindex/measure/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace vindex::engine {

/// Thread-safe. Buffers may outlive it.
class StagingPool {
 public:
  /// Keeps up to `limit_bytes` of buffers that nobody uses; `make` makes those that are lacking.
  StagingPool(MakeStaging make, std::uint64_t limit_bytes);

  /// A buffer of `bytes`, kept or new; its destructor gives it back. Errors: those of `make`.
  std::unique_ptr<measure::StagingBuffer> take(std::size_t bytes);
  /// Bytes of buffers that nobody uses.
  std::uint64_t kept_bytes() const;

 private:
  struct Shelf;
  class Pooled;
  MakeStaging make_;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace vindex::engine
