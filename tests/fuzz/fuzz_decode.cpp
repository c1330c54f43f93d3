// Any bytes as a matrix of any format: the halves of it decode to the same bits as the whole, at
// every SIMD level. NaNs compare equal whatever their payload.
#include "decode_case.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/simd_level.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace vindex::decode;

namespace {
bool same(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const vindex::fuzz::DecodeCase test_case(std::span(data, size));
  const EncodedMatrix& matrix = test_case.matrix();
  const auto count = static_cast<std::size_t>(matrix.rows * matrix.cols);
  std::vector<float> whole(count);
  decode_matrix_at(SimdLevel::kBaseline, matrix, whole.data(), matrix.cols);
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (!is_supported(level)) {
      continue;
    }
    std::vector<float> halves(count);
    const std::int64_t half = matrix.rows / 2;
    decode_matrix_at(level, row_slab(matrix, 0, half), halves.data(), matrix.cols);
    decode_matrix_at(level, row_slab(matrix, half, matrix.rows - half),
                     halves.data() + half * matrix.cols, matrix.cols);
    if (!std::equal(whole.begin(), whole.end(), halves.begin(), same)) {
      std::abort();
    }
  }
  return 0;
}
