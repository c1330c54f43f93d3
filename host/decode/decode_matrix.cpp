// Owns the checks in front of the decoders and the choice of the SIMD level.
#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/decode/encoding_table.hpp>

#include <cpuid.h>
#include <limits>

namespace vindex::decode {
namespace {

// Sets the scales of `view` from the companion, which must cover the view.
void set_scales(const EncodedMatrix& matrix, DecodeView& view) {
  const Encoding& encoding = *matrix.encoding;
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  view.block_rows = encoding.block_rows > 0 ? encoding.block_rows : kAll;
  view.block_cols = encoding.block_cols > 0 ? encoding.block_cols : kAll;
  const Companion* scale = matrix.companion(CompanionRole::kScale);
  expects(scale != nullptr, "decode_view: a scale companion");
  expects(is_scale_type(scale->type), "decode_view: scales of a known type");
  const auto count = checked_multiply(static_cast<std::uint64_t>(scale->rows),
                                      static_cast<std::uint64_t>(scale->cols));
  const auto bytes = count ? stored_bytes(scale->type, *count) : std::nullopt;
  expects(bytes && *bytes <= scale->bytes.size(), "decode_view: all bytes of the scales");
  if (view.rows > 0 && view.cols > 0) {
    expects((view.first_row + view.rows - 1) / view.block_rows < scale->rows &&
                (view.first_col + view.cols - 1) / view.block_cols < scale->cols,
            "decode_view: a scale for every block");
  }
  view.scales = reinterpret_cast<const std::uint8_t*>(scale->bytes.data());
  view.scale_type = scale->type;
  view.scale_cols = scale->cols;
}

}  // namespace

DecodeView decode_view(const EncodedMatrix& matrix) {
  expects(matrix.encoding != nullptr && is_decodable(*matrix.encoding),
          "decode_view: a decodable encoding");
  const Encoding& encoding = *matrix.encoding;
  expects(matrix.rows >= 0 && matrix.cols >= 0 && matrix.first_row >= 0 && matrix.first_col >= 0,
          "decode_view: counts that are not negative");
  expects(row_bytes(encoding, static_cast<std::uint64_t>(matrix.cols)).has_value(),
          "decode_view: whole blocks in a row");
  DecodeView view;
  view.codes = reinterpret_cast<const std::uint8_t*>(matrix.codes);
  view.row_stride_bytes = matrix.row_stride_bytes;
  view.rows = matrix.rows;
  view.cols = matrix.cols;
  view.first_row = matrix.first_row;
  view.first_col = matrix.first_col;
  if (encoding.scheme != Scheme::kPlain) {
    set_scales(matrix, view);
  }
  return view;
}

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
