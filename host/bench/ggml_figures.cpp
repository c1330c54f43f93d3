// Source: ggml's scalar decoders (dequantize_row_*, d99724f2 of 2026-08-21), 16 M weights, best of
// nine, one thread of an AMD EPYC with AVX-512, gcc 12 -O3 -march=native; memcpy there 18.5 GB/s.
#include "ggml_figures.hpp"

#include <algorithm>
#include <iterator>

namespace vindex::bench {

namespace {

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

}  // namespace

std::optional<double> ggml_decode_gb_per_s(std::string_view encoding, double memcpy_gb_per_s) {
  const auto* found =
      std::find_if(std::begin(kFigures), std::end(kFigures),
                   [encoding](const Figure& figure) { return figure.encoding == encoding; });
  if (found == std::end(kFigures)) {
    return std::nullopt;
  }
  return found->gb_per_s * memcpy_gb_per_s / kMemcpyThere;
}

}  // namespace vindex::bench
