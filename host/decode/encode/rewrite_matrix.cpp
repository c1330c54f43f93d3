// Owns the walk over the blocks of an edited matrix: which of them changed, whether each keeps its
// scale, and the bytes that it gets.
#include "rewrite_matrix.hpp"

#include "encode.hpp"
#include "encode_blocks.hpp"
#include "rewrite_fp8.hpp"

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/formats/float_formats.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace vindex::decode {
namespace {

bool is_plain_number(ElementType type) {
  return type == ElementType::kF64 || type == ElementType::kF32 || type == ElementType::kF16 ||
         type == ElementType::kBF16;
}

bool same_bits(const float* a, const float* b, std::int64_t count) {
  return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0;
}

/// How a block could be written under a scale.
struct Fit {
  bool holds = true;   ///< every new weight is within half a step of a code
  double error = 0.0;  ///< squared distance to the new weights
  double scale = 0.0;
};

/// Whether a block's own scale stays. Where its codes hold the new weights, a new scale has to be
/// less than half of it and to halve the rounding error: the first alone would move the weights of
/// a block that has room to spare for the least of edits, the second alone would go by the luck of
/// the rounding. Where they do not, the nearer of the two is taken: `own` is never farther from the
/// new weights than the block as it was, so no block is. A scale that is not finite never stays.
bool keeps_scale(const Fit& own, const Fit& anew) {
  const bool is_finer = std::fabs(anew.scale) < 0.5 * std::fabs(own.scale);
  const bool holds = own.holds && std::isfinite(own.error);
  return holds ? !(is_finer && own.error > 4.0 * anew.error) : own.error <= anew.error;
}

double squared(double value) { return value * value; }

/// One call: old and new weights, and the bytes under work, which begin as the original's.
class Rewriter {
 public:
  Rewriter(const EncodedMatrix& original, const float* values, std::int64_t stride,
           std::span<std::byte> codes, std::span<std::byte> scales, const std::string& where)
      : original_(original),
        encoding_(*original.encoding),
        values_(values),
        stride_(stride),
        codes_(reinterpret_cast<std::uint8_t*>(codes.data())),
        scales_(reinterpret_cast<std::uint8_t*>(scales.data())),
        where_(where),
        old_(static_cast<std::size_t>(original.rows * original.cols)) {
    decode_matrix(original_, old_.data(), original_.cols);
  }

  RewriteCounts run(std::int64_t code_row_bytes) {
    row_bytes_ = code_row_bytes;
    if (!is_rewritable(original_)) {
      refuse_changes();
    } else if (encoding_.scheme == Scheme::kFp8Block) {
      each_area(encoding_.block_rows, encoding_.block_cols, &Rewriter::fp8_block);
    } else if (encoding_.scheme == Scheme::kPackedInt) {
      each_area(1, encoding_.block_cols, &Rewriter::int4_group);
    } else if (is_plain_number(encoding_.type)) {
      each_area(1, 1, &Rewriter::number);
    } else {
      each_area(1, kBlockWeights, &Rewriter::ggml_block);
    }
    return counts_;
  }

 private:
  /// Rows and columns that share a scale, within the view.
  struct Area {
    std::int64_t row = 0;
    std::int64_t col = 0;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
  };

  const float* old_at(std::int64_t row, std::int64_t col) const {
    return old_.data() + row * original_.cols + col;
  }
  const float* new_at(std::int64_t row, std::int64_t col) const {
    return values_ + row * stride_ + col;
  }
  bool changed(std::int64_t row, std::int64_t col) const {
    return !same_bits(old_at(row, col), new_at(row, col), 1);
  }

  void each_area(std::int64_t height, std::int64_t width, void (Rewriter::*write)(const Area&)) {
    for (std::int64_t row = 0; row < original_.rows; row += height) {
      const std::int64_t rows = std::min(height, original_.rows - row);
      for (std::int64_t col = 0; col < original_.cols; col += width) {
        const Area area = {row, col, rows, std::min(width, original_.cols - col)};
        bool same = true;
        for (std::int64_t r = row; r < row + rows && same; ++r) {
          same = same_bits(old_at(r, col), new_at(r, col), area.cols);
        }
        if (same) {
          ++counts_.kept;
        } else {
          require_finite(area);
          (this->*write)(area);
        }
      }
    }
  }

  [[noreturn]] void refuse_value(std::int64_t row, std::int64_t col, const char* why) const {
    throw FormatError("E-ENCODE-VALUE", where_,
                      fmt::format("the new weight {} of row {}, column {} {}", *new_at(row, col),
                                  original_.first_row + row, original_.first_col + col, why));
  }

  void require_finite(const Area& area) const {
    for (std::int64_t row = area.row; row < area.row + area.rows; ++row) {
      for (std::int64_t col = area.col; col < area.col + area.cols; ++col) {
        if (!std::isfinite(*new_at(row, col))) {
          refuse_value(row, col, "is not finite");
        }
      }
    }
  }

  void refuse_changes() {
    for (std::int64_t row = 0; row < original_.rows; ++row) {
      for (std::int64_t col = 0; col < original_.cols; ++col) {
        if (changed(row, col)) {
          throw ConfigurationError(
              "E-ENCODE-TYPE",
              fmt::format("{}: row {}, column {} changed, and {} cannot be encoded: edit a model "
                          "in another format",
                          where_, original_.first_row + row, original_.first_col + col,
                          encoding_.label));
        }
      }
    }
    counts_.kept += original_.rows;
  }

  void number(const Area& area) {
    const float value = *new_at(area.row, area.col);
    const auto width = element_type_row(encoding_.type).block_bytes;
    std::uint8_t* const at = codes_ + area.row * row_bytes_ + area.col * width;
    if (encoding_.type == ElementType::kF64) {
      const double wide = value;
      std::memcpy(at, &wide, sizeof wide);
    } else if (encoding_.type == ElementType::kF32) {
      std::memcpy(at, &value, sizeof value);
    } else {
      const bool half = encoding_.type == ElementType::kF16;
      const std::uint16_t code = half ? encode_f16(value) : encode_bf16(value);
      if (!std::isfinite(half ? half_to_float(code) : bfloat16_to_float(code))) {
        refuse_value(area.row, area.col, half ? "is beyond F16" : "is beyond BF16");
      }
      std::memcpy(at, &code, sizeof code);
    }
    ++counts_.encoded;
  }

  /// A block under its own scale: the same bytes, or some new codes.
  void count_kept(bool same_bytes) { ++(same_bytes ? counts_.kept : counts_.patched); }

  static Fit fit_of(ElementType type, const std::uint8_t* block, const float* values) {
    float decoded[kBlockWeights];
    decode_block(type, block, decoded);
    Fit fit;
    fit.scale = block_step(type, block);
    for (int i = 0; i < kBlockWeights; ++i) {
      fit.error += squared(static_cast<double>(decoded[i]) - static_cast<double>(values[i]));
    }
    return fit;
  }

  void ggml_block(const Area& area) {
    const auto bytes = static_cast<std::size_t>(element_type_row(encoding_.type).block_bytes);
    std::uint8_t* const block =
        codes_ + area.row * row_bytes_ + area.col / kBlockWeights * static_cast<int>(bytes);
    const float* const values = new_at(area.row, area.col);
    std::uint8_t patched[64];
    std::memcpy(patched, block, bytes);
    bool holds = true;
    for (int i = 0; i < kBlockWeights; ++i) {
      if (changed(area.row, area.col + i)) {
        holds = put_nearest(encoding_.type, patched, i, values[i]) && holds;
      }
    }
    Fit kept = fit_of(encoding_.type, patched, values);
    kept.holds = holds;
    std::uint8_t anew[64];
    encode_block(encoding_.type, values, anew);
    if (!holds) {
      require_finite_block(area, anew);
    }
    if (keeps_scale(kept, fit_of(encoding_.type, anew, values))) {
      count_kept(std::memcmp(block, patched, bytes) == 0);
      std::memcpy(block, patched, bytes);
    } else {
      std::memcpy(block, anew, bytes);
      ++counts_.encoded;
    }
  }

  void require_finite_block(const Area& area, const std::uint8_t* block) const {
    float decoded[kBlockWeights];
    decode_block(encoding_.type, block, decoded);
    for (int i = 0; i < kBlockWeights; ++i) {
      if (!std::isfinite(decoded[i])) {
        refuse_value(area.row, area.col + i, "needs a scale beyond F16");
      }
    }
  }

  std::uint8_t* scale_at(const Area& area, std::size_t bytes) const {
    const Companion* scale = original_.companion(CompanionRole::kScale);
    const std::int64_t index =
        (original_.first_row + area.row) / encoding_.block_rows * scale->cols +
        (original_.first_col + area.col) / encoding_.block_cols;
    return scales_ + static_cast<std::size_t>(index) * bytes;
  }

  void fp8_block(const Area& area) {
    std::uint8_t* const scale_bytes = scale_at(area, sizeof(float));
    const auto scale = load_as<float>(scale_bytes);
    std::vector<std::uint8_t> patched(static_cast<std::size_t>(area.rows * area.cols));
    Fit kept{.scale = scale};
    float largest_code = 0.0F;
    bool same_bytes = true;
    std::size_t at = 0;
    for (std::int64_t row = area.row; row < area.row + area.rows; ++row) {
      for (std::int64_t col = area.col; col < area.col + area.cols; ++col, ++at) {
        patched[at] = codes_[row * row_bytes_ + col];
        if (!changed(row, col)) {
          continue;
        }
        const float value = *new_at(row, col);
        const float code = value / scale;
        kept.holds = kept.holds && std::fabs(code) <= kBeyondE4m3;
        largest_code = std::max(largest_code, std::fabs(code));
        const std::uint8_t nearest = encode_e4m3(code);
        const double error = fp8_error(nearest, scale, value);
        const double error_before = fp8_error(patched[at], scale, value);
        const bool stays = error >= error_before;  // not so where the old weight is NaN
        same_bytes = same_bytes && stays;
        patched[at] = stays ? patched[at] : nearest;
        kept.error += stays ? error_before : error;
      }
    }
    const Fp8Weights weights{new_at(area.row, area.col), area.rows, area.cols, stride_};
    Fp8Block anew = fp8_by_encoder(weights);
    if (!kept.holds && std::isfinite(largest_code)) {
      Fp8Block wider = fp8_with_room(weights, scale, largest_code);
      if (wider.error < anew.error) {
        anew = std::move(wider);
      }
    }
    const bool keeps = keeps_scale(kept, {.error = anew.error, .scale = anew.scale});
    if (keeps) {
      count_kept(same_bytes);
    } else {
      std::memcpy(scale_bytes, &anew.scale, sizeof anew.scale);
      ++counts_.encoded;
    }
    const std::uint8_t* const codes = keeps ? patched.data() : anew.codes.data();
    for (std::int64_t row = 0; row < area.rows; ++row) {
      std::memcpy(codes_ + (area.row + row) * row_bytes_ + area.col, codes + row * area.cols,
                  static_cast<std::size_t>(area.cols));
    }
  }

  void int4_group(const Area& area) {
    std::uint8_t* const scale_bytes = scale_at(area, sizeof(std::uint16_t));
    const double scale = bfloat16_to_float(load_as<std::uint16_t>(scale_bytes));
    std::uint8_t* const group = codes_ + area.row * row_bytes_ + area.col / 2;
    std::vector<std::uint8_t> patched(group, group + area.cols / 2);
    Fit kept{.scale = scale};
    for (std::int64_t i = 0; i < area.cols; ++i) {
      if (!changed(area.row, area.col + i)) {
        continue;
      }
      const double value = *new_at(area.row, area.col + i);
      std::uint8_t& pair = patched[static_cast<std::size_t>(i / 2)];
      const int shift = static_cast<int>(i % 2) * 4;
      const double before = ((pair >> shift) & 15) - 8;
      const double code = std::nearbyint(value / scale);
      kept.holds = kept.holds && code >= -8.0 && code <= 7.0;
      // A scale of zero gives infinity or NaN, and no code is nearer than another.
      const double nearest = std::isnan(code) ? before : std::clamp(code, -8.0, 7.0);
      const bool is_nearer = std::fabs(nearest * scale - value) < std::fabs(before * scale - value);
      if (is_nearer) {
        pair = static_cast<std::uint8_t>((pair & ~(15 << shift)) |
                                         ((static_cast<int>(nearest) + 8) << shift));
      }
      kept.error += squared((is_nearer ? nearest : before) * scale - value);
    }
    std::vector<std::uint8_t> anew(patched.size());
    std::uint8_t new_scale[sizeof(std::uint16_t)];
    const Encoding encoding = packed_int_encoding(4, static_cast<std::int32_t>(area.cols));
    const EncodingLoss loss = encode_matrix(encoding, new_at(area.row, area.col), 1, area.cols,
                                            area.cols, std::as_writable_bytes(std::span(anew)),
                                            std::as_writable_bytes(std::span(new_scale)));
    const float finer = bfloat16_to_float(load_as<std::uint16_t>(new_scale));
    if (keeps_scale(kept, {.error = loss.squared_error, .scale = finer})) {
      count_kept(std::equal(patched.begin(), patched.end(), group));
      std::memcpy(group, patched.data(), patched.size());
      return;
    }
    std::memcpy(group, anew.data(), anew.size());
    std::memcpy(scale_bytes, new_scale, sizeof new_scale);
    ++counts_.encoded;
  }

  const EncodedMatrix& original_;
  const Encoding& encoding_;
  const float* values_;
  std::int64_t stride_;
  std::uint8_t* codes_;
  std::uint8_t* scales_;
  const std::string& where_;
  std::vector<float> old_;
  std::int64_t row_bytes_ = 0;
  RewriteCounts counts_;
};

/// A scale of `type` for every block of the matrix, and nothing else beside the codes that gives
/// them another meaning.
bool has_plain_scales(const EncodedMatrix& matrix, ElementType type) {
  const Companion* scale = matrix.companion(CompanionRole::kScale);
  const std::int64_t width = matrix.encoding->block_cols;
  return scale != nullptr && scale->type == type && width > 0 && matrix.encoding->block_rows > 0 &&
         matrix.first_col == 0 && scale->cols == ceil_divide(matrix.cols, width) &&
         matrix.companion(CompanionRole::kZeroPoint) == nullptr &&
         matrix.companion(CompanionRole::kGroupIndex) == nullptr &&
         matrix.companion(CompanionRole::kGlobalScale) == nullptr;
}

}  // namespace

void RewriteCounts::add(const RewriteCounts& other) {
  kept += other.kept;
  patched += other.patched;
  encoded += other.encoded;
}

bool is_rewritable(const EncodedMatrix& original) {
  const Encoding& encoding = *original.encoding;
  switch (encoding.scheme) {
    case Scheme::kPlain:
      return is_plain_number(encoding.type) || has_block_encoder(encoding.type);
    case Scheme::kFp8Block:
      return is_encodable(encoding) && has_plain_scales(original, ElementType::kF32);
    case Scheme::kPackedInt:
      return is_encodable(encoding) && has_plain_scales(original, ElementType::kBF16) &&
             encoding.block_rows == 1 && original.cols % encoding.block_cols == 0;
    default:
      return false;
  }
}

RewriteCounts rewrite_matrix(const EncodedMatrix& original, const float* values,
                             std::int64_t stride, std::span<std::byte> codes,
                             std::span<std::byte> scales, const std::string& where) {
  const CodeWindow window = code_window(original);
  const Companion* scale = original.companion(CompanionRole::kScale);
  expects(codes.size() == static_cast<std::size_t>(window.width * window.height) &&
              scales.size() == (scale == nullptr ? 0 : scale->bytes.size()) &&
              stride >= original.cols,
          "rewrite_matrix: buffers that fit the original");
  expects(original.encoding->scheme != Scheme::kFp8Block ||
              original.first_row % original.encoding->block_rows == 0,
          "rewrite_matrix: a view that begins where blocks do");
  for (std::int64_t run = 0; run < window.height; ++run) {
    std::memcpy(codes.data() + run * window.width,
                original.codes + window.offset + run * window.stride,
                static_cast<std::size_t>(window.width));
  }
  if (original.rows == 0 || original.cols == 0) {
    return {};
  }
  return Rewriter(original, values, stride, codes, scales, where).run(window.width);
}

}  // namespace vindex::decode
