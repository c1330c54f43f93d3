// tiles_bench: Gram matrices by the processor's matrix unit (Intel AMX) beside vector instructions
// and OpenBLAS, alone and within whole spectra, on one thread and on several that each have a
// matrix of their own. Samples of all cases are interleaved, in rounds until the time is used.
// Output: a table, or "vindex-bench/1" (command-line contract) with --json.
#include "apps/process/arithmetic_environment.hpp"
#include "backend/backend.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/gram/amx_tiles.hpp"
#include "cpu/gram/gram.hpp"
#include "cpu/gram/simd_gram_amx.hpp"
#include "cpu/gram/simd_gram_bf16.hpp"
#include "cpu/gram/split_gram.hpp"
#include "cpu/gram/tile_product.hpp"
#include "cpu/simd/matrix_unit.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "decode/decode_matrix.hpp"
#include "engine/run/version.hpp"
#include "throughput/encoded_weights.hpp"
#include "throughput/report.hpp"
#include "throughput/sampling.hpp"
#include <vindex/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace vindex;

/// Contracted indices of a float32 tile, as the plan of a route cuts them.
constexpr std::int64_t kChunk = 256;

struct Shape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

struct Weights {
  std::string label;
  std::unique_ptr<throughput::EncodedWeights> encoded;
  std::vector<float> decoded;
  int parts = 0;  ///< of bfloat16 that a weight needs; 0: more than two
};

/// 64-byte aligned bytes whose pages are in place.
struct Buffer {
  explicit Buffer(std::size_t bytes)
      : size((bytes + 63) / 64 * 64),
        data(static_cast<std::byte*>(std::aligned_alloc(64, size)), &std::free) {
    if (data == nullptr) {
      throw OutOfMemory("a benchmark", size);
    }
    std::fill_n(data.get(), size, std::byte{});
  }
  std::size_t size;
  std::unique_ptr<std::byte, decltype(&std::free)> data;
};

/// What one thread computes in.
struct Space {
  explicit Space(std::int64_t n)
      : gram(static_cast<std::size_t>(n * n) * sizeof(float)),
        packed(std::max(cpu::gram_bf16_workspace_bytes(n, true),
                        cpu::split_gram_workspace_bytes(n))) {}
  float* sums() { return reinterpret_cast<float*>(gram.data.get()); }
  std::span<std::byte> work() { return {packed.data.get(), packed.size}; }
  Buffer gram;
  Buffer packed;
};

enum class Way { kLibrary, kVectors, kUnit };

const char* name_of(Way way) {
  return way == Way::kLibrary ? "library" : way == Way::kVectors ? "simd" : "amx";
}

/// The Gram matrix alone: from codes where bfloat16 holds them, else from weights that were decoded
/// before.
void multiply(const Weights& weights, Way way, Space& space) {
  const decode::EncodedMatrix& matrix = weights.encoded->matrix();
  const std::int64_t n = matrix.cols;
  const cpu::TileProduct tiles = way == Way::kUnit ? cpu::amx_tile_product() : nullptr;
  if (way != Way::kLibrary && cpu::gram_bf16_takes(matrix, true)) {
    cpu::gram_bf16(matrix, true, 1.0F, space.sums(), n, space.work(), cpu::best_simd_level(), {},
                   tiles);
    return;
  }
  for (std::int64_t first = 0; first < matrix.rows; first += kChunk) {
    const cpu::Tile tile = {.values = weights.decoded.data() + first * n,
                            .rows = std::min(kChunk, matrix.rows - first),
                            .cols = n};
    if (tiles != nullptr) {
      cpu::add_split_gram(tile, weights.parts, true, space.sums(), space.work(), tiles);
    } else {
      cpu::add_to_gram(tile, true, space.sums());
    }
  }
}

/// bfloat16 products and additions per second of one thread whose operands stay in tiles.
#if defined(__x86_64__)
__attribute__((target("amx-tile,amx-bf16"))) double unit_peak() {
  constexpr int kRounds = 400'000;
  const double start = throughput::thread_seconds();
  {
    cpu::AmxTiles tiles;
    tiles.zero<0>();
    tiles.zero<1>();
    tiles.zero<2>();
    tiles.zero<3>();
    tiles.zero<4>();
    tiles.zero<6>();
    for (int i = 0; i < kRounds; ++i) {
      tiles.add_products<0, 4, 6>();
      tiles.add_products<1, 4, 6>();
      tiles.add_products<2, 4, 6>();
      tiles.add_products<3, 4, 6>();
    }
  }
  return 4.0 * kRounds * 16 * 16 * 32 * 2 / (throughput::thread_seconds() - start);
}
#else
double unit_peak() { return 0.0; }
#endif

/// Sampled in every round that is `place` modulo `period`.
struct Case {
  throughput::Row row;
  std::function<void(throughput::Row&)> sample;
  int place = 0;
  int period = 1;
};

/// The longest of the threads counts: what one matrix takes while all are busy.
throughput::Row row_of(const char* name, const Weights& weights, Way way, int threads) {
  const decode::EncodedMatrix& matrix = weights.encoded->matrix();
  return {.name = name,
          .route = fmt::format("{}, {} thread{}", name_of(way), threads, threads == 1 ? "" : "s"),
          .rows = matrix.rows,
          .cols = matrix.cols,
          .batch = threads,
          .encoding = weights.label,
          .spectrum = "trained",
          .unit = "ms_per_matrix",
          .peer = way == Way::kLibrary ? "openblas.ssyrk" : ""};
}

void add_gram_case(const Weights& weights, Way way, int threads,
                   std::vector<std::unique_ptr<Space>>& spaces, double peak,
                   std::vector<Case>& cases) {
  throughput::Row row = row_of("gram", weights, way, threads);
  if (way == Way::kUnit) {
    const auto p = static_cast<double>(row.cols);
    row.limit = 1e3 * static_cast<double>(row.rows) * p * (p + 1.0) / peak;
    row.note = "limit: one product of bfloat16 per weight pair, operands in tiles";
  }
  cases.push_back({row,
                   [=, &weights, &spaces](throughput::Row& out) {
                     out.samples.push_back(1e3 * throughput::run_together(threads, [&](int thread) {
                                             multiply(weights, way,
                                                      *spaces[static_cast<std::size_t>(thread)]);
                                           }));
                   },
                   0, 2});
}

void add_spectrum_case(const Weights& weights, Way way, int threads, Backend& backend, int place,
                       int period, std::vector<Case>& cases) {
  cases.push_back(
      {row_of("spectra.default", weights, way, threads),
       [=, &weights, &backend](throughput::Row& out) {
         std::vector<MatrixReport> reports(static_cast<std::size_t>(threads));
         const double seconds = throughput::run_together(threads, [&](int thread) {
           const auto input = make_memory_input(weights.encoded->matrix());
           MatrixInput* const batch[] = {input.get()};
           backend.measure(batch, {}, 0, {&reports[static_cast<std::size_t>(thread)], 1});
         });
         const MatrixReport& report = reports.front();
         expects(report.status == MatrixStatus::kMeasured, "a spectrum");
         out.samples.push_back(1e3 * seconds);
         out.note = fmt::format(
             "{}; of the last: decode {:.1f}, Gram {:.1f}, eigenvalues {:.1f} ms; s_1 "
             "{:.9g}, sigma_error {:.2g}",
             report.method, 1e3 * report.seconds_decode, 1e3 * report.seconds_gram,
             1e3 * report.seconds_eigen, report.sigma.front(), report.sigma_error);
       },
       place, period});
}

Shape shape_of(const std::string& text) {
  Shape shape;
  const auto at = text.find('x');
  if (at == std::string::npos) {
    throw UsageError("E-SHAPE", "a shape is ROWSxCOLS, not " + printable(text));
  }
  shape.rows = std::stoll(text.substr(0, at));
  shape.cols = std::stoll(text.substr(at + 1));
  if (shape.rows < shape.cols || shape.cols < 1) {
    throw UsageError("E-SHAPE", "rows are no fewer than columns here: " + printable(text));
  }
  return shape;
}

int run(int argc, char** argv) {
  CLI::App app{"tiles_bench: Gram matrices by the matrix unit, by vectors and by OpenBLAS"};
  std::vector<std::string> shapes = {"7168x2048", "2048x2048"};
  std::vector<std::string> encodings = {"BF16", "F8_E4M3/128x128", "INT4/g32", "F16"};
  std::vector<int> threads = {1, 8};
  double seconds = 30.0;
  bool json = false;
  app.add_option("--shapes", shapes, "ROWSxCOLS,...")->delimiter(',');
  app.add_option("--encodings", encodings, "of the weights")->delimiter(',');
  app.add_option("--threads", threads, "threads with a matrix each")->delimiter(',');
  app.add_option("--seconds", seconds, "no further sample is begun after these");
  app.add_flag("--json", json, "print vindex-bench/1 with all samples");
  CLI11_PARSE(app, argc, argv);

  const double start = throughput::wall_seconds();
  const int most = *std::max_element(threads.begin(), threads.end());
  const auto plain =
      cpu::make_cpu_backend(most, apps::blas_core_wish(), cpu::MatrixUnitPreference::kNone);
  const auto unit = cpu::make_cpu_backend(most, apps::blas_core_wish());
  const cpu::MatrixUnitChoice choice =
      cpu::choose_matrix_unit(cpu::matrix_unit_facts(), cpu::MatrixUnitPreference::kBest);
  const double peak = choice.is_used ? unit_peak() : 0.0;

  std::vector<Weights> weights(shapes.size() * encodings.size());
  throughput::run_together(static_cast<int>(weights.size()), [&](int index) {
    const auto at = static_cast<std::size_t>(index);
    const Shape shape = shape_of(shapes[at / encodings.size()]);
    Weights& one = weights[at];
    one.label = encodings[at % encodings.size()];
    one.encoded = std::make_unique<throughput::EncodedWeights>(
        throughput::encoding_of(one.label), shape.rows, shape.cols, 1, "trained");
    one.decoded.resize(static_cast<std::size_t>(shape.rows * shape.cols));
    decode::decode_matrix(one.encoded->matrix(), one.decoded.data(), shape.cols);
    one.parts = cpu::split_parts_of(
        {.values = one.decoded.data(), .rows = shape.rows, .cols = shape.cols}, cpu::kMaxParts);
  });
  std::int64_t widest = 0;
  for (const Weights& one : weights) {
    widest = std::max(widest, one.encoded->matrix().cols);
  }
  std::vector<std::unique_ptr<Space>> spaces;
  for (int i = 0; i < most; ++i) {
    spaces.push_back(std::make_unique<Space>(widest));
  }

  std::vector<Case> cases;
  // Whole spectra take most of the time: each round has those of one shape and number of threads.
  const auto period = static_cast<int>(threads.size() * shapes.size());
  for (std::size_t t = 0; t < threads.size(); ++t) {
    const int count = threads[t];
    for (std::size_t w = 0; w < weights.size(); ++w) {
      const Weights& one = weights[w];
      const auto place = static_cast<int>(w / encodings.size() * threads.size() + t);
      // The library multiplies decoded weights: of any encoding in the same time.
      if (w % encodings.size() == 0) {
        add_gram_case(one, Way::kLibrary, count, spaces, peak, cases);
      }
      const bool is_of_codes = cpu::gram_bf16_takes(one.encoded->matrix(), true);
      if (cpu::best_simd_level() >= cpu::SimdLevel::kAvx512Bf16 && is_of_codes) {
        add_gram_case(one, Way::kVectors, count, spaces, peak, cases);
      }
      if (choice.is_used && (is_of_codes || one.parts > 0)) {
        add_gram_case(one, Way::kUnit, count, spaces, peak, cases);
      }
      add_spectrum_case(one, Way::kVectors, count, *plain, place, period, cases);
      if (choice.is_used) {
        add_spectrum_case(one, Way::kUnit, count, *unit, place, period, cases);
      }
    }
  }
  throughput::Report report{
      .commit = engine::program_commit(),
      .command = throughput::command_text({argv, argv + argc}),
      .host = throughput::host_facts(fmt::format("{}", plain->info().libraries.at(0)))};
  if (choice.is_used) {
    report.rows.push_back({.name = "probe.tdpbf16ps",
                           .route = "operands in tiles, Tflop/s as GB/s of 1000",
                           .encoding = "BF16",
                           .unit = "gb_per_s",
                           .samples = {1e-12 * peak}});
  }
  const std::size_t before = report.rows.size();
  for (const Case& one : cases) {
    report.rows.push_back(one.row);
  }
  bool is_over = false;
  for (int round = 0; !is_over; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      is_over = throughput::wall_seconds() - start > seconds;
      if (is_over) {
        break;
      }
      if (round % cases[i].period == cases[i].place) {
        cases[i].sample(report.rows[before + i]);
      }
    }
  }
  for (throughput::Row& row : report.rows) {
    if (row.samples.empty() && row.note.empty()) {
      row.note = "not reached within the time";
    }
  }
  fmt::print("{}", json ? throughput::report_json(report) : throughput::report_table(report));
  if (!choice.is_used) {
    fmt::print(stderr, "tiles_bench: no matrix unit here{}\n",
               choice.note.empty() ? "" : ": " + choice.note);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tiles_bench: {}\n", error.what());
    return 70;
  }
}
