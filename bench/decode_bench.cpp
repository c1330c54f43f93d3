// Measures decoding of every decodable encoding on one thread: gigabytes of float32 written per
// second, beside a memcpy of the same output in the same run. Samples are interleaved over the
// encodings, so that a noisy neighbour hits all of them, and timed in thread CPU time.
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/decode/encoding_table.hpp>
#include <vindex/decode/simd_level.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <sys/sysinfo.h>
#include <thread>
#include <vector>

namespace {

using namespace vindex::decode;

struct Case {
  std::string name;  // encoding label, or "memcpy", "moments"
  Encoding encoding;
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  EncodedMatrix matrix;
  std::vector<double> samples;  // GB/s
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Random bytes, but for floats the bits of ordinary weights: conversions that overflow or underflow
// take other paths in some processors and are not what models hold.
void fill_codes(Case& item, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0.0, 0.02);
  const auto store = [&](auto convert) {
    using Stored = decltype(convert(0.0));
    for (std::size_t i = 0; i + sizeof(Stored) <= item.codes.size(); i += sizeof(Stored)) {
      const Stored value = convert(normal(random));
      std::memcpy(item.codes.data() + i, &value, sizeof value);
    }
  };
  const bool plain = item.encoding.scheme == Scheme::kPlain;
  if (plain && item.encoding.type == ElementType::kF64) {
    store([](double value) { return value; });
  } else if (plain && item.encoding.type == ElementType::kF32) {
    store([](double value) { return static_cast<float>(value); });
  } else {
    for (std::size_t i = 0; i + 8 <= item.codes.size(); i += 8) {
      const std::uint64_t bits = random();
      std::memcpy(item.codes.data() + i, &bits, sizeof bits);
    }
  }
}

Case make_case(const Encoding& encoding, std::int64_t rows, std::int64_t cols,
               std::mt19937_64& random) {
  Case item;
  item.name = encoding.label;
  item.encoding = encoding;
  const auto stride = row_bytes(encoding, static_cast<std::uint64_t>(cols)).value();
  item.codes.resize(stride * static_cast<std::size_t>(rows));
  fill_codes(item, random);
  item.matrix.rows = rows;
  item.matrix.cols = cols;
  item.matrix.row_stride_bytes = static_cast<std::int64_t>(stride);
  if (encoding.scheme != Scheme::kPlain) {
    Companion& scale = item.matrix.companions[0];
    scale.type = ElementType::kF32;
    scale.rows = (rows + encoding.block_rows - 1) / encoding.block_rows;
    scale.cols = (cols + encoding.block_cols - 1) / encoding.block_cols;
    const std::vector<float> values(static_cast<std::size_t>(scale.rows * scale.cols), 0.01F);
    item.scales.resize(values.size() * sizeof(float));
    std::memcpy(item.scales.data(), values.data(), item.scales.size());
    item.matrix.companion_count = 1;
  }
  return item;
}

// Pointers into a Case are set here, once it no longer moves.
void bind(Case& item) {
  item.matrix.encoding = &item.encoding;
  item.matrix.codes = item.codes.data();
  item.matrix.companions[0].bytes = item.scales;
}

std::vector<Encoding> encodings_to_measure() {
  std::vector<Encoding> encodings;
  for (const FormatRow& row : format_rows()) {
    switch (row.scheme) {
      case Scheme::kFp8Block:
        encodings.push_back(fp8_block_encoding(128, 128));
        break;
      case Scheme::kPackedInt:
        encodings.push_back(packed_int_encoding(row.bits, row.bits == 4 ? 32 : 128));
        break;
      default:
        encodings.push_back(plain_encoding(row.type));
    }
  }
  return encodings;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown";
}

double memory_gib() {
  struct sysinfo info {};
  sysinfo(&info);
  return static_cast<double>(info.totalram) * info.mem_unit / (1U << 30U);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

double best(const Case& item) {
  return *std::max_element(item.samples.begin(), item.samples.end());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"decode_bench: GB/s of float32 written by one thread, per encoding"};
  std::int64_t rows = 2048;
  std::int64_t cols = 7168;
  int repeats = 9;
  std::string level_name{simd_level_name(best_simd_level())};
  std::string filter;
  std::string commit = "unknown";
  bool json = false;
  app.add_option("--rows", rows, "rows of the matrix")->check(CLI::PositiveNumber);
  app.add_option("--cols", cols, "columns, a multiple of 256")->check(CLI::PositiveNumber);
  app.add_option("--repeats", repeats, "samples per encoding")->check(CLI::PositiveNumber);
  app.add_option("--level", level_name, "baseline, avx2 or avx512 (default: the best here)");
  app.add_option("--only", filter, "encodings whose label contains this");
  app.add_option("--commit", commit, "commit to record with --json");
  app.add_flag("--json", json, "print vindex-bench/1 with all samples");
  CLI11_PARSE(app, argc, argv);

  SimdLevel level = SimdLevel::kCount;
  for (const SimdLevel known : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (simd_level_name(known) == level_name && is_supported(known)) {
      level = known;
    }
  }
  if (level == SimdLevel::kCount || cols % 256 != 0) {
    fmt::print(stderr, "decode_bench: level not supported here, or cols no multiple of 256\n");
    return 64;
  }

  std::mt19937_64 random(1);
  std::vector<Case> cases(2);
  cases[0].name = "memcpy";
  cases[1].name = "moments";
  for (const Encoding& encoding : encodings_to_measure()) {
    if (encoding.label.find(filter) != std::string::npos) {
      cases.push_back(make_case(encoding, rows, cols, random));
    }
  }
  std::for_each(cases.begin(), cases.end(), bind);

  // Aligned to a cache line, as the program's own buffers are.
  std::vector<float> storage(static_cast<std::size_t>(rows * cols) + 16, 0.5F);
  void* aligned = storage.data();
  std::size_t room = storage.size() * sizeof(float);
  const std::span<float> out(
      static_cast<float*>(
          std::align(64, static_cast<std::size_t>(rows * cols) * sizeof(float), aligned, room)),
      static_cast<std::size_t>(rows * cols));
  std::vector<float> source(out.size());
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::generate(source.begin(), source.end(), [&] { return normal(random); });
  const double gigabytes = static_cast<double>(out.size()) * sizeof(float) * 1e-9;
  double sink = 0.0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (Case& item : cases) {
      const double start = thread_seconds();
      if (item.name == "memcpy") {
        std::memcpy(out.data(), source.data(), out.size() * sizeof(float));
      } else if (item.name == "moments") {
        sink += moments_of_at(level, source.data(), rows, cols, cols).mean;
      } else {
        decode_matrix_at(level, item.matrix, out.data(), cols);
      }
      item.samples.push_back(gigabytes / (thread_seconds() - start));
      sink += static_cast<double>(out[out.size() / 2]);
    }
  }

  const double limit = best(cases[0]);
  if (!json) {
    fmt::print("{} x {}, level {}, best of {}, one thread ({})\n", rows, cols, level_name, repeats,
               sink == 0.0 ? "no output" : "output used");
    for (const Case& item : cases) {
      fmt::print("{:<18}{:8.2f} GB/s f32 {:8.2f} of memcpy\n", item.name, best(item),
                 best(item) / limit);
    }
    return 0;
  }
  nlohmann::ordered_json document;
  document["schema"] = "vindex-bench/1";
  document["commit"] = commit;
  document["date"] = now_text();
  document["host"] = {{"cpu", cpu_name()},
                      {"cores", std::thread::hardware_concurrency()},
                      {"memory_gib", memory_gib()},
                      {"blas", "none"}};
  document["gpu"] = nullptr;
  document["command"] = fmt::format("decode_bench --rows {} --cols {} --repeats {} --level {}",
                                    rows, cols, repeats, level_name);
  document["rows"] = nlohmann::ordered_json::array();
  for (const Case& item : cases) {
    nlohmann::ordered_json row;
    const bool is_decode = item.matrix.encoding != nullptr && !item.codes.empty();
    row["name"] = is_decode ? "decode" : "probe." + item.name;
    row["route"] = level_name;
    row["backend"] = "cpu";
    row["rows"] = rows;
    row["cols"] = cols;
    row["batch"] = 1;
    row["encoding"] = is_decode ? item.name : "F32";
    row["unit"] = "gb_f32_per_s";
    row["samples"] = item.samples;
    row["limit"] = limit;
    row["peer"] = nullptr;
    document["rows"].push_back(row);
  }
  std::cout << document.dump(1) << "\n";
  return 0;
}
