// Owns streaming a tensor's bytes with its replaced parts encoded on the way.
#include "tensor_copy.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/rewrite_matrix.hpp>

#include <algorithm>

namespace vindex::write {
namespace {

constexpr std::uint64_t kTensorCopyBytes = std::uint64_t{4} << 20U;
/// Weights decoded and encoded at a time: 8 MiB of float32.
constexpr std::int64_t kChunkWeights = std::int64_t{2} << 20U;

void copy_range(shard::ByteSource& source, std::uint64_t offset, std::uint64_t begin,
                std::uint64_t end, std::vector<std::byte>& buffer, const TensorSink& sink) {
  buffer.resize(std::max<std::size_t>(buffer.size(), std::min(kTensorCopyBytes, end - begin)));
  while (begin < end) {
    const auto now = static_cast<std::size_t>(std::min(kTensorCopyBytes, end - begin));
    source.read(offset + begin, std::span(buffer).first(now));
    sink(begin, std::span<const std::byte>(buffer).first(now));
    begin += now;
  }
}

}  // namespace

TensorCopy::TensorCopy(const shard::ModelFiles& model, const std::vector<EditPart>& parts,
                       const std::atomic<int>* stop)
    : model_(model), parts_(parts), stop_(stop) {}

void TensorCopy::run(std::size_t index, const TensorSink& to) {
  const TensorSink sink = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    if (stop_ != nullptr && *stop_ != 0) {
      throw Stopped();
    }
    to(offset, bytes);
  };
  const shard::StoredTensor& tensor = model_.tensors[index];
  auto part = std::lower_bound(
      parts_.begin(), parts_.end(), index,
      [](const EditPart& candidate, std::size_t wanted) { return candidate.tensor < wanted; });
  std::uint64_t position = 0;
  for (; part != parts_.end() && part->tensor == index; ++part) {
    stream(tensor, position, part->begin, sink);
    if (part->bytes != nullptr) {
      sink(part->begin, part->bytes->bytes);
    } else {
      encode(tensor, *part->weights, sink);
    }
    position = part->end;
  }
  stream(tensor, position, tensor.bytes, sink);
}

void TensorCopy::stream(const shard::StoredTensor& tensor, std::uint64_t begin, std::uint64_t end,
                        const TensorSink& sink) {
  shard::ByteSource& source = *model_.shards[static_cast<std::size_t>(tensor.shard)].source;
  copy_range(source, tensor.offset, begin, end, buffer_, sink);
}

void TensorCopy::encode(const shard::StoredTensor& tensor, const NewWeights& weights,
                        const TensorSink& sink) {
  const TensorRows shape = rows_of(tensor);
  const decode::Encoding encoding = decode::plain_encoding(tensor.type);
  const std::string where = "tensor \"" + excerpt(tensor.name) + "\"";
  shard::ByteSource& source = *model_.shards[static_cast<std::size_t>(tensor.shard)].source;
  const auto rows = static_cast<std::int64_t>(weights.values.size()) / shape.cols;
  const std::int64_t step = std::max<std::int64_t>(1, kChunkWeights / shape.cols);
  for (std::int64_t done = 0; done < rows; done += step) {
    const std::int64_t now = std::min(step, rows - done);
    const std::uint64_t begin =
        static_cast<std::uint64_t>(weights.first_row + done) * shape.row_bytes;
    const auto bytes = static_cast<std::size_t>(static_cast<std::uint64_t>(now) * shape.row_bytes);
    buffer_.resize(std::max(buffer_.size(), bytes));
    encoded_.resize(bytes);
    source.read(tensor.offset + begin, std::span(buffer_).first(bytes));
    decode::EncodedMatrix original;
    original.encoding = &encoding;
    original.rows = now;
    original.cols = shape.cols;
    original.first_row = weights.first_row + done;
    original.codes = buffer_.data();
    original.row_stride_bytes = static_cast<std::int64_t>(shape.row_bytes);
    counts_.add(decode::rewrite_matrix(original, weights.values.data() + done * shape.cols,
                                       shape.cols, encoded_, {}, where));
    sink(begin, encoded_);
  }
}

void copy_source(shard::ByteSource& source, const TensorSink& sink) {
  std::vector<std::byte> buffer;
  copy_range(source, 0, 0, source.size(), buffer, sink);
}

}  // namespace vindex::write
