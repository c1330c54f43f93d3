// What the calls of the library do to the process they are made in: nothing that lasts.
#include "library_fixture.hpp"

#include "tests/support/expect_error.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <filesystem>
#include <set>
#include <thread>

namespace vindex::testing {
namespace {

std::set<std::string> thread_ids() {
  std::set<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(entry.path().filename());
  }
  return ids;
}

std::vector<std::string> environment() {
  std::vector<std::string> lines;
  for (char** line = environ; *line != nullptr; ++line) {
    lines.emplace_back(*line);
  }
  return lines;
}

std::vector<void (*)(int)> signal_handlers() {
  std::vector<void (*)(int)> handlers;
  for (int number = 1; number < SIGRTMAX; ++number) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    handlers.push_back(action.sa_handler);
  }
  return handlers;
}

TEST_F(LibraryTest, LeavesTheProcessAsItWas) {
  // Tests run with one thread of OpenBLAS; a program that links the library has not said so.
  ::unsetenv("OPENBLAS_NUM_THREADS");
  const std::string path = float_model();
  const auto threads = thread_ids();
  const auto lines = environment();
  const auto handlers = signal_handlers();
  const auto folder = std::filesystem::current_path();

  const Model model = open(path);
  spectrum(model.decode(model.matrices()[0]), 96, 160);
  measure(model, folder_ / "out.h5", on_cpu_);
  read(folder_ / "out.h5").column<double>("stable_rank");

  EXPECT_EQ(thread_ids(), threads);
  EXPECT_EQ(environment(), lines);
  EXPECT_EQ(signal_handlers(), handlers);
  EXPECT_EQ(std::filesystem::current_path(), folder);
}

TEST_F(LibraryTest, AStopEndsAMeasurementAndKeepsWhatIsFinished) {
  const std::string path = synthetic("layer:64x1024x1024:bf16");
  const auto threads = thread_ids();
  const Model model = open(path);
  std::stop_source stop;
  Hooks hooks;
  hooks.stop = stop.get_token();
  std::clock_t asked = 0;  // of processors: others may keep this process waiting
  hooks.progress = [&](const Progress& at) {
    if (at.done > 0 && stop.request_stop()) {
      asked = std::clock();
    }
  };
  // Strict, so that what is left takes much longer than two seconds.
  MeasureSettings settings = on_cpu_;
  settings.mode = Mode::kStrict;
  const std::string out = folder_ / "out.h5";
  const Outcome outcome = measure(model, out, settings, hooks);
  const double seconds = static_cast<double>(std::clock() - asked) / CLOCKS_PER_SEC;
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.exit_code, ExitCode::kStoppedEarly);
  EXPECT_GT(outcome.measured_now, 0);
  EXPECT_LT(outcome.measured_now, 64);
  EXPECT_LT(seconds, std::thread::hardware_concurrency() * (VINDEX_SANITIZED == 1 ? 30.0 : 2.0));
  EXPECT_EQ(thread_ids(), threads);
  const Results results = read(out);
  EXPECT_EQ(results.status(), "partial");
  std::int64_t measured = 0;
  for (const std::string& status : results.column<std::string>("status")) {
    measured += status == "measured" ? 1 : 0;
  }
  EXPECT_EQ(measured, outcome.measured_now);
}

TEST_F(LibraryTest, AStopEndsASpectrum) {
  std::stop_source stop;
  stop.request_stop();
  const std::vector<float> weights(600 * 600, 1.0F);
  EXPECT_EQ(
      error_of([&] { spectrum(weights, 600, 600, {.backend = "cpu", .stop = stop.get_token()}); }),
      "E-STOPPED");
}

TEST_F(LibraryTest, AStopEndsDecoding) {
  std::stop_source stop;
  const Model model = open(float_model(), stop.get_token());
  EXPECT_FALSE(model.decode(model.matrices()[0]).empty());
  stop.request_stop();
  EXPECT_EQ(error_of([&] { model.decode(model.matrices()[0]); }), "E-STOPPED");
}

TEST_F(LibraryTest, KeepsItsBlasToItself) {
  if (VINDEX_SANITIZED == 1) {
    GTEST_SKIP() << "a sanitizer's C library is not to be had twice";
  }
  // What the program's environment says is for its own OpenBLAS.
  ::setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  const Model model = open(float_model());
  EXPECT_EQ(spectrum(model.decode(model.matrices()[0]), 96, 160, {.backend = "cpu"}).status,
            "measured");
  ::unsetenv("OPENBLAS_CORETYPE");
  EXPECT_EQ(::dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD), nullptr);
}

TEST_F(LibraryTest, CallsOfSeveralThreadsGiveTheSame) {
  const std::string path = float_model();
  const Model shared = open(path);
  const Matrix& matrix = shared.matrices()[1];
  const std::vector<float> weights = shared.decode(matrix);
  const Spectrum alone = spectrum(weights, matrix.rows, matrix.cols, {.backend = "cpu"});
  std::atomic<int> equal{0};
  std::array<std::string, 4> failures;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < failures.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          const std::string out = folder_ / ("out" + std::to_string(i) + ".h5");
          const Model own = open(path);
          const std::vector<float> again = shared.decode(matrix);
          const Spectrum found = spectrum(again, matrix.rows, matrix.cols, {.backend = "cpu"});
          measure(i % 2 == 0 ? own : shared, out, on_cpu_);
          const bool same = same_bits(again, weights) && same_bits(found.sigma, alone.sigma) &&
                            same_bits(read(out).spectrum(1), alone.sigma) &&
                            null(70, 130).figures["gini"] == alone.figures["gini_null"];
          equal += same ? 1 : 0;
        } catch (const std::exception& error) {
          failures[i] = error.what();
        }
      });
    }
  }
  EXPECT_EQ(failures, (std::array<std::string, 4>{}));
  EXPECT_EQ(equal, 4);
}

}  // namespace
}  // namespace vindex::testing
