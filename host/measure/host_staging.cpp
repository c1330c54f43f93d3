#include <vindex/core/error.hpp>
#include <vindex/measure/host_staging.hpp>

#include <cstdlib>

namespace vindex::measure {

namespace {

constexpr std::size_t kPageBytes = 4096;

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
