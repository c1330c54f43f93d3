// Merges the parts of several workers by the program, and says how long that took and how much
// memory: merge_memory PROGRAM FOLDER LAYERS EXPERTS LENGTH WORKERS LIMIT_MIB. Spectra are of
// LENGTH values, two for each expert. Ends with 1 where the merge fails or its peak is above the
// limit.
#include "tests/results/sample_run.hpp"
#include "tests/support/program/program.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

namespace {

using namespace vindex::results;

/// The parts of `workers` workers, each with a stretch of the rows.
void write_parts(const std::string& path, const RunDescription& run, std::int32_t workers) {
  const auto rows = static_cast<std::int64_t>(run.matrices.size());
  for (std::int32_t worker = 0; worker < workers; ++worker) {
    WorkerShare share;
    share.index = worker;
    share.count = workers;
    for (std::int64_t row = 0; row < rows; ++row) {
      share.owners.push_back(static_cast<std::int32_t>(row * workers / rows));
    }
    const auto store = open_run_store(path, run, share, false);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (share.owners[static_cast<std::size_t>(row)] == worker) {
        store->add(vindex::results::testing::sample_row(run, row));
      }
    }
    store->publish_file();
  }
}

int measure(char** arguments) {
  const auto number = [&](int i) { return std::atoi(arguments[i]); };
  const std::string folder = arguments[2];
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/out.h5";
  vindex::results::testing::SampleOptions options;
  options.layers = number(3);
  options.experts = number(4);
  options.rows = number(5);
  options.cols = 2 * options.rows;
  write_parts(path, vindex::results::testing::sample_run(options), number(6));
  const vindex::testing::ProgramResult merged =
      vindex::testing::RunningProgram(arguments[1], {"merge", path + ".parts", "-o", path},
                                      folder + "/stream")
          .finish();
  const long peak_mib = merged.peak_kib / 1024;
  std::printf("%s%smerged in %.1f s (%.1f s of a processor), peak %ld MiB\n", merged.out.c_str(),
              merged.err.c_str(), merged.seconds, merged.cpu_seconds, peak_mib);
  std::filesystem::remove_all(folder);
  return merged.exit_code == 0 && peak_mib <= number(7) ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) {
    std::fputs("usage: merge_memory PROGRAM FOLDER LAYERS EXPERTS LENGTH WORKERS LIMIT_MIB\n",
               stderr);
    return 64;
  }
  try {
    return measure(arguments);
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 70;
  }
}
