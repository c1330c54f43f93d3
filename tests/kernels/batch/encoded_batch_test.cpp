// Encoded matrices on a device by themselves: what was uploaded decodes there to the bits of the
// host, in pieces, with the signs of a draw and as doubles, from bytes that were given back.
#include "kernels/decode/encoded_batch.hpp"

#include "cpu/tiles/cpu_tiles.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <memory>
#include <random>

namespace vindex::test::encoded_batch_test {
namespace {

using kernels::DrawNumber;
using kernels::EncodedBatch;

/// Bytes that are overwritten when they are released; streamed, one slab lives at a time.
class LentInput final : public MatrixInput {
 public:
  LentInput(const decode::EncodedMatrix& matrix, std::uint64_t key, bool in_memory)
      : matrix_(matrix),
        bytes_(matrix.codes, matrix.codes + matrix.rows * matrix.row_stride_bytes),
        key_(key),
        in_memory_(in_memory) {
    matrix_.codes = bytes_.data();
  }
  const decode::Encoding& encoding() const override { return *matrix_.encoding; }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return true; }
  std::uint64_t sign_flip_key() const override { return key_; }
  bool in_memory() const override { return in_memory_; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    max_rows_ = std::max(max_rows_, count);
    return decode::row_slab(matrix_, first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return decode::column_slab(matrix_, first, count);
  }
  void release() override {
    ++releases_;
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF});
  }
  int releases() const { return releases_; }
  std::int64_t max_rows() const { return max_rows_; }

 private:
  decode::EncodedMatrix matrix_;
  std::vector<std::byte> bytes_;
  std::uint64_t key_;
  bool in_memory_;
  int releases_ = 0;
  std::int64_t max_rows_ = 0;
};

class EncodedBatches : public KernelTest {};

TEST_P(EncodedBatches, PiecesAreTheBitsOfTheHostWithAndWithoutSigns) {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kCols = 64;
  std::mt19937 random(3);
  // Finite bytes in every format used here.
  const auto fill = [&](auto values, auto, auto) {
    for (std::uint8_t& value : values) {
      value = static_cast<std::uint8_t>(random() & 0x3FU);
    }
  };
  for (const decode::Encoding& encoding :
       {decode::plain_encoding(decode::ElementType::kBF16),
        decode::plain_encoding(decode::ElementType::kQ8_0), decode::fp8_block_encoding(16, 16)}) {
    const decode::SampleShape shape = {.encoding = encoding, .rows = kRows, .cols = kCols};
    const decode::EncodedSample samples[] = {{shape, 0, fill}, {shape, 0, fill}};
    for (const bool in_memory : {true, false}) {
      SCOPED_TRACE(encoding.label + (in_memory ? "" : " streamed"));
      LentInput first(samples[0].matrix(), 77, in_memory);
      LentInput second(samples[1].matrix(), 78, in_memory);
      MatrixInput* const inputs[] = {&first, &second};
      kernels::DeviceBuffer memory{"slots"};
      const kernels::Stream copies = kernels::make_stream();
      EncodedBatch batch(stream(), copies.get(), memory,
                         kernels::slot_layout(samples[0].matrix(), kRows), 2);
      batch.begin(inputs, 1);
      EXPECT_EQ(batch.size(), 2U);
      batch.upload(1);
      EXPECT_EQ(second.max_rows(), 0) << "not asked for yet";
      batch.upload(2);
      batch.finish();
      EXPECT_EQ(first.releases(), 1);
      EXPECT_EQ(second.releases(), 1);
      EXPECT_EQ(second.max_rows() < kRows, !in_memory) << "a slab of one unit";
      for (const std::size_t index : {1UL, 0UL}) {
        std::vector<float> whole(static_cast<std::size_t>(kRows * kCols));
        decode::decode_matrix(samples[index].matrix(), whole.data(), kCols);
        std::vector<float> flipped = whole;
        cpu::flip_signs(flipped.data(), kRows, kCols, kCols,
                        {.key = 77 + index,
                         .draw = 5,
                         .transposed = true,
                         .whole_rows = kRows,
                         .whole_cols = kCols});
        const std::int64_t from = 16;
        const std::int64_t count = 24;
        const auto piece_of = [&](const std::vector<float>& values) {
          return std::vector<float>(values.begin() + from * kCols,
                                    values.begin() + (from + count) * kCols);
        };
        DeviceArray<float> decoded(static_cast<std::size_t>(count * kCols));
        DeviceArray<double> wide(decoded.size());
        batch.decode_rows(index, std::nullopt, from, count, decoded.data());
        EXPECT_EQ(decoded.values(), piece_of(whole));
        batch.decode_rows(index, DrawNumber{5}, from, count, decoded.data(), wide.data());
        EXPECT_EQ(decoded.values(), piece_of(flipped));
        const std::vector<float> wanted = piece_of(flipped);
        EXPECT_EQ(wide.values(), std::vector<double>(wanted.begin(), wanted.end()));
        EXPECT_NE(wanted, piece_of(whole));
      }
    }
  }
}

TEST_P(EncodedBatches, InputsAreReleasedAlsoWhereABatchEndsEarly) {
  const decode::SampleShape shape = {
      .encoding = decode::plain_encoding(decode::ElementType::kF32), .rows = 8, .cols = 8};
  const decode::EncodedSample sample(shape, 0, [](auto values, auto, auto) {
    std::fill(values.begin(), values.end(), std::uint8_t{0});
  });
  LentInput first(sample.matrix(), 1, true);
  LentInput second(sample.matrix(), 2, true);
  MatrixInput* const inputs[] = {&first, &second};
  {
    kernels::DeviceBuffer memory{"slots"};
    const kernels::Stream copies = kernels::make_stream();
    EncodedBatch batch(stream(), copies.get(), memory, kernels::slot_layout(sample.matrix(), 8), 1);
    EXPECT_THROW(batch.begin(inputs), Error) << "more than there is room for";
    batch.begin({inputs, 1});
    batch.upload(1);
  }
  EXPECT_EQ(first.releases(), 1);
  EXPECT_EQ(second.releases(), 0);
}

TEST_P(EncodedBatches, SettlingReleasesWhatWasCopiedAndNothingElse) {
  const decode::SampleShape shape = {
      .encoding = decode::plain_encoding(decode::ElementType::kF32), .rows = 8, .cols = 8};
  const decode::EncodedSample sample(shape, 0, [](auto values, auto, auto) {
    std::fill(values.begin(), values.end(), std::uint8_t{0});
  });
  LentInput first(sample.matrix(), 1, true);
  LentInput second(sample.matrix(), 2, true);
  MatrixInput* const inputs[] = {&first, &second};
  kernels::DeviceBuffer memory{"slots"};
  const kernels::Stream copies = kernels::make_stream();
  EncodedBatch batch(stream(), copies.get(), memory, kernels::slot_layout(sample.matrix(), 8), 2);
  batch.begin(inputs);
  EXPECT_FALSE(batch.has_copied(1));
  batch.upload(1);
  EXPECT_TRUE(batch.has_copied(1));
  EXPECT_FALSE(batch.has_copied(2));
  batch.settle();
  EXPECT_EQ(first.releases(), 1);
  EXPECT_EQ(second.releases(), 0);
  batch.upload(2);
  batch.finish();
  EXPECT_EQ(second.releases(), 1);
  batch.settle();  // after the end there is nothing
  EXPECT_EQ(first.releases(), 1);
}

INSTANTIATE_THREAD_ORDERS(EncodedBatches);

}  // namespace
}  // namespace vindex::test::encoded_batch_test
