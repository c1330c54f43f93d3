// Owns the inputs of the self-tests: seeded samples of every kind of operand, of dense symmetric
// and of band matrices, and the dense form of what comes back.
#pragma once

#include "core/philox.hpp"
#include "decode/formats/decode_view.hpp"
#include "kernels/band/band_layout.hpp"
#include "kernels/device/check.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::kernels {

/// Uniform in [-1, 1).
inline double random_unit(std::uint64_t key, std::uint64_t index) {
  const PhiloxBlock block = philox_block(key, index);
  const std::uint64_t bits =
      (static_cast<std::uint64_t>(block.word[0]) << 32U | block.word[1]) >> 11U;
  return static_cast<double>(bits) * 0x1p-52 - 1.0;
}

inline void fill_random(std::span<double> out, std::uint64_t key) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = random_unit(key, i);
  }
}

/// One encoded matrix with random codes and scales.
class EncodedSample {
 public:
  /// Scales, where there are any, of `scale_type`, kBF16 or kF32.
  EncodedSample(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                decode::ElementType scale_type = decode::ElementType::kBF16);

  std::int64_t rows() const { return matrix_.rows; }
  std::int64_t cols() const { return matrix_.cols; }
  std::size_t bytes() const { return codes_.size() + scales_.size(); }
  const decode::EncodedMatrix& matrix() const { return matrix_; }
  /// Weights as the host decodes them, row-major.
  const std::vector<double>& weights() const { return weights_; }
  double sum_squares() const;
  /// Copies codes and scales to `to` on the device; their view there.
  decode::DecodeView send(std::uint8_t* to, cudaStream_t stream) const;

 private:
  decode::EncodedMatrix matrix_;
  std::vector<std::byte> codes_;  ///< a multiple of 256 bytes
  std::vector<std::byte> scales_;
  std::vector<double> weights_;
};

/// batch x n x n: A^T A of random 2n x n matrices, the last one with a zero column and two equal.
std::vector<double> dense_samples(std::int64_t n, std::int64_t batch);

/// Symmetric n x n matrices whose eigenvalues, ascending, are known without computing any.
struct KnownMatrix {
  std::vector<double> elements;
  std::vector<double> values;
};
/// A dense positive definite one with eigenvalues between 1/8 and 1 in the basis of the cosine
/// transform, so that every element is a sum of two numbers.
KnownMatrix known_dense(std::int64_t n);
/// One of half bandwidth kBand: 16 interleaved random tridiagonal matrices, mixed by layers of
/// rotations of neighbours. Elements within [-1, 1].
KnownMatrix known_band(std::int64_t n);

/// The lower triangle of `dense` within kBand of the diagonal, in the layout of band_layout.hpp.
template <typename Stored>
std::vector<Stored> band_of_dense(const std::vector<double>& dense, std::int64_t n) {
  std::vector<Stored> band(static_cast<std::size_t>(band_elements(band_order(n))), Stored{0});
  for (std::int64_t col = 0; col < n; ++col) {
    for (std::int64_t row = col; row < std::min(n, col + kBand + 1); ++row) {
      band[static_cast<std::size_t>(band_index(row, col))] =
          static_cast<Stored>(dense[static_cast<std::size_t>(row * n + col)]);
    }
  }
  return band;
}

/// batch random bands in the layout of band_layout.hpp, entries within [-1/4, 1/4].
template <typename Stored>
std::vector<Stored> band_samples(std::int64_t n, std::int64_t batch) {
  const std::int64_t stride = band_elements(band_order(n));
  std::vector<Stored> bands(static_cast<std::size_t>(batch * stride), Stored{0});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t row = col; row < std::min(n, col + kBand + 1); ++row) {
        const std::int64_t at = band_index(row, col);
        bands[static_cast<std::size_t>(b * stride + at)] = static_cast<Stored>(
            0.25 * random_unit(static_cast<std::uint64_t>(31 + b), static_cast<std::uint64_t>(at)));
      }
    }
  }
  return bands;
}

/// batch x n x n symmetric matrices of the bands' lower triangle, `width` subdiagonals.
template <typename Stored>
std::vector<double> dense_of_bands(const std::vector<Stored>& bands, std::int64_t n,
                                   std::int64_t batch, std::int64_t width) {
  const std::int64_t stride = band_elements(band_order(n));
  std::vector<double> dense(static_cast<std::size_t>(batch * n * n), 0.0);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t row = col; row < std::min(n, col + width + 1); ++row) {
        const auto value =
            static_cast<double>(bands[static_cast<std::size_t>(b * stride + band_index(row, col))]);
        dense[static_cast<std::size_t>((b * n + col) * n + row)] = value;
        dense[static_cast<std::size_t>((b * n + row) * n + col)] = value;
      }
    }
  }
  return dense;
}

}  // namespace vindex::kernels
