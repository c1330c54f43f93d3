#include <vindex/core/error.hpp>
#include <vindex/measure/host_staging.hpp>

#include <cstdlib>
#include <sys/mman.h>

namespace vindex::measure {

namespace {

constexpr std::size_t kPageBytes = 4096;
/// From here on large pages are asked for: the first touch of small ones costs as much as copying.
constexpr std::size_t kLargeBytes = 4U << 20U;

class HostStaging final : public StagingBuffer {
 public:
  explicit HostStaging(std::size_t bytes)
      : size_(bytes),
        memory_(static_cast<std::byte*>(std::aligned_alloc(
            kPageBytes,
            (bytes / kPageBytes + (bytes % kPageBytes != 0 || bytes == 0 ? 1 : 0)) * kPageBytes))) {
    if (memory_ == nullptr) {
      throw OutOfMemory("a staging buffer", bytes);
    }
    if (bytes >= kLargeBytes) {
      (void)::madvise(memory_, bytes, MADV_HUGEPAGE);  // a wish: without them it is only slower
    }
  }
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  ~HostStaging() override { std::free(memory_); }
  std::span<std::byte> bytes() override { return {memory_, size_}; }

 private:
  std::size_t size_;
  std::byte* memory_;
};

}  // namespace

std::unique_ptr<StagingBuffer> make_host_staging(std::size_t bytes) {
  return std::make_unique<HostStaging>(bytes);
}

}  // namespace vindex::measure
