// Any bytes as a matrix of any format: its halves decode to the same bits as the whole, at every
// SIMD level, and both to those of the definition, weight by weight. NaNs compare equal whatever
// their payload.
#include "decode_case.hpp"

#include "decode/bind_view.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/formats/visit_encoding.hpp"
#include "decode/simd_level.hpp"
#include <vindex/error.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace vindex::decode;

namespace {
bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

std::vector<float> one_by_one(const EncodedMatrix& matrix) {
  std::vector<float> out;
  const DecodeView view = decode_view(matrix);
  visit_encoding(*matrix.encoding, [&]<typename Decoder>(Decoder) {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      for (std::int64_t col = 0; col < view.cols; ++col) {
        out.push_back(Decoder::at(view, row, col));
      }
    }
  });
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const vindex::fuzz::DecodeCase test_case(std::span(data, size));
  const EncodedMatrix& matrix = test_case.matrix();
  const auto count = static_cast<std::size_t>(matrix.rows * matrix.cols);
  const std::vector<float> whole = one_by_one(matrix);
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!is_supported(level)) {
      continue;
    }
    std::vector<float> halves(count);
    const std::int64_t half = matrix.rows / 2;
    decode_matrix_at(level, row_slab(matrix, 0, half), halves.data(), matrix.cols);
    decode_matrix_at(level, row_slab(matrix, half, matrix.rows - half),
                     halves.data() + half * matrix.cols, matrix.cols);
    if (whole.size() != count || !std::equal(whole.begin(), whole.end(), halves.begin(), same)) {
      std::abort();
    }
  }
  return 0;
}
