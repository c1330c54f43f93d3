// Owns the random numbers: Philox4x32-10 by counter, normals by Box-Muller in float32. Element i of
// a stream depends on (key, stream, i) alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vindex::synth {

/// Key of the tensor called `name` under the model's `seed`: FNV-1a of the name, mixed with the
/// seed by two rounds of splitmix64.
std::uint64_t tensor_key(std::uint64_t seed, std::string_view name);

/// Streams of one tensor, so that its parts are independent.
enum class Stream : std::uint32_t {
  kEntries = 0,
  kRowScales = 1,
  kLeftVectors = 2,
  kRightVectors = 3,
  kLeftSigns = 4,
  kRightSigns = 5,
};

/// Independent standard normals (float32; magnitude at most 6.7) from the beginning of the stream.
/// Speed about 2 ns per value on one core. Source: Salmon et al., SC 2011 (Philox4x32-10); Box and
/// Muller 1958.
void fill_normals(std::uint64_t key, Stream stream, std::span<float> out);

/// Random words from the beginning of the stream, in counter order.
void fill_words(std::uint64_t key, Stream stream, std::span<std::uint32_t> out);

}  // namespace vindex::synth
