#include <vindex/blas/blas_library.hpp>
#include <vindex/core/error.hpp>

#include <cstddef>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace vindex::blas {

namespace {

/// What each call under way maps, of OpenBLAS 0.3 on x86-64 (BUFFER_SIZE, common_x86_64.h).
constexpr std::size_t kBufferBytes = std::size_t{128} << 20U;

struct Unmap {
  void operator()(void* memory) const { ::munmap(memory, kBufferBytes); }
};

}  // namespace

void require_buffer_room(std::int32_t callers) {
  std::vector<std::unique_ptr<void, Unmap>> buffers;
  for (std::int32_t i = 0; i < callers; ++i) {
    void* const memory =
        ::mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw OutOfMemory("OpenBLAS's buffers", kBufferBytes * static_cast<std::size_t>(callers));
    }
    buffers.emplace_back(memory);
  }
}

}  // namespace vindex::blas
