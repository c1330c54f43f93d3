// Owns the choice of the SIMD level.
#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/decode/encoding_table.hpp>

#include <cpuid.h>

namespace vindex::decode {

void decode_matrix_at(SimdLevel level, const EncodedMatrix& matrix, float* out,
                      std::int64_t out_stride) {
  expects(is_supported(level), "decode_matrix_at: a level this processor runs");
  const DecodeView view = decode_view(matrix);
  expects(out_stride >= view.cols, "decode_matrix: out_stride >= cols");
  find_format(*matrix.encoding)->decode[static_cast<std::size_t>(level)](view, out, out_stride);
}

void decode_matrix(const EncodedMatrix& matrix, float* out, std::int64_t out_stride) {
  decode_matrix_at(best_simd_level(), matrix, out, out_stride);
}

std::string_view simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return "avx512";
    case SimdLevel::kAvx2:
      return "avx2";
    default:
      return "baseline";
  }
}

bool is_supported(SimdLevel level) {
  // The builtin also asks the operating system whether it saves the wide registers.
  switch (level) {
    case SimdLevel::kBaseline:
      return true;
    case SimdLevel::kAvx2:
      return __builtin_cpu_supports("avx2") != 0;
    case SimdLevel::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    default:
      return false;
  }
}

SimdLevel best_simd_level() {
  static const SimdLevel kBest = [] {
    for (const SimdLevel level : {SimdLevel::kAvx512, SimdLevel::kAvx2}) {
      if (is_supported(level)) {
        return level;
      }
    }
    return SimdLevel::kBaseline;
  }();
  return kBest;
}

}  // namespace vindex::decode
