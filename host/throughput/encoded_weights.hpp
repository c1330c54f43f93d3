// Owns the weights that benchmarks work on: seeded weights of a chosen spectrum in any encoding
// that can be written, and plausible codes in those that can only be read.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::throughput {

/// Every encoding that can be decoded here and needs no more than one scale: F8 blocks of 128 x
/// 128, INT4 groups of 32 and INT8 groups of 128 stand for their families.
std::vector<decode::Encoding> known_encodings();

/// The encoding with this label ("BF16", "F8_E4M3/128x128", "F8" for short, "INT4/g32", "INT4").
/// Errors: UsageError E-ENCODING naming those it knows.
decode::Encoding encoding_of(const std::string& label);

/// Spectra that weights can have: "trained" first, "noise", the other kinds of a synthetic layer
/// (docs/commands/synth.md), and those that a float32 Gram loses most of: "geometric" (falling to
/// s_1/1000), "steep" (s_i ~ 1/i), "cluster" (one value, all others 1/1000 of it), "dead" (noise of
/// which every eighth row and column is zero).
std::vector<std::string> known_spectra();

/// One rows x cols matrix with the bytes it points into.
class EncodedWeights {
 public:
  /// Weights of `spectrum` (noise: of standard deviation 0.02; others as in a synthetic layer)
  /// where the encoding can be written, and seeded codes with constant scales where it can only be
  /// read (`has_spectrum()` says which): good for decoding, not for spectra. Errors: UsageError
  /// E-SHAPE where the encoding cannot store rows of `cols` weights, E-SYNTH-SPEC for a spectrum
  /// that is not known.
  EncodedWeights(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                 std::uint64_t seed, const std::string& spectrum = "noise");
  EncodedWeights(const EncodedWeights&) = delete;
  EncodedWeights& operator=(const EncodedWeights&) = delete;

  const decode::EncodedMatrix& matrix() const { return matrix_; }
  bool has_spectrum() const { return has_spectrum_; }
  /// Of codes and scales together, scales on a cache line of their own.
  std::size_t bytes() const { return scale_offset() + scales_.size(); }
  /// The same matrix over a copy of its bytes at the beginning of `into`.
  decode::EncodedMatrix copied_to(std::span<std::byte> into) const;

 private:
  void fill_with(const std::vector<float>& values);
  void fill_with_codes(std::uint64_t seed);
  std::size_t scale_offset() const { return (codes_.size() + 63) / 64 * 64; }

  decode::Encoding encoding_;
  std::vector<std::byte> codes_;
  std::vector<std::byte> scales_;
  bool has_spectrum_ = false;
  decode::EncodedMatrix matrix_;
};

/// Independent values of deviation 0.02, near enough to normal for timing.
std::vector<float> noise(std::int64_t count, std::uint64_t seed);

}  // namespace vindex::throughput
