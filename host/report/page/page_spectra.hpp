// Owns what a page holds of spectra: of each one the values at chosen ranks, and the law of noise
// of each shape at the same ranks.
#pragma once

#include "page_sections.hpp"

#include "results/rows/stored_row.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::report {

struct Shape {
  std::int64_t rows = 0, cols = 0;
};

/// Ranks, from 1 and ascending, of at most `most` (at least 16) of `count` values: all of them, or
/// the first eight, then half of the rest by equal ratios and half by equal steps, the last one
/// among them.
std::vector<std::int64_t> chosen_ranks(std::int64_t count, std::int64_t most);

/// Steps of the logarithm of a singular value in a page of so many rows: half a step is a relative
/// error of 2.4e-4, and of 9.8e-4 in a large page.
constexpr double sigma_steps(std::int64_t rows) { return rows <= 8000 ? 2048.0 : 512.0; }
/// What stands for a singular value of zero, or one that is none.
inline constexpr std::uint16_t kNoSigma = 65535;

/// {"steps", "groups": [{"ranks", "length", "matrix", "first", "codes"}], "laws": [{"lower",
/// "upper", "edge", "x", "density", "ranks", "sigma"}]}. A group is spectra of one length; `matrix`
/// their rows and `first` their s_1. Codes are ln(s_1 / s_i) in steps, rank by rank, each as the
/// difference to the rank before, modulo 2^16. A law is that of one of `shapes`, of l in units of n
/// mp_scale^2 and of s in those of their root; null where a side is below 2.
Json page_spectra(PageFile& file, std::span<const Shape> shapes,
                  std::span<const results::StoredRow> rows);

}  // namespace vindex::report
