// Shards that are cut, grown, overwritten, replaced or removed under a run: the rows of that shard
// fail, those of the others are measured, the run ends with 65 or 74, and the next one refuses.
#include "commands/spectra/measure_run.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace vindex::engine::changed_input_test {
namespace {

namespace fs = std::filesystem;
using vindex::testing::TemporaryFolder;

constexpr int kSide = 48;
constexpr std::size_t kBytes = std::size_t{kSide} * kSide * 4;

/// Weights between 1 and 2 that are no constant.
std::string weights(unsigned int seed) {
  std::string bytes;
  for (int i = 0; i < kSide * kSide; ++i) {
    seed = seed * 1664525U + 1013904223U;
    const std::uint32_t bits = 0x3F800000U | (seed >> 9U);
    bytes.append(reinterpret_cast<const char*>(&bits), 4);
  }
  return bytes;
}

/// Three matrices.
std::string safetensors_shard(int first) {
  std::string entries;
  std::string data;
  for (int i = first; i < first + 3; ++i) {
    entries += i == first ? "" : ",";
    entries += vindex::testing::safetensors_entry(
        "t" + std::to_string(i), "F32", std::to_string(kSide) + "," + std::to_string(kSide),
        std::to_string(data.size()) + "," + std::to_string(data.size() + kBytes));
    data += weights(static_cast<unsigned int>(i));
  }
  return vindex::testing::safetensors_file(vindex::testing::braces(entries), 0) + data;
}

std::string gguf_shard(int first, std::uint16_t number) {
  vindex::testing::GgufBuilder builder;
  builder.key_u16("split.no", number).key_u16("split.count", 2).key_i32("split.tensors.count", 6);
  for (int i = first; i < first + 3; ++i) {
    builder.tensor("t" + std::to_string(i), {kSide, kSide}, 0, builder.data.size());
    builder.data += weights(static_cast<unsigned int>(i));
  }
  return builder.bytes();
}

/// Two shards; the second is the one to be changed.
struct Model {
  std::string path;
  std::string second;
  std::string other;  ///< a file of the same size with other weights
};

void make_old(const std::string& path) {
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
}

Model write_model(const TemporaryFolder& folder, bool gguf) {
  Model model;
  const std::string suffix = gguf ? ".gguf" : ".safetensors";
  const auto write = [&](const std::string& name, int first, std::uint16_t number) {
    return folder.write(name, gguf ? gguf_shard(first, number) : safetensors_shard(first));
  };
  const std::string first = write("model/m-00001-of-00002" + suffix, 0, 0);
  model.path = gguf ? first : folder / "model";
  model.second = write("model/m-00002-of-00002" + suffix, 3, 1);
  model.other = write("other", 6, 1);
  make_old(first);
  make_old(model.second);
  return model;
}

struct Change {
  const char* name;
  void (*make)(const Model& model);
};

constexpr Change kChanges[] = {
    {"cut", [](const Model& m) { fs::resize_file(m.second, 1000); }},
    {"emptied", [](const Model& m) { fs::resize_file(m.second, 0); }},
    {"grown", [](const Model& m) { fs::resize_file(m.second, fs::file_size(m.second) + 4096); }},
    {"overwritten",
     [](const Model& m) {
       std::ifstream from(m.other, std::ios::binary);
       std::fstream into(m.second, std::ios::binary | std::ios::in | std::ios::out);
       into << from.rdbuf();
     }},
    {"replaced", [](const Model& m) { fs::rename(m.other, m.second); }},
    {"removed", [](const Model& m) { fs::remove(m.second); }}};

/// Exit code of a run that is refused.
int refusal_of(const RunSettings& settings) {
  try {
    return static_cast<int>(commands::measure_model({.run = settings}, {}).exit_code);
  } catch (const Error& error) {
    return static_cast<int>(error.exit_code());
  }
}

class ChangedInputTest : public ::testing::TestWithParam<std::tuple<bool, input::ReadPath>> {};

TEST_P(ChangedInputTest, ItsRowsFailAndTheOthersAreMeasured) {
  const auto [gguf, path] = GetParam();
  for (const Change& change : kChanges) {
    SCOPED_TRACE(change.name);
    const TemporaryFolder folder;
    const Model model = write_model(folder, gguf);
    RunSettings settings;
    settings.ram_budget = std::uint64_t{1} << 30U;
    settings.model = model.path;
    settings.output = folder / "out.h5";
    settings.backend = BackendChoice::kCpu;
    settings.threads = 1;
    settings.reading.path = path;
    // The first word to people comes when all headers are read and no weight is.
    bool changed = false;
    RunHooks hooks;
    hooks.message = [&](const std::string&) {
      if (!changed) {
        change.make(model);
      }
      changed = true;
    };
    const RunOutcome outcome = commands::measure_model({.run = settings}, hooks);
    EXPECT_TRUE(changed);
    EXPECT_EQ(outcome.measured_now, 6);  // rows, failed ones included
    EXPECT_EQ(outcome.failed, 3);
    const int code = static_cast<int>(outcome.exit_code);
    EXPECT_TRUE(code == 65 || code == 74) << code;
    // Another file, a damaged one, or none: the results belong to a model that is gone.
    const int again = refusal_of(settings);
    EXPECT_TRUE(again == 65 || again == 66 || again == 78) << again;
  }
}

INSTANTIATE_TEST_SUITE_P(
    ContainersAndReadPaths, ChangedInputTest,
    ::testing::Combine(::testing::Bool(),
                       ::testing::Values(input::ReadPath::kBuffered, input::ReadPath::kDirect)),
    [](const auto& parameters) {
      return std::string(std::get<0>(parameters.param) ? "Gguf" : "Safetensors") +
             (std::get<1>(parameters.param) == input::ReadPath::kDirect ? "Direct" : "Buffered");
    });

}  // namespace
}  // namespace vindex::engine::changed_input_test
