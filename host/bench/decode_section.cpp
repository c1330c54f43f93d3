// Decoding on one thread, in thread CPU time, beside a copy of the same output.
#include "section.hpp"

#include <vindex/bench/weights.hpp>
#include <vindex/core/error.hpp>
#include <vindex/decode/simd_level.hpp>

#include <fmt/format.h>

#include <memory>

namespace vindex::bench {

namespace {

decode::SimdLevel level_of(const std::string& name) {
  if (name.empty()) {
    return decode::best_simd_level();
  }
  for (const auto level :
       {decode::SimdLevel::kBaseline, decode::SimdLevel::kAvx2, decode::SimdLevel::kAvx512}) {
    if (decode::simd_level_name(level) == name && decode::is_supported(level)) {
      return level;
    }
  }
  throw UsageError("E-SIMD", fmt::format("`{}` is no SIMD level of this processor: baseline, avx2 "
                                         "or avx512",
                                         printable(name)));
}

}  // namespace

void decode_section(Section& section) {
  const BenchSettings& settings = section.settings;
  const decode::SimdLevel level = level_of(settings.simd_level);
  const std::int64_t rows = settings.decode_rows;
  const std::int64_t cols = settings.decode_cols;
  const auto count = static_cast<std::size_t>(rows * cols);
  const double gigabytes = 1e-9 * static_cast<double>(count * sizeof(float));
  const double limit = section.limits.memcpy_gb_per_s(1);

  std::vector<std::unique_ptr<EncodedWeights>> weights;
  std::vector<Row> found;
  const auto row_of = [&](const std::string& name, const std::string& encoding) {
    return Row{.name = name,
               .route = std::string(decode::simd_level_name(level)) + ", one thread",
               .rows = rows,
               .cols = cols,
               .encoding = encoding,
               .unit = "gb_f32_per_s",
               .limit = limit};
  };
  for (const std::string& label : settings.decode_encodings) {
    const decode::Encoding encoding = encoding_of(label);
    weights.push_back(std::make_unique<EncodedWeights>(encoding, rows, cols, 1));
    found.push_back(row_of("decode", encoding.label));
  }
  found.push_back(row_of("probe.moments", "F32"));

  const std::vector<float> values = noise(rows * cols, 2);
  // Aligned to a cache line, as the program's own buffers are.
  std::vector<float> storage(count + 16, 0.5F);
  void* aligned = storage.data();
  std::size_t room = storage.size() * sizeof(float);
  auto* const out = static_cast<float*>(std::align(64, count * sizeof(float), aligned, room));
  volatile double sink = 0.0;  // keeps what is computed
  // Samples are interleaved over the encodings, so that a noisy neighbour hits all of them.
  for (int sample = -1; sample < settings.sampling.samples && !settings.sampling.stopped();
       ++sample) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double start = thread_seconds();
      if (i < weights.size()) {
        decode::decode_matrix_at(level, weights[i]->matrix(), out, cols);
      } else {
        sink = sink + decode::moments_of_at(level, values.data(), rows, cols, cols).mean;
      }
      const double seconds = thread_seconds() - start;
      sink = sink + static_cast<double>(out[count / 2]);
      if (sample >= 0) {
        found[i].samples.push_back(gigabytes / seconds);
      }
    }
  }
  for (Row& row : found) {
    section.add(std::move(row));
  }
}

}  // namespace vindex::bench
