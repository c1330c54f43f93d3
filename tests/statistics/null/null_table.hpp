// Owns the recorded draws of noise that nulls are compared with: which shapes, how they are kept,
// and the page that is made of them.
#pragma once

#include "noise_draws.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::test {

/// A shape of the table, and what its draws gave.
struct DrawnShape {
  std::int64_t rows = 0, cols = 0, draws = 0;
  std::uint64_t seed = 0;
  std::vector<DrawnMean> means = {};
};

/// The shapes of the table with their draws and seeds; no means.
std::span<const DrawnShape> null_table_shapes();

/// Whether the program's nulls of that shape are means of draws themselves, and the standard error
/// that these have, from that of as many recorded ones.
bool is_null_drawn(const DrawnShape& shape);
double error_of_null(const DrawnShape& shape, const DrawnMean& drawn);

/// "rows,cols,metric,draws,mean,error" lines of one shape.
std::string null_draw_lines(const DrawnShape& shape);
/// The file of such lines under a line of names. Throws std::runtime_error where it is no such
/// file.
std::vector<DrawnShape> read_null_draws(const std::string& path);
std::string text_of_file(const std::string& path);

/// docs/measuring/nulls.md.
std::string null_page(const std::vector<DrawnShape>& shapes);

}  // namespace vindex::test
