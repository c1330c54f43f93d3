// Owns the seeded weights themselves, encoded or filled with valid codes.
#include "encoded_weights.hpp"

#include "core/integers.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encoding_table.hpp"
#include "synth/make_model.hpp"
#include "synth/recipe.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace vindex::throughput {

namespace {

/// A linear congruential generator (Knuth's MMIX constants), high bits.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 32U);
  }

 private:
  std::uint64_t state_;
};

/// Planted spectra that are hard for a float32 Gram matrix; empty: not one of them.
std::vector<double> hard_spectrum(const std::string& spectrum, std::int64_t p) {
  const auto value = [&](double i, double last) {
    if (spectrum == "geometric") {
      return std::pow(1e-3, i / last);
    }
    if (spectrum == "steep") {
      return 1.0 / (1.0 + i);
    }
    return i > 0.0 ? 1e-3 : 1.0;
  };
  std::vector<double> sigma;
  if (spectrum == "geometric" || spectrum == "steep" || spectrum == "cluster") {
    for (std::int64_t i = 0; i < p; ++i) {
      sigma.push_back(
          value(static_cast<double>(i), static_cast<double>(std::max<std::int64_t>(p - 1, 1))));
    }
  }
  return sigma;
}

/// Noise of which every eighth row and every eighth column is zero.
std::vector<float> noise_with_dead_lines(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  constexpr std::int64_t kEvery = 8;
  std::vector<float> values = noise(rows * cols, seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; c += r % kEvery == 0 ? 1 : kEvery) {
      values[static_cast<std::size_t>(r * cols + c)] = 0.0F;
    }
  }
  return values;
}

std::vector<float> weights_of(const std::string& spectrum, std::int64_t rows, std::int64_t cols,
                              std::uint64_t seed) {
  if (spectrum == "noise") {
    return noise(rows * cols, seed);
  }
  if (spectrum == "dead") {
    return noise_with_dead_lines(rows, cols, seed);
  }
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  if (const auto sigma = hard_spectrum(spectrum, std::min(rows, cols)); !sigma.empty()) {
    synth::plant_spectrum(seed, sigma, rows, cols, values.data());
    return values;
  }
  synth::draw_matrix(spectrum, seed, rows, cols, values);
  return values;
}

}  // namespace

std::vector<std::string> known_spectra() {
  return {"trained",   "noise", "powerlaw", "spiked", "rowscale",
          "geometric", "steep", "cluster",  "dead"};
}

std::vector<float> noise(std::int64_t count, std::uint64_t seed) {
  constexpr float kDeviation = 0.02F;
  constexpr float kUnit = 1.7320508F;  // the sum of four uniform numbers has variance 1/3
  std::vector<float> values(static_cast<std::size_t>(count));
  Generator random(seed);
  for (float& value : values) {
    float sum = -2.0F;
    for (int term = 0; term < 4; ++term) {
      sum += static_cast<float>(random.next()) * 0x1p-32F;
    }
    value = kDeviation * kUnit * sum;
  }
  return values;
}

std::vector<decode::Encoding> known_encodings() {
  std::vector<decode::Encoding> encodings;
  for (const decode::FormatRow& row : decode::format_rows()) {
    if (row.scheme == decode::Scheme::kPlain) {
      encodings.push_back(decode::plain_encoding(row.type));
    } else if (row.scheme == decode::Scheme::kFp8Block &&
               row.type == decode::ElementType::kF8E4M3) {
      encodings.push_back(decode::fp8_block_encoding(128, 128));
    } else if (row.scheme == decode::Scheme::kPackedInt) {
      encodings.push_back(decode::packed_int_encoding(row.bits, row.bits == 4 ? 32 : 128));
    }
  }
  return encodings;
}

decode::Encoding encoding_of(const std::string& label) {
  const auto encodings = known_encodings();
  for (const bool family : {false, true}) {  // "F8" and "INT4" stand for the one of their family
    for (const decode::Encoding& encoding : encodings) {
      if (encoding.label == label || (family && (encoding.label.starts_with(label + "/") ||
                                                 encoding.label.starts_with(label + "_E4M3/")))) {
        return encoding;
      }
    }
  }
  std::string names;
  for (const decode::Encoding& encoding : encodings) {
    names += (names.empty() ? "" : ", ") + encoding.label;
  }
  throw UsageError("E-ENCODING",
                   fmt::format("`{}` is not an encoding known here: {}", printable(label), names));
}

EncodedWeights::EncodedWeights(const decode::Encoding& encoding, std::int64_t rows,
                               std::int64_t cols, std::uint64_t seed, const std::string& spectrum)
    : encoding_(encoding) {
  const auto stride = decode::row_bytes(encoding, static_cast<std::uint64_t>(cols));
  if (!stride || (decode::is_encodable(encoding) && !decode::encoded_size(encoding, rows, cols))) {
    throw UsageError("E-SHAPE",
                     fmt::format("{} cannot store {} x {} weights: rows are whole blocks",
                                 encoding.label, rows, cols));
  }
  matrix_.encoding = &encoding_;
  matrix_.rows = rows;
  matrix_.cols = cols;
  matrix_.row_stride_bytes = static_cast<std::int64_t>(*stride);
  codes_.resize(static_cast<std::size_t>(*stride) * static_cast<std::size_t>(rows));
  has_spectrum_ = decode::is_encodable(encoding);
  if (has_spectrum_) {
    fill_with(weights_of(spectrum, rows, cols, seed));
  } else {
    fill_with_codes(seed);
  }
  matrix_.codes = codes_.data();
  if (encoding_.scheme != decode::Scheme::kPlain) {
    decode::Companion& scale = matrix_.companions[0];
    scale.role = decode::CompanionRole::kScale;
    scale.bytes = scales_;
    matrix_.companion_count = 1;
  }
}

void EncodedWeights::fill_with(const std::vector<float>& values) {
  const auto size = decode::encoded_size(encoding_, matrix_.rows, matrix_.cols);
  expects(size && size->code_bytes == codes_.size(), "codes of the size the encoder writes");
  scales_.resize(static_cast<std::size_t>(size->scale_bytes));
  decode::encode_matrix(encoding_, values.data(), matrix_.rows, matrix_.cols, matrix_.cols, codes_,
                        scales_);
  decode::Companion& scale = matrix_.companions[0];
  if (encoding_.scheme == decode::Scheme::kFp8Block) {
    scale.type = decode::ElementType::kF32;
    scale.rows = ceil_divide(matrix_.rows, encoding_.block_rows);
    scale.cols = ceil_divide(matrix_.cols, encoding_.block_cols);
  } else if (encoding_.scheme == decode::Scheme::kPackedInt) {
    scale.type = decode::ElementType::kBF16;
    scale.rows = matrix_.rows;
    scale.cols = matrix_.cols / encoding_.block_cols;
  }
}

void EncodedWeights::fill_with_codes(std::uint64_t seed) {
  Generator random(seed);
  if (encoding_.scheme == decode::Scheme::kPlain && encoding_.type == decode::ElementType::kF64) {
    // Bits of ordinary weights: conversions that overflow take other paths in some processors.
    const std::vector<float> values = noise(matrix_.rows * matrix_.cols, seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      std::memcpy(codes_.data() + 8 * i, &value, sizeof(value));
    }
    return;
  }
  for (std::size_t i = 0; i < codes_.size(); i += 4) {
    const std::uint32_t bits = random.next();
    std::memcpy(codes_.data() + i, &bits, std::min<std::size_t>(4, codes_.size() - i));
  }
  if (encoding_.scheme != decode::Scheme::kPlain) {
    decode::Companion& scale = matrix_.companions[0];
    scale.type = decode::ElementType::kF32;
    scale.rows = ceil_divide(matrix_.rows, encoding_.block_rows);
    scale.cols = ceil_divide(matrix_.cols, encoding_.block_cols);
    const std::vector<float> values(static_cast<std::size_t>(scale.rows * scale.cols), 0.01F);
    scales_.resize(values.size() * sizeof(float));
    std::memcpy(scales_.data(), values.data(), scales_.size());
  }
}

decode::EncodedMatrix EncodedWeights::copied_to(std::span<std::byte> into) const {
  expects(into.size() >= bytes(), "room for codes and scales");
  decode::EncodedMatrix copy = matrix_;
  std::copy(codes_.begin(), codes_.end(), into.begin());
  copy.codes = into.data();
  if (copy.companion_count > 0) {
    const auto scales = into.subspan(scale_offset(), scales_.size());
    std::copy(scales_.begin(), scales_.end(), scales.begin());
    copy.companions[0].bytes = scales;
  }
  return copy;
}

}  // namespace vindex::throughput
