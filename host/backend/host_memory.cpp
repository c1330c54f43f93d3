// Owns what back ends get of host memory: the MatrixInput over bytes that are there already, whose
// slabs are views, and staging buffers.
#include "backend.hpp"

#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <cstdlib>
#include <sys/mman.h>

namespace vindex {

namespace {

class MemoryInput final : public MatrixInput {
 public:
  MemoryInput(const decode::EncodedMatrix& matrix, bool transposed, std::uint64_t sign_flip_key)
      : matrix_(matrix), transposed_(transposed), sign_flip_key_(sign_flip_key) {}

  const decode::Encoding& encoding() const override { return *matrix_.encoding; }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return transposed_; }
  std::uint64_t sign_flip_key() const override { return sign_flip_key_; }
  bool in_memory() const override { return true; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return decode::row_slab(matrix_, first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return decode::column_slab(matrix_, first, count);
  }

 private:
  decode::EncodedMatrix matrix_;
  bool transposed_;
  std::uint64_t sign_flip_key_;
};

}  // namespace

std::unique_ptr<MatrixInput> make_memory_input(const decode::EncodedMatrix& matrix, bool transposed,
                                               std::uint64_t sign_flip_key) {
  expects(matrix.encoding != nullptr, "make_memory_input: a matrix has an encoding");
  expects(matrix.first_row == 0 && matrix.first_col == 0, "make_memory_input: the whole matrix");
  return std::make_unique<MemoryInput>(matrix, transposed, sign_flip_key);
}

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

}  // namespace vindex
