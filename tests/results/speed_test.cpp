// Not run by default: ./results_tests --gtest_also_run_disabled_tests --gtest_filter='*Speed*'
#include "sample_run.hpp"

#include "results/reading/validate.hpp"
#include "results/runs/run_status.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <sys/resource.h>

namespace vindex::results::testing::speed_test {
namespace {

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(Speed, DISABLED_Publishing23040RowsOf2048Values) {
  const TestFolder folder;
  SampleOptions options;
  options.layers = 30;
  options.experts = 384;
  options.rows = 7168;
  options.cols = 2048;
  RunDescription run = sample_run(options);
  const ResultRow model = sample_row(run, 1);
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> noise(0.999, 1.001);
  const std::string path = folder / "out.h5";
  const auto store = open_run_store(path, run, {}, false);
  double parts = 0.0;
  for (std::size_t i = 0; i < run.matrices.size(); ++i) {
    ResultRow row = model;
    row.index = static_cast<std::int64_t>(i);
    row.sigma.resize(
        static_cast<std::size_t>(std::min(run.matrices[i].rows, run.matrices[i].cols)));
    for (double& value : row.sigma) {
      value *= noise(generator);
    }
    std::sort(row.sigma.begin(), row.sigma.end(), std::greater<>());
    store->add(std::move(row));
    if (i % 256 == 255) {
      parts += seconds_of([&] { store->publish_part(); });
    }
  }
  const double before = cpu_seconds();
  const double whole = seconds_of([&] { store->publish_file(); });
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("parts %.2f s, file %.2f s (cpu %.2f s), %.0f MB, peak %.0f MiB\n", parts, whole,
              cpu_seconds() - before, static_cast<double>(std::filesystem::file_size(path)) * 1e-6,
              static_cast<double>(usage.ru_maxrss) / 1024.0);
  std::printf("validate %.2f s\n", seconds_of([&] { EXPECT_TRUE(validate_file(path).empty()); }));
  std::printf("status %.2f s\n", seconds_of([&] { read_status(path); }));
}

}  // namespace
}  // namespace vindex::results::testing::speed_test
