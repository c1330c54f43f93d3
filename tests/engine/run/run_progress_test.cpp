// What a run tells of its progress: amounts of rows of every table that add up to the whole.
#include "commands/spectra/measure_run.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/importance_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vindex::engine::run_progress_test {
namespace {

using vindex::testing::importance_dat;
using vindex::testing::noise_tensor;
using vindex::testing::TemporaryFolder;
using vindex::testing::write_safetensors;

/// Attention of one layer, whose heads and weighted matrices are rows of their own.
commands::SpectraSettings derived_settings(const TemporaryFolder& folder) {
  const std::string prefix = "model.layers.0.self_attn.";
  write_safetensors(folder / "model.safetensors",
                    {noise_tensor(prefix + "q_proj.weight", {24, 20}, 1),
                     noise_tensor(prefix + "k_proj.weight", {8, 20}, 2),
                     noise_tensor(prefix + "v_proj.weight", {8, 20}, 3),
                     noise_tensor(prefix + "o_proj.weight", {20, 24}, 4)});
  folder.write("config.json",
               R"({"model_type":"llama","num_attention_heads":6,"num_key_value_heads":2})");
  commands::SpectraSettings settings;
  settings.run.ram_budget = std::uint64_t{1} << 30U;
  settings.run.model = folder.path();
  settings.run.output = folder / "out.h5";
  settings.imatrix = folder.write(
      "m.dat", importance_dat({{"blk.0.attn_q.weight", 2, std::vector<float>(20, 3.0F)},
                               {"blk.0.attn_output.weight", 2, std::vector<float>(24, 5.0F)}}));
  settings.indexing.heads = true;
  settings.run.backend = BackendChoice::kCpu;
  settings.run.threads = 1;
  return settings;
}

std::vector<ProgressSnapshot> snapshots_of(const commands::SpectraSettings& settings) {
  std::vector<ProgressSnapshot> snapshots;
  RunHooks hooks;
  hooks.progress = [&](const ProgressSnapshot& snapshot) { snapshots.push_back(snapshot); };
  EXPECT_EQ(commands::measure_model(settings, hooks).exit_code, ExitCode::kOk);
  return snapshots;
}

TEST(RunProgress, TheCostOfDerivedRowsAddsUpToTheTotal) {
  const TemporaryFolder folder;
  commands::SpectraSettings settings = derived_settings(folder);
  const std::vector<ProgressSnapshot> first = snapshots_of(settings);
  ASSERT_FALSE(first.empty());
  const ProgressSnapshot& end = first.back();
  // Four matrices, two of them weighted, and two products of each of six heads.
  EXPECT_EQ(end.total.matrices, 4 + 2 + 12);
  EXPECT_EQ(end.done.matrices, end.total.matrices);
  EXPECT_EQ(end.done.bytes, end.total.bytes);
  EXPECT_NEAR(end.done.cost, end.total.cost, 1e-9 * end.total.cost);
  for (const ProgressSnapshot& snapshot : first) {
    EXPECT_LE(snapshot.done.cost, snapshot.total.cost * (1.0 + 1e-9));
  }
  // Of a run that goes on, what was there before is counted by the same measure.
  settings.run.restart = true;
  settings.run.selection.roles = {"q_proj"};
  const std::vector<ProgressSnapshot> part = snapshots_of(settings);
  ASSERT_FALSE(part.empty());
  settings.run.restart = false;
  settings.run.selection.roles.clear();
  const std::vector<ProgressSnapshot> rest = snapshots_of(settings);
  ASSERT_FALSE(rest.empty());
  EXPECT_NEAR(rest.back().before.cost, part.back().total.cost, 1e-9 * end.total.cost);
  EXPECT_NEAR(rest.back().done.cost, end.total.cost, 1e-9 * end.total.cost);
}

}  // namespace
}  // namespace vindex::engine::run_progress_test
