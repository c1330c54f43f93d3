// Every decodable format on the CUDA back end: the bytes that it uploads and the decoders compiled
// for it give the bits that the host's loops give.
#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "tests/emulated_cuda/emulated_backend.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace vindex::test::cuda_decode_test {
namespace {

TEST(CudaDecode, EveryFormatGivesTheBitsOfTheHost) {
  const auto backend = make_emulated_cuda_backend();
  std::mt19937 random(5);
  const auto fill = [&](auto values, auto, auto) {
    for (std::uint8_t& value : values) {
      value = static_cast<std::uint8_t>(random());
    }
  };
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (const decode::SampleShape& shape : decode::shapes_of(row, 19, 70, 16)) {
      const decode::EncodedSample sample(shape, 1, fill);
      const decode::EncodedMatrix& matrix = sample.matrix();
      std::vector<float> wanted(static_cast<std::size_t>(matrix.rows * matrix.cols));
      std::vector<float> got(wanted.size());
      decode::decode_matrix(matrix, wanted.data(), matrix.cols);
      backend->decode(matrix, got);
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (!(std::isnan(got[i]) && std::isnan(wanted[i])) &&
            std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(wanted[i])) {
          ADD_FAILURE() << shape.encoding.label << ": weight " << i << " is " << got[i]
                        << ", wanted " << wanted[i];
          break;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vindex::test::cuda_decode_test
