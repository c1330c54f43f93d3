// spectra_bench: milliseconds per matrix of a back end by shape, encoding and mode, in the form
// "vindex-bench/1" (command-line contract). Several workers measure a batch each at a time, as the
// work queue does; a sample is the wall time of one such round over the number of matrices.
#include <vindex/measure/backend.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace vindex;

struct Case {
  std::string mode;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string encoding;
};

/// Noise-like weights whose spectrum is flat; codes and scales own their bytes.
class Weights {
 public:
  Weights(std::int64_t rows, std::int64_t cols, const std::string& encoding, std::uint64_t seed)
      : encoding_(encoding == "F32"    ? decode::plain_encoding(decode::ElementType::kF32)
                  : encoding == "BF16" ? decode::plain_encoding(decode::ElementType::kBF16)
                                       : decode::fp8_block_encoding(128, 128)) {
    const std::size_t size = encoding == "F32" ? 4 : encoding == "BF16" ? 2 : 1;
    codes_.resize(static_cast<std::size_t>(rows * cols) * size);
    std::uint64_t state = seed;
    const auto next = [&] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<std::uint32_t>(state >> 33U);
    };
    for (std::size_t i = 0; i < codes_.size(); i += size) {
      // Four uniform numbers make a noise that is near enough to normal for timing.
      float value = 0.0F;
      for (int term = 0; term < 4; ++term) {
        value += static_cast<float>(next()) * 0x1p-31F - 0.5F;
      }
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      if (size == 1) {
        // sign, 4 bits of exponent, 3 of mantissa; no NaN code
        const auto exponent = static_cast<int>((bits >> 23U) & 0xFFU) - 127 + 12;
        const std::uint32_t code =
            exponent <= 0 ? 0 : (static_cast<std::uint32_t>(exponent) << 3U | ((bits >> 20U) & 7U));
        codes_[i] = static_cast<std::byte>((bits >> 24U & 0x80U) | code);
      } else {
        std::memcpy(&codes_[i], reinterpret_cast<const char*>(&bits) + (4 - size), size);
      }
    }
    matrix_.encoding = &encoding_;
    matrix_.rows = rows;
    matrix_.cols = cols;
    matrix_.codes = codes_.data();
    matrix_.row_stride_bytes = cols * static_cast<std::int64_t>(size);
    if (size == 1) {
      const std::int64_t scale_rows = (rows + 127) / 128;
      const std::int64_t scale_cols = (cols + 127) / 128;
      scales_.assign(static_cast<std::size_t>(scale_rows * scale_cols), 0.01F);
      matrix_.companions[0] = {.role = decode::CompanionRole::kScale,
                               .type = decode::ElementType::kF32,
                               .rows = scale_rows,
                               .cols = scale_cols,
                               .bytes = std::as_bytes(std::span(scales_))};
      matrix_.companion_count = 1;
    }
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  const decode::EncodedMatrix& matrix() const { return matrix_; }

 private:
  decode::Encoding encoding_;
  std::vector<std::byte> codes_;
  std::vector<float> scales_;
  decode::EncodedMatrix matrix_;
};

measure::Mode mode_of(const std::string& name) {
  return name == "fast"     ? measure::Mode::kFast
         : name == "strict" ? measure::Mode::kStrict
                            : measure::Mode::kDefault;
}

double memory_gib() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
         (1024.0 * 1024.0 * 1024.0);
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// How often, by how many, and by which route.
struct Rounds {
  int workers = 2;
  int batch = 1;
  int samples = 3;
  std::string route = "auto";
};

nlohmann::json run_case(const Case& one, measure::Backend& backend, const Rounds& rounds) {
  const int workers = rounds.workers;
  const auto batch_size = static_cast<std::size_t>(rounds.batch);
  std::vector<std::unique_ptr<Weights>> weights;
  for (int w = 0; w < workers; ++w) {
    weights.push_back(std::make_unique<Weights>(one.rows, one.cols, one.encoding,
                                                static_cast<std::uint64_t>(w) + 1));
  }
  measure::MeasureOptions options;
  options.mode = mode_of(one.mode);
  options.svd_route = rounds.route;
  std::vector<measure::MatrixReport> reports(static_cast<std::size_t>(workers) * batch_size);
  std::vector<double> busy(static_cast<std::size_t>(workers));
  std::vector<double> milliseconds;
  for (int sample = 0; sample <= rounds.samples;
       ++sample) {  // the first warms caches and is dropped
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w) {
      threads.emplace_back([&, w] {
        const auto index = static_cast<std::size_t>(w);
        const double before = thread_seconds();
        std::vector<std::unique_ptr<measure::MatrixInput>> inputs;
        std::vector<measure::MatrixInput*> batch;
        for (std::size_t i = 0; i < batch_size; ++i) {
          inputs.push_back(measure::make_memory_input(weights[index]->matrix()));
          batch.push_back(inputs.back().get());
        }
        backend.measure(batch, options, 0,
                        std::span(reports).subspan(index * batch_size, batch_size));
        busy[index] = thread_seconds() - before;
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
    if (sample > 0) {
      milliseconds.push_back(wall.count() / (workers * rounds.batch));
      std::fprintf(
          stderr,
          "%s %lldx%lld %s: %.1f ms per matrix, one worker busy %.1f ms (decode %.1f, gram "
          "%.1f, eigen %.1f) %s%s\n",
          one.mode.c_str(), static_cast<long long>(one.rows), static_cast<long long>(one.cols),
          one.encoding.c_str(), milliseconds.back(), 1e3 * busy[0], 1e3 * reports[0].seconds_decode,
          1e3 * reports[0].seconds_gram, 1e3 * reports[0].seconds_eigen, reports[0].method.c_str(),
          reports[0].escalated ? " escalated" : "");
    }
  }
  return {{"name", "spectra." + one.mode},
          {"route", rounds.route + ": " + reports[0].method},
          {"backend", backend.info().name},
          {"rows", one.rows},
          {"cols", one.cols},
          {"batch", workers * rounds.batch},
          {"encoding", one.encoding == "F8" ? "F8_E4M3/128x128" : one.encoding},
          {"unit", "ms_per_matrix"},
          {"samples", milliseconds},
          {"limit", nullptr},
          {"peer", nullptr}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("milliseconds per matrix of a back end");
  Rounds rounds;
  std::string backend_name = "cpu";
  std::string commit = "unknown";
  std::vector<std::string> wanted;
  app.add_option("--workers", rounds.workers, "concurrent calls")->check(CLI::Range(1, 256));
  app.add_option("--batch", rounds.batch, "matrices per call")->check(CLI::Range(1, 4096));
  app.add_option("--backend", backend_name, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--samples", rounds.samples, "timed rounds per case")->check(CLI::Range(1, 1000));
  app.add_option("--route", rounds.route, "SVD route of the back end");
  app.add_option("--commit", commit, "noted in the output");
  app.add_option("--case", wanted, "mode:rows:cols:encoding, encoding F32, BF16 or F8; repeatable");
  CLI11_PARSE(app, argc, argv);
  if (wanted.empty()) {
    for (const char* encoding : {"F32", "BF16", "F8"}) {
      for (const char* shape : {"7168:2048", "2048:7168"}) {
        wanted.push_back(std::string("default:") + shape + ":" + encoding);
      }
    }
    for (const char* one : {"strict:7168:2048:BF16", "strict:4096:4096:BF16", "fast:7168:2048:BF16",
                            "fast:2048:7168:F8"}) {
      wanted.emplace_back(one);
    }
  }

  std::string why;
  const auto backend = backend_name == "cpu" ? measure::make_cpu_backend(rounds.workers)
                                             : measure::make_cuda_backend(0, why);
  if (backend == nullptr) {
    std::fprintf(stderr, "spectra_bench: %s\n", why.c_str());
    return 70;
  }
  const measure::BackendInfo host = measure::make_cpu_backend(1)->info();
  nlohmann::json gpu = nullptr;
  if (backend_name == "cuda") {
    const measure::BackendInfo info = backend->info();
    gpu = {{"name", info.device}, {"driver", info.libraries.at(0)}, {"cuda", info.libraries.at(1)}};
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& text : wanted) {
    const auto parts = CLI::detail::split(text, ':');
    if (parts.size() != 4) {
      std::fprintf(stderr, "spectra_bench: --case wants mode:rows:cols:encoding, not %s\n",
                   text.c_str());
      return 64;
    }
    rows.push_back(run_case({parts[0], std::stoll(parts[1]), std::stoll(parts[2]), parts[3]},
                            *backend, rounds));
  }
  char date[32] = {};
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  std::string command;
  for (int i = 0; i < argc; ++i) {
    command += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  const nlohmann::json out = {{"schema", "vindex-bench/1"},
                              {"commit", commit},
                              {"date", date},
                              {"host",
                               {{"cpu", host.device},
                                {"cores", std::thread::hardware_concurrency()},
                                {"memory_gib", memory_gib()},
                                {"blas", host.libraries.at(0)}}},
                              {"gpu", gpu},
                              {"command", command},
                              {"rows", rows}};
  std::printf("%s\n", out.dump(1).c_str());
  return 0;
}
