#include "self_test_inputs.hpp"

#include "core/integers.hpp"

#include <cstring>

namespace vindex::kernels {

namespace {

constexpr std::size_t kAlignment = 256;

/// Random codes of an encoding that are finite numbers: every bit but those of the exponent.
std::byte random_code(const decode::Encoding& encoding, std::uint64_t index) {
  const std::uint32_t bits = philox_block(7, index).word[0];
  switch (encoding.type) {
    case decode::ElementType::kF8E4M3:
      return static_cast<std::byte>((bits & 0x7FU) == 0x7FU ? bits & 0xF0U : bits & 0xFFU);
    default:
      return static_cast<std::byte>(bits & 0xFFU);
  }
}

void fill_codes(const decode::Encoding& encoding, std::vector<std::byte>& codes) {
  const auto put = [&](std::size_t at, std::uint32_t value, std::size_t size) {
    std::memcpy(codes.data() + at, &value, size);  // little-endian, as stored
  };
  for (std::size_t i = 0; i < codes.size(); ++i) {
    switch (encoding.type) {
      case decode::ElementType::kF16:  // sign, mantissa, exponent fields 8 to 15
        if (i % 2 == 0) {
          put(i, (philox_block(7, i).word[0] & 0x9FFFU) | 0x2000U, 2);
        }
        break;
      case decode::ElementType::kBF16:  // exponent fields 112 to 127
        if (i % 2 == 0) {
          put(i, (philox_block(7, i).word[0] & 0x87FFU) | 0x3800U, 2);
        }
        break;
      case decode::ElementType::kF32:
        if (i % 4 == 0) {
          put(i, (philox_block(7, i).word[0] & 0x87FFFFFFU) | 0x38000000U, 4);
        }
        break;
      default:
        codes[i] = random_code(encoding, i);
    }
  }
}

}  // namespace

EncodedSample::EncodedSample(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                             decode::ElementType scale_type) {
  matrix_.encoding = &encoding;
  matrix_.rows = rows;
  matrix_.cols = cols;
  const auto width = decode::row_bytes(encoding, static_cast<std::uint64_t>(cols)).value();
  matrix_.row_stride_bytes = static_cast<std::int64_t>(width);
  codes_.resize(
      (static_cast<std::size_t>(width) * static_cast<std::size_t>(rows) + kAlignment - 1) /
      kAlignment * kAlignment);
  fill_codes(encoding, codes_);
  matrix_.codes = codes_.data();
  if (encoding.scheme != decode::Scheme::kPlain) {
    const auto blocks = [](std::int64_t count, std::int32_t block) {
      return block == 0 ? 1 : ceil_divide(count, block);
    };
    decode::Companion& scale = matrix_.companions[0];
    scale.role = decode::CompanionRole::kScale;
    scale.type = scale_type;
    scale.rows = blocks(rows, encoding.block_rows);
    scale.cols = blocks(cols, encoding.block_cols);
    // The upper half of a float32 is a bfloat16 number; exponents of a few neighbours.
    const std::size_t size = scale_type == decode::ElementType::kF32 ? 4 : 2;
    scales_.resize(size * static_cast<std::size_t>(scale.rows * scale.cols));
    for (std::size_t i = 0; i < scales_.size(); i += size) {
      const std::uint32_t random = philox_block(8, i).word[0];
      const std::uint32_t bits = (random & 0x01FFU) << 16U | random >> 16U | 0x3C000000U;
      std::memcpy(scales_.data() + i, reinterpret_cast<const std::byte*>(&bits) + 4 - size, size);
    }
    scale.bytes = scales_;
    matrix_.companion_count = 1;
  }
  std::vector<float> decoded(static_cast<std::size_t>(rows * cols));
  decode::decode_matrix(matrix_, decoded.data(), cols);
  weights_.assign(decoded.begin(), decoded.end());
}

double EncodedSample::sum_squares() const {
  double sum = 0.0;
  for (const double weight : weights_) {
    sum += weight * weight;
  }
  return sum;
}

decode::DecodeView EncodedSample::send(std::uint8_t* to, cudaStream_t stream) const {
  decode::DecodeView view = decode::decode_view(matrix_);
  check(cudaMemcpyAsync(to, codes_.data(), codes_.size(), cudaMemcpyHostToDevice, stream));
  view.codes = to;
  if (!scales_.empty()) {
    check(cudaMemcpyAsync(to + codes_.size(), scales_.data(), scales_.size(),
                          cudaMemcpyHostToDevice, stream));
    view.companions[decode::role_index(decode::CompanionRole::kScale)] = to + codes_.size();
  }
  check(cudaStreamSynchronize(stream));
  return view;
}

std::vector<double> dense_samples(std::int64_t n, std::int64_t batch) {
  std::vector<double> dense(static_cast<std::size_t>(batch * n * n));
  std::vector<double> factor(static_cast<std::size_t>(2 * n * n));
  for (std::int64_t b = 0; b < batch; ++b) {
    fill_random(factor, static_cast<std::uint64_t>(21 + b));
    if (b + 1 == batch) {
      for (std::int64_t row = 0; row < 2 * n; ++row) {
        factor[static_cast<std::size_t>(row * n + 5)] = 0.0;
        factor[static_cast<std::size_t>(row * n + 40)] =
            factor[static_cast<std::size_t>(row * n + 7)];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        double sum = 0.0;
        for (std::int64_t row = 0; row < 2 * n; ++row) {
          sum += factor[static_cast<std::size_t>(row * n + i)] *
                 factor[static_cast<std::size_t>(row * n + j)];
        }
        dense[static_cast<std::size_t>((b * n + i) * n + j)] = sum;
        dense[static_cast<std::size_t>((b * n + j) * n + i)] = sum;
      }
    }
  }
  return dense;
}

}  // namespace vindex::kernels
