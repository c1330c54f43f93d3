// Owns turning the bytes of every element in a range, whatever its width.
#include "swapped_source.hpp"

#include "decode/byte_order.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace vindex::gguf {

namespace {

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  decode::ElementType type = decode::ElementType::kF32;
};

class SwappedSource final : public ByteSource {
 public:
  SwappedSource(std::unique_ptr<ByteSource> inner, const std::vector<Tensor>& tensors)
      : inner_(std::move(inner)) {
    for (const Tensor& tensor : tensors) {
      if (tensor.bytes > 0 && !decode::block_fields(tensor.type).empty()) {
        extents_.push_back({tensor.offset, tensor.offset + tensor.bytes, tensor.type});
      }
    }
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  }

  const std::string& name() const override { return inner_->name(); }
  std::uint64_t size() const override { return inner_->size(); }
  SourceIdentity identity() const override { return inner_->identity(); }
  SourceIdentity identity_at_opening() const override { return inner_->identity_at_opening(); }
  void header_is_read() override { inner_->header_is_read(); }

  void read_many(std::span<const ReadRequest> requests) override {
    inner_->read_many(requests);
    for (const ReadRequest& request : requests) {
      const std::uint64_t end = request.offset + request.into.size();
      auto extent = std::upper_bound(
          extents_.begin(), extents_.end(), request.offset,
          [](std::uint64_t offset, const Extent& other) { return offset < other.end; });
      for (; extent != extents_.end() && extent->begin < end; ++extent) {
        swap(*extent, request);
      }
    }
  }

 private:
  /// Reverses what `request` holds of `extent`; they overlap.
  void swap(const Extent& extent, const ReadRequest& request) {
    const auto block =
        static_cast<std::uint64_t>(decode::element_type_row(extent.type).block_bytes);
    std::uint64_t begin = std::max(extent.begin, request.offset);
    const std::uint64_t end = std::min(extent.end, request.offset + request.into.size());
    if (const std::uint64_t inside = (begin - extent.begin) % block; inside != 0) {
      const std::uint64_t stop = std::min(end, begin - inside + block);
      swap_part(extent.type, begin - inside, begin, stop, request);
      begin = stop;
    }
    const std::uint64_t whole = (end - begin) / block * block;
    decode::swap_block_fields(extent.type, bytes_of(request, begin, whole));
    if (begin + whole < end) {
      swap_part(extent.type, begin + whole, begin + whole, end, request);
    }
  }

  /// Bytes [begin, end) of the block at `block_begin`, read anew as a whole block.
  void swap_part(decode::ElementType type, std::uint64_t block_begin, std::uint64_t begin,
                 std::uint64_t end, const ReadRequest& request) {
    std::vector<std::byte> block(
        static_cast<std::size_t>(decode::element_type_row(type).block_bytes));
    inner_->read(block_begin, block);
    decode::swap_block_fields(type, block);
    std::memcpy(bytes_of(request, begin, end - begin).data(),
                block.data() + static_cast<std::size_t>(begin - block_begin),
                static_cast<std::size_t>(end - begin));
  }

  static std::span<std::byte> bytes_of(const ReadRequest& request, std::uint64_t begin,
                                       std::uint64_t count) {
    return request.into.subspan(static_cast<std::size_t>(begin - request.offset),
                                static_cast<std::size_t>(count));
  }

  std::unique_ptr<ByteSource> inner_;
  std::vector<Extent> extents_;  ///< by position; they do not overlap
};

}  // namespace

std::unique_ptr<ByteSource> make_swapped_source(std::unique_ptr<ByteSource> inner,
                                                const std::vector<Tensor>& tensors) {
  return std::make_unique<SwappedSource>(std::move(inner), tensors);
}

}  // namespace vindex::gguf
