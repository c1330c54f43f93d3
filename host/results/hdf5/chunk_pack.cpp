// Owns shuffling, splitting into bytes worth deflating and noise, and the checksum.
#include "chunk_pack.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <zlib.h>

namespace vindex::results {

namespace {

constexpr int kStored = 0;
constexpr int kDeflated = 1;

/// Bits per byte above which deflate finds nothing worth its time.
constexpr double kNoiseBits = 7.94;
constexpr std::size_t kSampledBytes = 8192;

bool is_noise(std::span<const std::byte> plane) {
  if (plane.size() < kSampledBytes) {
    return false;
  }
  std::array<std::uint32_t, 256> counts{};
  const std::size_t step = plane.size() / kSampledBytes;
  for (std::size_t i = 0; i < kSampledBytes; ++i) {
    ++counts[static_cast<std::size_t>(plane[i * step])];
  }
  double bits = 0.0;
  for (const std::uint32_t count : counts) {
    if (count > 0) {
      const double share = count / static_cast<double>(kSampledBytes);
      bits -= share * std::log2(share);
    }
  }
  return bits > kNoiseBits;
}

std::vector<std::byte> shuffled(std::span<const std::byte> values, std::size_t element_bytes) {
  std::vector<std::byte> planes(values.size());
  const std::size_t count = values.size() / element_bytes;
  for (std::size_t plane = 0; plane < element_bytes; ++plane) {
    std::byte* to = planes.data() + plane * count;
    const std::byte* from = values.data() + plane;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = from[i * element_bytes];
    }
  }
  return planes;
}

/// A zlib stream whose level changes from plane to plane. It serves one chunk after the other: its
/// 256 KiB of tables would else be touched first for every column of a table.
class Deflater {
 public:
  Deflater() = default;
  ~Deflater() {
    if (is_ready_) {
      deflateEnd(&stream_);
    }
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  /// A chunk of `bytes` comes, whatever became of the one before.
  void begin(std::size_t bytes) {
    if (!is_ready_ && deflateInit(&stream_, kDeflated) != Z_OK) {
      throw OutOfMemory("compression", bytes);
    }
    is_ready_ = true;
    check(deflateReset(&stream_) == Z_OK);
    // Stored blocks add five bytes to every 16 KiB at worst; a change of level ends a block.
    out_.resize(deflateBound(&stream_, static_cast<uLong>(bytes)) + bytes / 1024 + 4096);
    stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
    stream_.avail_out = static_cast<uInt>(out_.size());
  }
  void add(std::span<const std::byte> bytes, int level) {
    if (level != level_) {
      level_ = level;
      check(deflateParams(&stream_, level, Z_DEFAULT_STRATEGY) == Z_OK);
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    check(deflate(&stream_, Z_NO_FLUSH) == Z_OK && stream_.avail_in == 0);
  }
  std::vector<std::byte> finish() {
    stream_.avail_in = 0;
    check(deflate(&stream_, Z_FINISH) == Z_STREAM_END);
    out_.resize(stream_.total_out);
    return std::move(out_);
  }

 private:
  static void check(bool good) { expects(good, "a zlib stream within its bound"); }
  z_stream stream_{};
  bool is_ready_ = false;
  std::vector<std::byte> out_;
  int level_ = kDeflated;
};

}  // namespace

std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  // Short enough that 64 bits hold both sums without a reduction.
  constexpr std::size_t kWords = 1U << 16U;
  const auto reduced = [](std::uint64_t sum) { return sum == 0 ? 0 : (sum - 1) % 65535 + 1; };
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.size(), at + 2 * kWords);
    for (; at < end; at += 2) {
      const auto first = static_cast<std::uint64_t>(bytes[at]);
      const auto second = at + 1 < end ? static_cast<std::uint64_t>(bytes[at + 1]) : 0;
      low += first << 8U | second;
      high += low;
    }
    low = reduced(low);
    high = reduced(high);
  }
  return static_cast<std::uint32_t>(high << 16U | low);
}

std::vector<std::byte> pack_chunk(std::span<const std::byte> values, std::size_t element_bytes) {
  expects(element_bytes > 0 && values.size() % element_bytes == 0, "a chunk of whole elements");
  expects(values.size() < std::numeric_limits<uInt>::max() / 2, "a chunk below 2 GiB");
  const std::vector<std::byte> planes = shuffled(values, element_bytes);
  const std::size_t plane_bytes = values.size() / element_bytes;
  static thread_local Deflater deflater;
  deflater.begin(values.size());
  for (std::size_t plane = 0; plane < element_bytes; ++plane) {
    const auto bytes = std::span(planes).subspan(plane * plane_bytes, plane_bytes);
    deflater.add(bytes, is_noise(bytes) ? kStored : kDeflated);
  }
  std::vector<std::byte> out = deflater.finish();
  const std::uint32_t checksum = fletcher32(out);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<std::byte>(checksum >> shift & 0xFFU));
  }
  return out;
}

}  // namespace vindex::results
