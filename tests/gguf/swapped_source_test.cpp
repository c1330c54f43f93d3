// Reading of big-endian files: any range of the data gives the bytes of the whole, reversed once.
#include "gguf/swapped_source.hpp"

#include "decode/byte_order.hpp"
#include "input/local/file_source.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace vindex::gguf::swapped_source_test {
namespace {

using testing::bytes_of;

/// A Q4_K, an I8, a Q5_0 and an F64 tensor with gaps between them.
std::vector<Tensor> tensors() {
  return {{"k", decode::ElementType::kQ4_K, {512}, 10, 288},
          {"i", decode::ElementType::kI8, {20}, 298, 20},
          {"q", decode::ElementType::kQ5_0, {96}, 330, 66},
          {"d", decode::ElementType::kF64, {3}, 400, 24}};
}

class SwappedSourceTest : public ::testing::Test {
 protected:
  SwappedSourceTest() {
    std::mt19937 random(9);
    for (char& byte : stored_) {
      byte = static_cast<char>(random());
    }
    wanted_ = stored_;
    for (const Tensor& tensor : tensors()) {
      decode::swap_block_fields(
          tensor.type,
          std::as_writable_bytes(std::span(wanted_)).subspan(tensor.offset, tensor.bytes));
    }
    source_ = make_swapped_source(input::make_memory_source("m", bytes_of(stored_)), tensors());
  }

  std::string stored_ = std::string(450, '\0');
  std::string wanted_;
  std::unique_ptr<ByteSource> source_;
};

TEST_F(SwappedSourceTest, AnyRangeGivesTheBytesOfTheWhole) {
  EXPECT_NE(stored_, wanted_);
  for (std::size_t begin = 0; begin < stored_.size(); begin += begin % 7 + 1) {
    for (std::size_t size = 0; begin + size <= stored_.size(); size += size % 11 + 1) {
      std::string got(size, '\0');
      source_->read(begin, std::as_writable_bytes(std::span(got)));
      ASSERT_EQ(got, wanted_.substr(begin, size)) << begin << " " << size;
    }
  }
}

TEST_F(SwappedSourceTest, ManyRequestsAtOnceAndTheSourceItselfStayWhatTheyAre) {
  std::string first(100, '\0');
  std::string second(17, '\0');
  const ReadRequest requests[] = {{300, std::as_writable_bytes(std::span(first))},
                                  {3, std::as_writable_bytes(std::span(second))}};
  source_->read_many(requests);
  EXPECT_EQ(first, wanted_.substr(300, 100));
  EXPECT_EQ(second, wanted_.substr(3, 17));
  EXPECT_EQ(source_->name(), "m");
  EXPECT_EQ(source_->size(), 450U);
  EXPECT_EQ(source_->identity().bytes, 450U);
  std::string beyond(2, '\0');
  EXPECT_EQ(
      testing::error_of([&] { source_->read(449, std::as_writable_bytes(std::span(beyond))); }),
      "E-TRUNCATED @ 449");
}

}  // namespace
}  // namespace vindex::gguf::swapped_source_test
