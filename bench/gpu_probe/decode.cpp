// Decoding on the device: every format that is read, beside a copy of as many bytes in the same
// run. Bytes are those read (codes and what stands beside them) and those written (float32).
#include "probe.hpp"

#include "decode/bind_view.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "decode/formats/decode_view.hpp"
#include "kernels/decode/decode_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace vindex::probe {

namespace {

constexpr std::int64_t kRows = 28672;  // four experts: several times what L2 holds
constexpr std::int64_t kCols = 2048;
constexpr std::int32_t kGroup = 32;

/// Bits of any kind for codes; halves and scales of ordinary size, as weights have them.
void fill(std::span<std::uint8_t> values, decode::CompanionRole role, decode::ElementType type) {
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  for (std::size_t i = 0; i < values.size(); i += sizeof(state)) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t bits = state ^ (state >> 29U);
    std::memcpy(values.data() + i, &bits, std::min(sizeof(bits), values.size() - i));
  }
  const bool is_half = type == decode::ElementType::kF16 || type == decode::ElementType::kBF16;
  if (is_half) {
    for (std::size_t i = 1; i < values.size(); i += 2) {
      values[i] = static_cast<std::uint8_t>((values[i] & 0x83U) |
                                            (type == decode::ElementType::kF16 ? 0x28U : 0x3CU));
    }
  } else if (role != decode::CompanionRole::kCount && type == decode::ElementType::kF32) {
    for (std::size_t i = 0; i + sizeof(float) <= values.size(); i += sizeof(float)) {
      const float scale = 0.01F * static_cast<float>(1 + values[i] % 7);
      std::memcpy(values.data() + i, &scale, sizeof(scale));
    }
  }
}

/// The sample's bytes on the device, and its view there.
class OnDevice {
 public:
  OnDevice(Probe& probe, const decode::EncodedMatrix& matrix, std::size_t code_bytes,
           DeviceBuffer& memory)
      : view_(decode::decode_view(matrix)) {
    std::size_t wanted = padded(code_bytes);
    for (std::int32_t i = 0; i < matrix.companion_count; ++i) {
      wanted += padded(matrix.companions[static_cast<std::size_t>(i)].bytes.size());
    }
    auto* place = static_cast<std::uint8_t*>(memory.reserve(wanted));
    const auto copied = [&](const void* from, std::size_t bytes) {
      check(cudaMemcpyAsync(place, from, bytes, cudaMemcpyHostToDevice, probe.stream()));
      bytes_ += bytes;
      return std::exchange(place, place + padded(bytes));
    };
    view_.codes = copied(matrix.codes, code_bytes);
    for (std::int32_t i = 0; i < matrix.companion_count; ++i) {
      const decode::Companion& one = matrix.companions[static_cast<std::size_t>(i)];
      auto& pointer = view_.companions[decode::role_index(one.role)];
      if (pointer != nullptr) {
        pointer = copied(one.bytes.data(), one.bytes.size());
      }
    }
    check(cudaStreamSynchronize(probe.stream()));
  }
  const decode::DecodeView& view() const { return view_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  decode::DecodeView view_;
  std::size_t bytes_ = 0;
};

/// What users have most comes first: the time limit may cut the rest.
std::vector<decode::SampleShape> samples() {
  constexpr std::array<decode::ElementType, 12> kFirst = {
      decode::ElementType::kBF16, decode::ElementType::kF16,    decode::ElementType::kF32,
      decode::ElementType::kQ4_K, decode::ElementType::kQ6_K,   decode::ElementType::kQ8_0,
      decode::ElementType::kQ5_K, decode::ElementType::kIQ4_XS, decode::ElementType::kQ3_K,
      decode::ElementType::kQ4_0, decode::ElementType::kMXFP4,  decode::ElementType::kQ2_K};
  const auto rank = [&](const decode::Encoding& encoding) {
    if (encoding.scheme == decode::Scheme::kFp8Block ||
        (encoding.scheme == decode::Scheme::kPackedInt && encoding.bits == 4)) {
      return 0;
    }
    const bool is_first = encoding.scheme == decode::Scheme::kPlain &&
                          std::find(kFirst.begin(), kFirst.end(), encoding.type) != kFirst.end();
    return is_first ? 1 : encoding.scheme == decode::Scheme::kPlain ? 2 : 3;
  };
  std::vector<decode::SampleShape> all;
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (decode::SampleShape& shape : decode::shapes_of(row, kRows, kCols, kGroup)) {
      all.push_back(std::move(shape));
    }
  }
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return rank(a.encoding) < rank(b.encoding);
  });
  return all;
}

}  // namespace

void probe_decode(Probe& probe) {
  DeviceBuffer code_memory("codes");
  DeviceBuffer out_memory("decoded weights");
  const std::vector<decode::SampleShape> all = samples();
  std::int64_t most = 0;
  for (const decode::SampleShape& shape : all) {
    most = std::max(most, shape.rows * shape.cols);
  }
  auto* const out = out_memory.reserve_array<float>(static_cast<std::size_t>(most));
  double limit = 0.0;
  {
    DeviceBuffer from_memory("copies from");
    auto* const from = from_memory.reserve_array<float>(static_cast<std::size_t>(most));
    fill_random(from, most, 1, probe.stream());
    const double bytes = 8.0 * static_cast<double>(most);
    for (const bool by_kernel : {false, true}) {
      probe.run(plain_row("probe.device_copy",
                          by_kernel ? "kernel, as many bytes as decoded"
                                    : "cudaMemcpyAsync, as many bytes as decoded",
                          "gb_per_s"),
                [&](bench::Row& row) {
                  row.samples = gigabytes_per_second(bytes, probe.microseconds([&] {
                    if (by_kernel) {
                      copy_on_device(from, out, most, 1, probe.stream());
                    } else {
                      check(cudaMemcpyAsync(out, from, static_cast<std::size_t>(4 * most),
                                            cudaMemcpyDeviceToDevice, probe.stream()));
                    }
                  }));
                  limit = std::max(limit, bench::median(row.samples));
                });
    }
  }
  for (const decode::SampleShape& shape : all) {
    bench::Row row{.name = "probe.decode",
                   .route = "a thread per four weights",
                   .backend = "cuda",
                   .rows = shape.rows,
                   .cols = shape.cols,
                   .batch = 1,
                   .encoding = shape.encoding.label,
                   .unit = "gb_per_s"};
    if (limit > 0.0) {
      row.limit = limit;
    }
    probe.run(std::move(row), [&](bench::Row& found) {
      const decode::EncodedSample sample(shape, 0, fill);
      const auto code_bytes =
          decode::code_bytes(shape.encoding, static_cast<std::uint64_t>(shape.rows),
                             static_cast<std::uint64_t>(shape.cols));
      const OnDevice matrix(probe, sample.matrix(), static_cast<std::size_t>(code_bytes.value()),
                            code_memory);
      const double bytes =
          static_cast<double>(matrix.bytes()) + 4.0 * static_cast<double>(shape.rows * shape.cols);
      found.samples = gigabytes_per_second(bytes, probe.microseconds([&] {
        kernels::decode_matrix(shape.encoding, matrix.view(), out, shape.cols, probe.stream());
      }));
      if (limit > 0.0 && !found.samples.empty()) {
        found.note = number(100.0 * bench::median(found.samples) / limit) + " % of the copy";
      }
    });
  }
}

}  // namespace vindex::probe
