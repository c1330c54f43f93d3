// Owns the section on decoding: one thread, in thread CPU time, beside a copy of the same output.
#include "encoded_weights.hpp"
#include "section.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "decode/moments.hpp"
#include "decode/simd_level.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

namespace vindex::throughput {

namespace {

/// The published speed of ggml's own decoders, the bar of this project's: float32 written per
/// second. Source: ggml's scalar decoders (dequantize_row_*, d99724f2 of 2026-08-21), 16 M weights,
/// best of nine, one thread of an AMD EPYC with AVX-512, gcc 12 -O3 -march=native; memcpy
/// there 18.5 GB/s.
struct Figure {
  std::string_view encoding;
  double gb_per_s;
};

constexpr double kMemcpyThere = 18.5;

constexpr Figure kFigures[] = {
    {"F16", 2.4},    {"BF16", 21.9},    {"Q8_0", 18.6},   {"Q4_0", 7.8},   {"Q4_1", 7.1},
    {"Q5_0", 4.5},   {"Q5_1", 4.1},     {"Q2_K", 5.8},    {"Q3_K", 4.0},   {"Q4_K", 20.5},
    {"Q5_K", 18.7},  {"Q6_K", 3.7},     {"IQ4_NL", 5.4},  {"IQ4_XS", 4.7}, {"IQ3_XXS", 1.43},
    {"IQ3_S", 1.46}, {"IQ2_XXS", 1.48}, {"IQ2_XS", 1.46}, {"IQ2_S", 1.38}, {"IQ1_S", 9.4},
    {"IQ1_M", 6.6},  {"TQ1_0", 19.3},   {"TQ2_0", 18.6},  {"MXFP4", 5.1},  {"NVFP4", 4.6},
    {"Q1_0", 1.2},   {"Q2_0", 6.5},
};

/// What ggml's decoder of `encoding` would write per second, in GB/s, on a machine whose memcpy
/// writes `memcpy_gb_per_s`, if it keeps its share of it; nothing where no figure is known.
std::optional<double> ggml_decode_gb_per_s(std::string_view encoding, double memcpy_gb_per_s) {
  const auto* found =
      std::find_if(std::begin(kFigures), std::end(kFigures),
                   [encoding](const Figure& figure) { return figure.encoding == encoding; });
  if (found == std::end(kFigures)) {
    return std::nullopt;
  }
  return found->gb_per_s * memcpy_gb_per_s / kMemcpyThere;
}

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
  throw UsageError("E-SIMD",
                   fmt::format("`{}` is not a SIMD level of this processor: baseline, avx2 "
                               "or avx512",
                               printable(name)));
}

/// A matrix of a scheme that needs more than one scale, by the label of its sample.
std::unique_ptr<decode::EncodedSample> sample_of(const decode::SampleShape& shape) {
  std::uint32_t state = 1;
  return std::make_unique<decode::EncodedSample>(
      shape, 0,
      [&](std::span<std::uint8_t> values, decode::CompanionRole role, decode::ElementType type) {
        // Codes of any bits; scales of ordinary size, since overflows take other paths.
        if (role != decode::CompanionRole::kCount && type == decode::ElementType::kF32) {
          const std::vector<float> numbers = noise(static_cast<std::int64_t>(values.size() / 4), 3);
          std::memcpy(values.data(), numbers.data(), numbers.size() * sizeof(float));
          return;
        }
        for (std::uint8_t& value : values) {
          state = state * 1664525U + 1013904223U;
          value = static_cast<std::uint8_t>(state >> 24U);
        }
        const bool is_half =
            type == decode::ElementType::kF16 || type == decode::ElementType::kBF16;
        for (std::size_t i = 1; i < values.size(); i += 2) {
          values[i] = is_half ? (type == decode::ElementType::kF16 ? 0x21 : 0x3C) : values[i];
        }
      });
}

/// Every scheme's samples at the shape that is measured.
std::vector<decode::SampleShape> scheme_samples(std::int64_t rows, std::int64_t cols) {
  std::vector<decode::SampleShape> samples;
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (decode::SampleShape& shape : decode::shapes_of(row, rows, cols, 64)) {
      if (shape.encoding.scheme != decode::Scheme::kPlain && shape.rows == rows &&
          shape.cols == cols) {
        samples.push_back(std::move(shape));
      }
    }
  }
  return samples;
}

/// What is decoded: weights of an encoding that is known by itself, or a scheme's sample.
struct Subject {
  std::unique_ptr<EncodedWeights> weights;
  std::unique_ptr<decode::EncodedSample> sample;
  const decode::EncodedMatrix& matrix() const {
    return weights != nullptr ? weights->matrix() : sample->matrix();
  }
};

/// `labels`, "all" standing for every encoding and every sample.
std::vector<Subject> subjects_of(const std::vector<std::string>& labels, std::int64_t rows,
                                 std::int64_t cols) {
  std::vector<Subject> subjects;
  const std::vector<decode::SampleShape> samples = scheme_samples(rows, cols);
  const auto add_weights = [&](const decode::Encoding& encoding) {
    subjects.push_back({std::make_unique<EncodedWeights>(encoding, rows, cols, 1), nullptr});
  };
  for (const std::string& label : labels) {
    if (label == "all") {
      for (const decode::Encoding& encoding : known_encodings()) {
        if (encoding.scheme == decode::Scheme::kPlain) {
          add_weights(encoding);
        }
      }
    }
    bool is_sample = label == "all";
    for (const decode::SampleShape& shape : samples) {
      if (label == "all" || shape.encoding.label == label) {
        is_sample = true;
        subjects.push_back({nullptr, sample_of(shape)});
      }
    }
    if (!is_sample) {
      add_weights(encoding_of(label));
    }
  }
  return subjects;
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

  const std::vector<Subject> subjects = subjects_of(settings.decode_encodings, rows, cols);
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
  for (const Subject& subject : subjects) {
    found.push_back(row_of("decode", subject.matrix().encoding->label));
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
      if (i < subjects.size()) {
        decode::decode_matrix_at(level, subjects[i].matrix(), out, cols);
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
    if (const auto bar = ggml_decode_gb_per_s(row.encoding, limit);
        bar && row.name == "decode" && !row.samples.empty()) {
      row.note = fmt::format("{:.1f} times ggml's {:.2f} (published, scaled by memcpy)",
                             best_of(row) / *bar, *bar);
    }
    section.add(std::move(row));
  }
}

}  // namespace vindex::throughput
