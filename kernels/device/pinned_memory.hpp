// Owns a piece of pinned host memory: registered large pages where the driver takes them, else the
// driver's own.
#pragma once

#include "handles.hpp"

#include <cstddef>
#include <memory>

namespace vindex::kernels {

struct PinnedMemoryDeleter {
  bool is_registered = false;
  void operator()(void* memory) const noexcept;
};
using PinnedMemory = std::unique_ptr<void, PinnedMemoryDeleter>;

/// At least `bytes`, aligned to a page, for every device. Errors: OutOfMemory.
PinnedMemory pinned_memory(std::size_t bytes);

}  // namespace vindex::kernels
