// Properties of every encoder at scales from the subnormal halves up: codes are the nearest under
// the scale that is stored, and an edited block is never farther from its target than an untouched
// one.
#include "decode_support.hpp"
#include "rewrite_support.hpp"

#include "decode/formats/float_formats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace vindex::decode::encode_nearest_test {
namespace {

constexpr std::int64_t kRows = 20;
constexpr std::int64_t kCols = 96;

const std::vector<float> kScales = {1e-7F, 1e-6F, 1e-5F, 5e-5F, 2e-4F, 1e-3F, 0.02F, 1.0F, 1e4F};

std::vector<Encoding> written_encodings() {
  std::vector<Encoding> all = scaled_encodings();
  all.push_back(fp8_block_encoding(8, 40));
  all.push_back(plain_encoding(ElementType::kF16));
  all.push_back(plain_encoding(ElementType::kBF16));
  return all;
}

/// Normal weights of a scale, some rows with a mean, a row of one value, a row with one outlier.
std::vector<float> weights_of_scale(float scale, std::uint32_t seed) {
  std::vector<float> values = normals(kRows * kCols, seed);
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    float& value = values[static_cast<std::size_t>(i)];
    const std::int64_t row = i / kCols;
    value = row == 3 ? 0.7F : value + (row % 4 == 1 ? 30.0F : 0.0F);
    value *= scale * (row == 6 && i % 32 == 7 ? 40.0F : 1.0F) * (scale > 100.0F ? 0.05F : 1.0F);
  }
  return values;
}

/// All weights that codes can mean where `index` lies, under what is stored there.
std::vector<float> representable(const EncodedWeights& encoded, std::int64_t row,
                                 std::int64_t col) {
  const Encoding& encoding = encoded.encoding;
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(encoded.codes.data());
  const auto* const scales = reinterpret_cast<const std::uint8_t*>(encoded.scales.data());
  const std::int64_t across = encoding.block_cols > 0 ? ceil_divide(kCols, encoding.block_cols) : 0;
  std::vector<float> out;
  if (encoding.scheme == Scheme::kFp8Block) {
    const std::int64_t block = row / encoding.block_rows * across + col / encoding.block_cols;
    const auto scale = load_as<float>(scales + block * 4);
    for (int code = 0; code < 256; ++code) {
      if (code % 128 != 127) {
        out.push_back(e4m3_to_float(static_cast<std::uint8_t>(code)) * scale);
      }
    }
  } else if (encoding.scheme == Scheme::kPackedInt) {
    const std::int64_t group = row * across + col / encoding.block_cols;
    const float scale = bfloat16_to_float(load_as<std::uint16_t>(scales + group * 2));
    for (int code = -7; code <= 7; ++code) {
      out.push_back(static_cast<float>(code) * scale);
    }
  } else if (encoding.type == ElementType::kF16 || encoding.type == ElementType::kBF16) {
    for (int code = 0; code < 0x10000; ++code) {
      const auto bits = static_cast<std::uint16_t>(code);
      const float value =
          encoding.type == ElementType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
      if (std::isfinite(value)) {
        out.push_back(value);
      }
    }
  } else {
    const int bytes = element_type_row(encoding.type).block_bytes;
    const std::uint8_t* const block = codes + (row * kCols + col) / 32 * bytes;
    const float scale = half_to_float(load_as<std::uint16_t>(block));
    const bool has_minimum =
        encoding.type == ElementType::kQ4_1 || encoding.type == ElementType::kQ5_1;
    const float minimum = has_minimum ? half_to_float(load_as<std::uint16_t>(block + 2)) : 0.0F;
    const int count = encoding.type == ElementType::kQ8_0 ? 256
                      : encoding.type == ElementType::kQ4_0 || encoding.type == ElementType::kQ4_1
                          ? 16
                          : 32;
    for (int code = 0; code < count; ++code) {
      out.push_back(static_cast<float>(has_minimum ? code : code - count / 2) * scale + minimum);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

double distance_to_nearest(const std::vector<float>& sorted, float value) {
  const auto above = std::lower_bound(sorted.begin(), sorted.end(), value);
  double least = HUGE_VAL;
  for (const auto near : {above, above == sorted.begin() ? above : above - 1}) {
    if (near != sorted.end()) {
      least = std::min(least, std::fabs(static_cast<double>(*near) - static_cast<double>(value)));
    }
  }
  return least;
}

TEST(EncodeNearest, EveryCodeIsTheNearestUnderTheScaleThatIsStored) {
  for (const Encoding& encoding : written_encodings()) {
    for (const float scale : kScales) {
      const auto values = weights_of_scale(scale, 41);
      const EncodedWeights encoded = encoded_weights(encoding, kRows, kCols, values);
      const auto decoded = encoded.weights();
      std::vector<float> codes;
      for (std::int64_t i = 0; i < kRows * kCols; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const bool is_plain =
            encoding.type == ElementType::kF16 || encoding.type == ElementType::kBF16;
        if (codes.empty() || (i % 8 == 0 && !is_plain)) {
          codes = representable(encoded, i / kCols, i % kCols);
        }
        const double nearest = distance_to_nearest(codes, values[at]);
        const double got =
            std::fabs(static_cast<double>(decoded[at]) - static_cast<double>(values[at]));
        // A quotient in float32 decides, which may take the other side of a tie.
        const double room = 1e-6 * static_cast<double>(codes.back() - codes.front());
        ASSERT_LE(got, nearest + (is_plain ? 0.0 : std::min(room, 1e-4 * got)))
            << encoding.label << " scale " << scale << " weight " << i;
      }
    }
  }
}

double block_error(const EncodedWeights& encoded, const std::vector<float>& values) {
  const auto decoded = encoded.weights();
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
    sum += difference * difference;
  }
  return sum;
}

/// Against every scale that a half can be: no other one is much better, though few halves are left
/// where weights are small.
TEST(EncodeNearest, ASmallScaleIsAmongTheBestOfAllHalves) {
  for (const float scale : {1e-7F, 1e-6F, 3e-6F, 1e-5F, 5e-5F, 2e-4F}) {
    std::vector<float> values = normals(kRows * kCols, 42);
    for (float& value : values) {
      value *= scale;
    }
    for (std::size_t start = 0; start < values.size(); start += 32) {
      const std::vector<float> block(values.begin() + static_cast<std::ptrdiff_t>(start),
                                     values.begin() + static_cast<std::ptrdiff_t>(start + 32));
      const Encoding encoding = plain_encoding(ElementType::kQ8_0);
      const double error = block_error(encoded_weights(encoding, 1, 32, block), block);
      double best = HUGE_VAL;
      for (int half = 1; half < 0x800; ++half) {
        const double step = half_to_float(static_cast<std::uint16_t>(half));
        double sum = 0.0;
        for (const float value : block) {
          const double wide = value;
          const double code = std::clamp(std::nearbyint(wide / step), -128.0, 127.0);
          sum += (code * step - wide) * (code * step - wide);
        }
        best = std::min(best, sum);
      }
      ASSERT_LE(std::sqrt(error), 1.3 * std::sqrt(best)) << scale << " block " << start / 32;
    }
  }
}

TEST(EncodeNearest, AnEditedBlockIsNoFartherFromItsTargetThanIfLeftAlone) {
  for (const Encoding& encoding : written_encodings()) {
    const std::int64_t height = std::max<std::int64_t>(encoding.block_rows, 1);
    const std::int64_t width = std::max<std::int64_t>(block_width(encoding), 1);
    for (const float scale : kScales) {
      for (const float size : {1e-4F, 1e-2F, 0.3F, 1.0F, 20.0F}) {
        if (scale > 100.0F && size > 1.0F) {
          continue;  // beyond F16, which is refused
        }
        auto values = weights_of_scale(scale, 43);
        std::fill(values.begin() + 8 * kCols, values.begin() + 10 * kCols, 0.0F);
        const EncodedWeights before = encoded_weights(encoding, kRows, kCols, values);
        const std::vector<float> old = before.weights();
        const std::vector<float> noise = normals(kRows * kCols, 44);
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = old[i] + size * scale * noise[i] * (i / 32 % 3 == 0 ? 1.0F : 0.01F);
        }
        const auto after = rewritten(before, values).weights();
        for (std::int64_t row = 0; row < kRows; row += height) {
          for (std::int64_t col = 0; col < kCols; col += width) {
            double left_alone = 0.0;
            double edited = 0.0;
            for (std::int64_t r = row; r < std::min(kRows, row + height); ++r) {
              for (std::int64_t c = col; c < std::min(kCols, col + width); ++c) {
                const auto i = static_cast<std::size_t>(r * kCols + c);
                const double target = values[i];
                left_alone += (old[i] - target) * (old[i] - target);
                edited += (after[i] - target) * (after[i] - target);
              }
            }
            ASSERT_LE(edited, left_alone * (1.0 + 1e-12))
                << encoding.label << " scale " << scale << " size " << size << " row " << row
                << " column " << col;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vindex::decode::encode_nearest_test
