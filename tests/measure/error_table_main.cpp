// Holds sigma_error against float64 LAPACK over kinds of matrices and modes, as a table:
//   error_table 288 544        the table of docs/sigma-error.md (two minutes)
//   error_table --tiles 544    the same through an emulated matrix unit
//   error_table --each 288     every matrix, one per line
#include "error_kinds.hpp"

#include "cpu/cpu_backend.hpp"
#include "decode/encoding.hpp"
#include "measure/backend.hpp"
#include "tests/support/emulated_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

namespace vindex::test {
namespace {

struct Way {
  const char* name;
  measure::Mode mode;
  bool escalate;
};
constexpr std::array<Way, 4> kWays = {{{"`default --no-escalate`", measure::Mode::kDefault, false},
                                       {"`default`", measure::Mode::kDefault, true},
                                       {"`fast`", measure::Mode::kFast, true},
                                       {"`strict`", measure::Mode::kStrict, true}}};

struct Cell {
  int count = 0, exceeded = 0;
  double worst = 0.0, sum = 0.0;
};

measure::MatrixReport measured(measure::Backend& backend, const FloatMatrix& matrix,
                               const Way& way) {
  measure::MeasureOptions options;
  options.mode = way.mode;
  options.escalate = way.escalate;
  const auto input = measure::make_memory_input(
      decode::float32_view(matrix.values.data(), matrix.rows, matrix.cols));
  measure::MatrixInput* const batch[] = {input.get()};
  std::vector<measure::MatrixReport> out(1);
  backend.measure(batch, options, 0, out);
  return out[0];
}

void add_size(std::int64_t p, bool each, bool by_tiles) {
  const auto backend = by_tiles
                           ? cpu::make_cpu_backend_on(emulated_tile_product(), "emulated tiles", 1)
                           : cpu::make_cpu_backend(1, "", cpu::MatrixUnitWish::kNone);
  std::map<std::string, std::array<Cell, kWays.size()>> table;
  for (const ErrorCase& one : error_cases(p)) {
    const FloatMatrix matrix = one.make();
    const auto reference = reference_singular_values(matrix);
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      const measure::MatrixReport report = measured(*backend, matrix, kWays[way]);
      double error = 0.0;
      for (std::size_t i = 0; i < report.sigma.size(); ++i) {
        error = std::max(error, std::abs(report.sigma[i] - reference[i]));
      }
      const double ratio = error / report.sigma_error;
      Cell& cell = table[one.kind][way];
      ++cell.count;
      cell.exceeded += ratio <= 1.0 ? 0 : 1;
      cell.worst = std::max(cell.worst, ratio);
      cell.sum += ratio;
      if (each) {
        fmt::print("{}; {}; {}; {}; error {:.2e} s_1, {:.3f} of sigma_error\n", one.kind,
                   one.profile, kWays[way].name, report.method, error / reference[0], ratio);
      }
    }
  }
  if (each) {
    return;
  }
  for (const auto& [kind, cells] : table) {
    fmt::print("| {} | {} |", p, kind);
    for (const Cell& cell : cells) {
      fmt::print(" {} of {}, {:.2f}, {:.2f} |", cell.exceeded, cell.count, cell.worst,
                 cell.sum / cell.count);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace vindex::test

int main(int count, char** arguments) {
  using namespace vindex::test;
  try {
    const std::string first = count > 1 ? arguments[1] : "";
    const bool each = first == "--each";
    const bool by_tiles = first == "--tiles";
    if (!each) {
      std::string head = "| p | kind |";
      for (const Way& way : kWays) {
        head += fmt::format(" {} |", way.name);
      }
      fmt::print("{}\n|---|---|---|---|---|---|\n", head);
    }
    for (int i = each || by_tiles ? 2 : 1; i < count; ++i) {
      add_size(std::stoll(arguments[i]), each, by_tiles);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "%s\nusage: error_table [--each | --tiles] P...   (P: short side, 32 at least)\n",
                 error.what());
    return 70;
  }
  return 0;
}
