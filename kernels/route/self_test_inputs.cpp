// Owns making these inputs from their seeds, and the matrices with known eigenvalues (of cosines)
// beside them.
#include "self_test_inputs.hpp"

#include "host_reference.hpp"

#include "core/integers.hpp"
#include "decode/bind_view.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"

#include <cmath>
#include <cstring>
#include <numbers>

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

KnownMatrix known_dense(std::int64_t n) {
  const auto order = static_cast<std::size_t>(n);
  KnownMatrix out = {std::vector<double>(order * order), {}};
  for (std::int64_t k = 0; k < n; ++k) {
    out.values.push_back(0.5625 + 0.4375 * random_unit(41, static_cast<std::uint64_t>(k)));
  }
  // With the vectors sqrt(2 / n) cos(pi k (2 i + 1) / (2 n)), sqrt(1 / n) for k = 0, element (i, j)
  // is t(i - j) + t(i + j + 1), t(m) the cosine sum of the values.
  std::vector<double> cosine(2 * order);
  for (std::size_t m = 0; m < 2 * order; ++m) {
    cosine[m] = std::cos(std::numbers::pi * static_cast<double>(m) / static_cast<double>(n));
  }
  std::vector<double> sums(2 * order);
  for (std::size_t m = 0; m < 2 * order; ++m) {
    double sum = 0.5 * out.values[0];
    for (std::size_t k = 1; k < order; ++k) {
      sum += out.values[k] * cosine[k * m % (2 * order)];
    }
    sums[m] = sum / static_cast<double>(n);
  }
  for (std::size_t i = 0; i < order; ++i) {
    for (std::size_t j = 0; j < order; ++j) {
      out.elements[i * order + j] = sums[i > j ? i - j : j - i] + sums[i + j + 1];
    }
  }
  std::sort(out.values.begin(), out.values.end());
  return out;
}

KnownMatrix known_band(std::int64_t n) {
  constexpr std::int64_t kChains = kBand / 2;
  KnownMatrix out = {std::vector<double>(static_cast<std::size_t>(n * n), 0.0), {}};
  double* const a = out.elements.data();
  std::uint64_t draws = 0;
  const auto draw = [&] { return 0.25 * random_unit(42, draws++); };
  for (std::int64_t chain = 0; chain < std::min(kChains, n); ++chain) {
    std::vector<double> diagonal;
    std::vector<double> off_diagonal;
    for (std::int64_t i = chain; i < n; i += kChains) {
      diagonal.push_back(draw());
      off_diagonal.push_back(draw());
      a[i * n + i] = diagonal.back();
      if (i + kChains < n) {
        a[(i + kChains) * n + i] = a[i * n + i + kChains] = off_diagonal.back();
      }
    }
    const auto own = reference_tridiagonal_values(diagonal, off_diagonal);
    out.values.insert(out.values.end(), own.begin(), own.end());
  }
  std::sort(out.values.begin(), out.values.end());
  // Half bandwidth 16 becomes 17 and then two more with every layer of pairs, which do not all
  // begin alike: 31. Where only every third row begins a pair none of those meet, and it is 32.
  constexpr std::int64_t kLayers = 9;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::int64_t step = layer + 1 < kLayers ? 2 : 3;
    for (std::int64_t i = layer % 2; i + 1 < n; i += step) {
      const double angle = std::numbers::pi * 4.0 * draw();
      const double c = std::cos(angle);
      const double s = std::sin(angle);
      const std::int64_t first = std::max<std::int64_t>(0, i - kBand - 1);
      const std::int64_t last = std::min(n, i + kBand + 3);
      for (std::int64_t j = first; j < last; ++j) {
        const double x = a[i * n + j];
        const double y = a[(i + 1) * n + j];
        a[i * n + j] = c * x + s * y;
        a[(i + 1) * n + j] = c * y - s * x;
      }
      for (std::int64_t j = first; j < last; ++j) {
        const double x = a[j * n + i];
        const double y = a[j * n + i + 1];
        a[j * n + i] = c * x + s * y;
        a[j * n + i + 1] = c * y - s * x;
      }
    }
  }
  return out;
}

}  // namespace vindex::kernels
