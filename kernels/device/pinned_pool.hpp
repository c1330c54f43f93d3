// Owns pinned host memory for encoded bytes. Pinning costs about as much as copying, so buffers are
// kept and handed out again instead of being freed after each batch. What is kept and what is out
// are together never more than was out at once, so that a budget for buffers bounds the pool.
//
// Memory is taken in large pages, touched by several threads and then registered with the driver:
// cudaHostAlloc takes its pages one by one while it holds the driver's lock, and launches of other
// threads wait meanwhile. Source: PyTorch's CUDACachingHostAllocator,
// `pinned_use_cuda_host_register` and `pinned_num_register_threads`.
#pragma once

#include "pinned_memory.hpp"

#include "backend/backend.hpp"
#include "core/integers.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace vindex::kernels {

/// Thread-safe. Must outlive the buffers it hands out.
class PinnedPool {
 public:
  /// At least `bytes`, to a multiple of 4 MiB. Errors: OutOfMemory.
  std::unique_ptr<StagingBuffer> take(std::size_t bytes) {
    return std::make_unique<Buffer>(*this, take_block(bytes), bytes);
  }

  /// Bytes that are pinned, handed out or kept.
  std::size_t pinned_bytes() const {
    const std::lock_guard lock(mutex_);
    return out_bytes_ + kept_bytes_;
  }

 private:
  struct Block {
    PinnedMemory memory;
    std::size_t bytes = 0;
  };

  class Buffer final : public StagingBuffer {
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
        ceil_divide(bytes, kGranule) * kGranule + (bytes == 0 ? kGranule : 0);
    {
      const std::lock_guard lock(mutex_);
      const auto fits = std::find_if(kept_.begin(), kept_.end(), [&](const Block& block) {
        return block.bytes >= wanted && block.bytes <= wanted + wanted / 8;
      });
      if (fits != kept_.end()) {
        Block found = std::move(*fits);
        kept_.erase(fits);
        kept_bytes_ -= found.bytes;
        count_out(found.bytes);
        return found;
      }
      // Room for the fresh block, oldest first.
      count_out(wanted);
      free_excess();
    }
    try {
      return {pinned_memory(wanted), wanted};
    } catch (...) {
      const std::lock_guard lock(mutex_);
      out_bytes_ -= wanted;
      throw;
    }
  }

  void put_back(Block block) {
    const std::lock_guard lock(mutex_);
    out_bytes_ -= block.bytes;
    kept_bytes_ += block.bytes;
    kept_.push_back(std::move(block));
  }

  void count_out(std::size_t bytes) {
    out_bytes_ += bytes;
    max_out_bytes_ = std::max(max_out_bytes_, out_bytes_);
  }

  void free_excess() {
    while (!kept_.empty() && out_bytes_ + kept_bytes_ > max_out_bytes_) {
      kept_bytes_ -= kept_.front().bytes;
      kept_.erase(kept_.begin());
    }
  }

  mutable std::mutex mutex_;
  std::vector<Block> kept_;  ///< oldest first
  std::size_t kept_bytes_ = 0;
  std::size_t out_bytes_ = 0;
  std::size_t max_out_bytes_ = 0;
};

}  // namespace vindex::kernels
