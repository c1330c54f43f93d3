// Owns the list of shapes, the lines of the recorded draws, and the text of the page.
#include "null_table.hpp"

#include "statistics/null/nulls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace vindex::test {
namespace {

// Short sides from 64 to 4096; square, nearly square, 0.9, 1/2, 2/7 and 1/20, very long; both
// orientations. The condition number of a nearly square shape decides how many draws it takes. Then
// short sides below 64, whose nulls are drawn themselves, by other numbers.
constexpr int kShapeCount = 37;
const std::array<DrawnShape, kShapeCount>& shapes() {
  static const std::array<DrawnShape, kShapeCount> kShapes = {{
      {64, 64, 20000, 1},    {72, 64, 40000, 2},      {64, 128, 20000, 3},   {224, 64, 20000, 4},
      {64, 1280, 20000, 5},  {96, 96, 10000, 6},      {100, 96, 60000, 9},   {107, 96, 20000, 7},
      {96, 1920, 10000, 10}, {128, 448, 8000, 11},    {256, 256, 2000, 12},  {285, 256, 10000, 13},
      {512, 256, 2000, 14},  {256, 5120, 2000, 15},   {333, 340, 20000, 8},  {333, 370, 4000, 16},
      {512, 512, 500, 17},   {512, 1792, 500, 18},    {10240, 512, 500, 19}, {1024, 1138, 400, 21},
      {1024, 2048, 200, 20}, {1536, 4096, 80, 23},    {2048, 7168, 60, 22},  {4096, 4096, 24, 24},
      {64, 65536, 4000, 25}, {100, 100000, 2000, 26}, {2, 2, 40000, 31},     {2, 64, 40000, 32},
      {3, 300, 40000, 33},   {4, 4, 40000, 34},       {8, 8, 40000, 35},     {8, 4096, 40000, 36},
      {12, 13, 30000, 37},   {16, 16, 20000, 38},     {16, 4096, 20000, 39}, {32, 64, 8000, 40},
      {63, 63, 4000, 41},
  }};
  return kShapes;
}

constexpr const char* kColumns = "rows,cols,metric,draws,mean,error";

const char* const kIntroduction = R"(# Nulls against drawn noise

What the program gives as the null of every metric, beside the mean of drawn noise of that very shape, with the standard error of that mean.
Drawn are singular values of Gaussian matrices, by the bidiagonal model (`tests/statistics/null/noise_draws.hpp`); the figures are recorded in
`tests/data/null_draws.csv` with their seeds, and a test holds every null within 0.5 % of them. How nulls are computed: [metrics.md](metrics.md).
Below a short side of 64 the nulls are means of draws themselves, 65536 / p of them (1024 to 16384) by other random numbers: there the column
"error of the null" is the standard error of the program's own value, and the test holds both means together within their errors.

Made by `null_table draw > tests/data/null_draws.csv` and `null_table page tests/data/null_draws.csv > docs/measuring/nulls.md` (build target `null_table`).

)";

std::string short_number(double value) { return fmt::format("{:.5g}", value); }

}  // namespace

std::span<const DrawnShape> null_table_shapes() { return shapes(); }

std::string null_draw_lines(const DrawnShape& shape) {
  std::string text;
  for (const DrawnMean& mean : shape.means) {
    if (mean.metric == "theta" && !is_null_drawn(shape)) {
      continue;  // the mean of rare draws: it has a table of its own (docs/measuring/metrics.md)
    }
    text += fmt::format("{},{},{},{},{:.10g},{:.3g}\n", shape.rows, shape.cols, mean.metric,
                        shape.draws, mean.mean, mean.error);
  }
  return text;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  return text.str();
}

bool is_null_drawn(const DrawnShape& shape) { return std::min(shape.rows, shape.cols) < 64; }

double error_of_null(const DrawnShape& shape, const DrawnMean& drawn) {
  const auto draws = static_cast<double>(
      std::clamp<std::int64_t>(65536 / std::min(shape.rows, shape.cols), 1024, 16384));
  return drawn.error * std::sqrt(static_cast<double>(shape.draws) / draws);
}

std::vector<DrawnShape> read_null_draws(const std::string& path) {
  std::istringstream lines(text_of_file(path));
  std::string line;
  if (!std::getline(lines, line) || line != kColumns) {
    throw std::runtime_error(path + " does not begin with " + kColumns);
  }
  std::vector<DrawnShape> out;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::array<std::string, 6> field;
    for (std::string& one : field) {
      if (!std::getline(fields, one, ',')) {
        throw std::runtime_error(path + ": " + line);
      }
    }
    const std::int64_t rows = std::stoll(field[0]);
    const std::int64_t cols = std::stoll(field[1]);
    if (out.empty() || out.back().rows != rows || out.back().cols != cols) {
      out.push_back({.rows = rows, .cols = cols, .draws = std::stoll(field[3])});
    }
    out.back().means.push_back({field[2], std::stod(field[4]), std::stod(field[5])});
  }
  return out;
}

std::string null_page(const std::vector<DrawnShape>& shapes) {
  struct Worst {
    double difference = 0.0;
    std::string shape;
  };
  std::map<std::string, Worst> worst;
  std::vector<std::string> order;
  std::string tables;
  std::string outliers =
      "\n## Outliers of noise\n\nMean counts; they have no column of nulls.\n\n"
      "| shape | draws | `mp_outliers` | `mp_lower_outliers` |\n|---|---|---|---|\n";
  for (const DrawnShape& shape : shapes) {
    const statistics::MetricValues nulls = statistics::null_metrics(shape.rows, shape.cols);
    const std::string name = fmt::format("{} x {}", shape.rows, shape.cols);
    const bool is_drawn = is_null_drawn(shape);
    tables += fmt::format(
        "\n## {}, {} draws\n\n| metric | null | mean of noise | error of the mean | null less mean "
        "|{}\n"
        "|---|---|---|---|---|{}\n",
        name, shape.draws, is_drawn ? " error of the null |" : "", is_drawn ? "---|" : "");
    outliers += fmt::format("| {} | {} |", name, shape.draws);
    for (const DrawnMean& drawn : shape.means) {
      if (drawn.metric.starts_with("mp_")) {
        outliers += fmt::format(" {:.3f} +- {:.3f} |", drawn.mean, drawn.error);
        continue;
      }
      const double null = value_of(nulls, drawn.metric);
      if (std::isnan(null)) {
        tables +=
            fmt::format("| `{}` | NaN | no mean | | |{}\n", drawn.metric, is_drawn ? " |" : "");
        continue;
      }
      const double difference =
          null == drawn.mean ? 0.0 : 100.0 * (null - drawn.mean) / std::abs(drawn.mean);
      // Of a mean of 0 there is no share.
      const std::string share = drawn.mean == 0.0 ? "-" : fmt::format("{:+.2f} %", difference);
      tables += fmt::format("| `{}` | {} | {} | {:.2g} | {} |{}\n", drawn.metric,
                            short_number(null), short_number(drawn.mean), drawn.error, share,
                            is_drawn ? fmt::format(" {:.2g} |", error_of_null(shape, drawn)) : "");
      if (is_drawn) {
        continue;
      }
      if (!worst.contains(drawn.metric)) {
        order.push_back(drawn.metric);
      }
      Worst& most = worst[drawn.metric];
      if (std::abs(difference) >= std::abs(most.difference)) {
        most = {difference, name};
      }
    }
    outliers += "\n";
  }
  std::string page = kIntroduction;
  page += fmt::format("| metric | largest difference over {} shapes | where |\n|---|---|---|\n",
                      std::count_if(shapes.begin(), shapes.end(),
                                    [](const DrawnShape& shape) { return !is_null_drawn(shape); }));
  for (const std::string& metric : order) {
    page += fmt::format("| `{}` | {:+.2f} % | {} |\n", metric, worst[metric].difference,
                        worst[metric].shape);
  }
  return page + outliers + tables;
}

}  // namespace vindex::test
