// Holds sigma_error against float64 LAPACK over kinds of matrices and modes, as a table:
//   error_table 288 544        the table of docs/measuring/sigma-error.md (two minutes)
//   error_table --tiles 544    the same through an emulated matrix unit
//   error_table --each 288     every matrix, one per line
//   error_table --laws 1 4096x544 16384x640
//                              laws that the model was not fitted to, as many draws of each, by
//                              encoding and kernel: the second table of that page
//   error_table --bf16 1 4096x544
//                              the same by the vector instructions that AMD's processors take for
//                              bfloat16, whatever this one takes: the third table
#include "error_kinds.hpp"
#include "error_laws.hpp"

#include "backend/backend.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/simd/matrix_unit.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "tests/support/emulated_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vindex::test {
namespace {

struct Way {
  const char* name;
  SpectrumMode mode;
  bool escalate;
};
constexpr std::array<Way, 4> kWays = {{{"`default --no-escalate`", SpectrumMode::kDefault, false},
                                       {"`default`", SpectrumMode::kDefault, true},
                                       {"`fast`", SpectrumMode::kFast, true},
                                       {"`strict`", SpectrumMode::kStrict, true}}};

struct Cell {
  int count = 0, exceeded = 0;
  double worst = 0.0, sum = 0.0;
};

MatrixReport measured(Backend& backend, const decode::EncodedMatrix& matrix, const Way& way) {
  MeasureOptions options;
  options.mode = way.mode;
  options.escalate = way.escalate;
  const auto input = make_memory_input(matrix);
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  backend.measure(batch, options, 0, out);
  return out[0];
}

void add_size(std::int64_t p, bool each, bool by_tiles) {
  const auto backend = by_tiles
                           ? cpu::make_cpu_backend_on(emulated_tile_product(), "emulated tiles", 1)
                           : cpu::make_cpu_backend(1, "", cpu::MatrixUnitPreference::kNone);
  std::map<std::string, std::array<Cell, kWays.size()>> table;
  for (const ErrorCase& one : error_cases(p)) {
    const FloatMatrix matrix = one.make();
    const auto reference = reference_singular_values(matrix);
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      const MatrixReport report =
          measured(*backend, decode::float32_view(matrix.values.data(), matrix.rows, matrix.cols),
                   kWays[way]);
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

struct Kernel {
  const char* name;
  std::unique_ptr<Backend> backend;
};

/// By OpenBLAS (on AMD's processors by vector instructions where they take an encoding), by the
/// matrix unit that is there, else an emulated one.
std::vector<Kernel> kernels() {
  std::vector<Kernel> out;
  out.push_back({"vector", cpu::make_cpu_backend(1, "", cpu::MatrixUnitPreference::kNone)});
  const bool has_unit =
      cpu::choose_matrix_unit(cpu::matrix_unit_facts(), cpu::MatrixUnitPreference::kBest).is_used;
  out.push_back({has_unit ? "unit" : "emulated",
                 has_unit ? cpu::make_cpu_backend(1)
                          : cpu::make_cpu_backend_on(emulated_tile_product(), "emulated", 1)});
  return out;
}

/// What takes BF16 and fp8 on AMD's processors.
std::vector<Kernel> bf16_kernels() {
  std::vector<Kernel> out;
  out.push_back({"bfloat16", cpu::make_cpu_backend_by_vectors(1)});
  return out;
}

/// One line for a law in an encoding: the worst of all draws and sizes, by kernel and way.
void add_law(const ErrorLaw& law, const LawEncoding& encoding, int draws,
             const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
             const std::vector<Kernel>& kernels) {
  std::string line = fmt::format("| {} | {} |", law.name, encoding.name);
  std::vector<std::array<LawError, kWays.size()>> worst(kernels.size());
  for (const auto& [n, p] : sizes) {
    for (int draw = 0; draw < draws; ++draw) {
      const StoredLaw matrix =
          stored_law(law.make(n, p, static_cast<std::uint64_t>(draw) + 1), encoding.encoding);
      const auto reference = reference_singular_values(matrix.decoded);
      for (std::size_t k = 0; k < kernels.size(); ++k) {
        for (std::size_t way = 0; way < kWays.size(); ++way) {
          const auto report = measured(*kernels[k].backend, matrix.stored.view(), kWays[way]);
          const LawError error = law_error(report.sigma, reference, report.sigma_error);
          LawError& cell = worst[k][way];
          cell.of_stated = std::max(cell.of_stated, error.of_stated);
          cell.of_strict = std::max(cell.of_strict, error.of_strict);
        }
      }
    }
  }
  for (const auto& ways : worst) {
    for (const LawError& cell : ways) {
      line += fmt::format(" {:.2f} |", cell.of_stated);
    }
    line += fmt::format(" {:.2f} |", ways.back().of_strict);
  }
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void add_laws(int draws, const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
              bool only_bf16) {
  const std::vector<Kernel> all = only_bf16 ? bf16_kernels() : kernels();
  std::string head = "| law | encoding |";
  std::string rule = "|---|---|";
  for (const Kernel& kernel : all) {
    for (const Way& way : kWays) {
      head += fmt::format(" {}, {} |", kernel.name, way.name);
      rule += "---|";
    }
    head += fmt::format(" {}, of the promise |", kernel.name);
    rule += "---|";
  }
  fmt::print("{}\n{}\n", head, rule);
  for (const ErrorLaw& law : error_laws()) {
    for (const LawEncoding& encoding : law_encodings()) {
      const std::string name = encoding.name;
      if (!only_bf16 || name == "BF16" || name == "F8_E4M3") {
        add_law(law, encoding, draws, sizes, all);
      }
    }
  }
}

std::pair<std::int64_t, std::int64_t> size_of(const std::string& text) {
  const std::size_t cross = text.find('x');
  return {std::stoll(text.substr(0, cross)), std::stoll(text.substr(cross + 1))};
}

}  // namespace
}  // namespace vindex::test

int main(int count, char** arguments) {
  using namespace vindex::test;
  try {
    const std::string first = count > 1 ? arguments[1] : "";
    const bool each = first == "--each";
    const bool by_tiles = first == "--tiles";
    if (first == "--laws" || first == "--bf16") {
      std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
      for (int i = 3; i < count; ++i) {
        sizes.push_back(size_of(arguments[i]));
      }
      add_laws(std::stoi(count > 2 ? arguments[2] : "1"), sizes, first == "--bf16");
      return 0;
    }
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
                 "%s\nusage: error_table [--each | --tiles] P...   (P: short side, 32 at least)\n"
                 "       error_table --laws | --bf16 DRAWS NxP...\n",
                 error.what());
    return 70;
  }
  return 0;
}
