// Owns pinned host memory for encoded bytes. Pinning costs about as much as copying, so buffers are
// kept and handed out again instead of being freed after each batch.
#pragma once

#include "handles.hpp"

#include <vindex/measure/backend.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace vindex::kernels {

/// Thread-safe. Must outlive the buffers it hands out.
class PinnedPool {
 public:
  std::unique_ptr<measure::StagingBuffer> take(std::size_t bytes) {
    return std::make_unique<Buffer>(*this, take_block(bytes), bytes);
  }

 private:
  struct Block {
    std::unique_ptr<void, PinnedDeleter> memory;
    std::size_t bytes = 0;
  };

  class Buffer final : public measure::StagingBuffer {
   public:
    Buffer(PinnedPool& pool, Block block, std::size_t bytes)
        : pool_(pool), block_(std::move(block)), bytes_(bytes) {}
    ~Buffer() override { pool_.put_back(std::move(block_)); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::span<std::byte> bytes() override {
      return {static_cast<std::byte*>(block_.memory.get()), bytes_};
    }

   private:
    PinnedPool& pool_;
    Block block_;
    std::size_t bytes_;
  };

  Block take_block(std::size_t bytes) {
    constexpr std::size_t kGranule = 4U << 20U;  // sizes within 4 MiB of each other share blocks
    const std::size_t wanted =
        (bytes + kGranule - 1) / kGranule * kGranule + (bytes == 0 ? kGranule : 0);
    {
      const std::lock_guard lock(mutex_);
      for (auto block = kept_.begin(); block != kept_.end(); ++block) {
        if (block->bytes >= wanted && block->bytes <= 2 * wanted) {
          Block found = std::move(*block);
          kept_.erase(block);
          return found;
        }
      }
      // Sizes have changed: what is kept for the old ones would come on top of the memory budget.
      kept_.clear();
    }
    Block fresh;
    void* memory = nullptr;
    const cudaError_t status = cudaHostAlloc(&memory, wanted, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw OutOfMemory("pinned staging memory", wanted);
    }
    check(status);
    fresh.memory.reset(memory);
    fresh.bytes = wanted;
    return fresh;
  }

  void put_back(Block block) {
    constexpr std::size_t kKeptBlocks = 4;  // as many as are in flight between readers and lanes
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(block));
    if (kept_.size() > kKeptBlocks) {
      kept_.erase(kept_.begin());
    }
  }

  std::mutex mutex_;
  std::vector<Block> kept_;
};

}  // namespace vindex::kernels
