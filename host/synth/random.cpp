// Owns blocks of Philox numbers and their transform to normals, in wide registers where there are
// any.
#include "random.hpp"

#include "core/philox.hpp"
#include "core/portable.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace vindex::synth {
namespace {

// Counters handled together: enough for any vector width. Part of the format: it fixes the order.
constexpr std::size_t kLanes = 32;
constexpr std::size_t kWordsPerBlock = 4 * kLanes;

struct Block {
  alignas(64) std::array<std::array<std::uint32_t, kLanes>, 4> words;
};

/// Philox4x32-10 of kLanes counters from `first_counter` on, side by side.
void philox_blocks(std::uint64_t key, Stream stream, std::uint64_t first_counter, Block& block) {
  auto& [x0, x1, x2, x3] = block.words;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t counter = first_counter + lane;
    x0[lane] = static_cast<std::uint32_t>(counter);
    x1[lane] = static_cast<std::uint32_t>(counter >> 32U);
    x2[lane] = static_cast<std::uint32_t>(stream);
    x3[lane] = 0;
  }
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      philox_round(x0[lane], x1[lane], x2[lane], x3[lane], k0, k1);
    }
    k0 += kPhiloxWeyl[0];
    k1 += kPhiloxWeyl[1];
  }
}

// -2 ln u for u in (0, 1].
float minus_two_log(float u) {
  const auto bits = bits_as<std::int32_t>(u);
  const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;
  const float m = bits_as<float>(bits - exponent * (1 << 23));
  const float s = (m - 1.0F) / (m + 1.0F);
  const float z = s * s;
  const float series = ((z * (1.0F / 9) + 1.0F / 7) * z + 1.0F / 5) * z + 1.0F / 3;
  const float logarithm = 2.0F * s * (z * series + 1.0F);
  return -2.0F * (static_cast<float>(exponent) * 0.693147181F + logarithm);
}

// Two normals from two words: the radius from `a`; the angle in a quarter circle from `b`, whose
// two lowest bits (worth nothing to a float) choose the quarter.
[[gnu::always_inline]] inline void box_muller(std::uint32_t a, std::uint32_t b, float& first,
                                              float& second) {
  const float u = (static_cast<float>(static_cast<std::int32_t>(a >> 1U)) + 0.5F) * 0x1p-31F;
  const float radius = std::sqrt(minus_two_log(u));
  const float angle = static_cast<float>(static_cast<std::int32_t>(b)) * (0.785398163F * 0x1p-31F);
  const float z = angle * angle;
  const float sine =
      ((((z * (1.0F / 362880) - 1.0F / 5040) * z + 1.0F / 120) * z - 1.0F / 6) * z + 1.0F) * angle;
  const float cosine = (((z * (1.0F / 40320) - 1.0F / 720) * z + 1.0F / 24) * z - 0.5F) * z + 1.0F;
  // Masks instead of selections: compilers turn them into vector code.
  const std::uint32_t swap = 0U - (b & 1U);
  const std::uint32_t along = bits_as<std::uint32_t>(cosine * radius) ^ ((b & 2U) << 30U);
  const auto across = bits_as<std::uint32_t>(sine * radius);
  const std::uint32_t exchanged = (along ^ across) & swap;
  first = bits_as<float>(along ^ exchanged);
  second = bits_as<float>(across ^ exchanged);
}

}  // namespace

std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3U;
  }
  std::uint64_t key = hash;
  for (const std::uint64_t part : {seed, hash}) {
    key += part + 0x9E3779B97F4A7C15U;
    key = (key ^ (key >> 30U)) * 0xBF58476D1CE4E5B9U;
    key = (key ^ (key >> 27U)) * 0x94D049BB133111EBU;
    key ^= key >> 31U;
  }
  return key;
}

void fill_normals(std::uint64_t key, Stream stream, std::span<float> out) {
  Block block;
  std::array<float, kWordsPerBlock> normals;
  std::uint64_t counter = 0;
  for (std::size_t done = 0; done < out.size(); done += kWordsPerBlock, counter += kLanes) {
    philox_blocks(key, stream, counter, block);
    const auto& words = block.words;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      box_muller(words[0][lane], words[1][lane], normals[lane], normals[kLanes + lane]);
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      box_muller(words[2][lane], words[3][lane], normals[2 * kLanes + lane],
                 normals[3 * kLanes + lane]);
    }
    const std::size_t count = std::min(kWordsPerBlock, out.size() - done);
    std::memcpy(out.data() + done, normals.data(), count * sizeof(float));
  }
}

void fill_words(std::uint64_t key, Stream stream, std::span<std::uint32_t> out) {
  Block block;
  std::uint64_t counter = 0;
  for (std::size_t done = 0; done < out.size(); done += kWordsPerBlock, counter += kLanes) {
    philox_blocks(key, stream, counter, block);
    const std::size_t count = std::min(kWordsPerBlock, out.size() - done);
    std::memcpy(out.data() + done, block.words.data(), count * sizeof(std::uint32_t));
  }
}

}  // namespace vindex::synth
