// Statistics gathered layer by layer beside those of a dump of the same rows, by the commands that
// read dumps; whatever the blocks, and across runs that go on.
#include "commands/trace/statistics/trace_statistics.hpp"

#include "commands/activations/activations_run.hpp"
#include "commands/cka/cka_run.hpp"
#include "commands/routing/routing_run.hpp"
#include "commands/trace/output/trace_dump.hpp"
#include "cpu/cpu_backend.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/table_rows.hpp"
#include "results/reading/validate.hpp"
#include "results/view/results_view.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace vindex::commands::trace_statistics_test {
namespace {

constexpr std::int64_t kHidden = 24;
constexpr std::int64_t kExperts = 6;
constexpr std::int32_t kLayers = 4;

/// A dense layer, then mixtures; one of them without a shared expert.
model::Transformer tiny_model() {
  model::Transformer out;
  out.hidden = kHidden;
  out.vocabulary = 100;
  for (std::int32_t number = 0; number < kLayers; ++number) {
    model::TransformerLayer& layer = out.layers.emplace_back();
    layer.number = number;
    if (number == 0) {
      layer.dense.emplace().neurons = 20;
      continue;
    }
    model::Mixture& mixture = layer.mixture.emplace();
    mixture.rule.top_k = 2;
    mixture.experts.resize(kExperts);
    if (number != 2) {
      mixture.shared.emplace().neurons = 9;
    }
  }
  return out;
}

class TraceStatisticsTest : public ::testing::Test {
 protected:
  TraceStatisticsTest() {
    for (std::int64_t prompt = 0; prompt < 12; ++prompt) {
      prompts.lengths.push_back(5 + (prompt * 7) % 11);
      prompts.ids.resize(prompts.ids.size() + static_cast<std::size_t>(prompts.lengths.back()), 1);
    }
    settings.ram_budget = std::uint64_t{1} << 30U;
    settings.scratch = folder.path().string();
  }

  /// Rows of a layer: layers and prompts have parts in common.
  std::vector<float> rows_of(std::string_view role, std::int32_t layer, std::int64_t width) const {
    std::vector<float> out;
    std::uint64_t state = 17 * static_cast<std::uint64_t>(layer + 1) + role.size();
    const auto draw = [&] {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<double>(state >> 33U) * 0x1p-30 - 1.0;
    };
    std::int64_t prompt = 0;
    for (const std::int64_t length : prompts.lengths) {
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          const double common = std::sin(static_cast<double>(prompt * 31 + j * 7));
          out.push_back(static_cast<float>(common + draw() * (1.0 + 0.3 * layer)));
        }
      }
      ++prompt;
    }
    return out;
  }

  /// Shows layers [first, last) to `observers` in blocks of `step` rows.
  void show(std::span<TraceObserver* const> observers, std::int32_t first, std::int32_t last,
            std::int64_t step) const {
    for (TraceObserver* const observer : observers) {
      observer->begin(first);
    }
    for (std::int32_t layer = first; layer < last; ++layer) {
      for (const DumpArrayPlan& array : plan_dump({}, model, prompts.tokens())) {
        if (array.layer != layer || array.cols == 0) {
          continue;
        }
        const std::vector<float> rows = rows_of(array.role, layer, array.cols);
        for (std::int64_t at = 0; at < array.rows; at += step) {
          const TraceBlock block{.layer = layer,
                                 .first = at,
                                 .rows = std::min(step, array.rows - at),
                                 .width = array.cols,
                                 .values = rows.data() + at * array.cols};
          for (TraceObserver* const observer : observers) {
            array.role == "hidden" ? observer->hidden(block)
            : array.role == "mlp"  ? observer->mlp(block)
                                   : observer->router(block, {});
          }
        }
      }
      for (TraceObserver* const observer : observers) {
        observer->end_layer(layer);
      }
    }
  }

  std::unique_ptr<TraceStatistics> statistics(const std::string& output) {
    StatisticsSettings own = settings;
    own.output = output;
    results::RunDescription run;
    run.model = "tiny";
    run.backend = "cpu";
    run.title = run.history = "a test";
    run.command_json = run.settings_json = run.inputs_json = run.environment_json = "{}";
    run.config_json = "{}";
    run.fingerprint = {{"numeric version", "1"}};
    describe_statistics(model, prompts, own, run);
    return std::make_unique<TraceStatistics>(own, model, files, prompts, run, std::stop_token());
  }

  engine::RunSettings run_settings(const std::string& output) const {
    engine::RunSettings run;
    run.output = output;
    run.threads = 1;
    run.ram_budget = std::uint64_t{1} << 30U;
    run.backend = engine::BackendChoice::kCpu;
    return run;
  }

  testing::TemporaryFolder folder;
  model::Transformer model = tiny_model();
  input::ModelFiles files;
  TracePrompts prompts;
  StatisticsSettings settings;
};

/// Every number and array of `other` is in the row of the same name of `own`.
void expect_rows(const results::ResultsView& own, const results::ResultsView& other,
                 std::string_view role, double slack = 0.0) {
  const results::CellTable& mine = *results::schema_of(own.schema).cells;
  const results::CellTable& theirs = *results::schema_of(other.schema).cells;
  std::size_t compared = 0;
  for (const results::ViewRow& row : other.rows) {
    if (row.role != role) {
      continue;
    }
    const auto found = std::find_if(own.rows.begin(), own.rows.end(),
                                    [&](const auto& one) { return one.tensor == row.tensor; });
    ASSERT_NE(found, own.rows.end()) << row.tensor;
    EXPECT_EQ(found->status, row.status);
    for (std::size_t i = 0; i < theirs.cells.size(); ++i) {
      const std::string_view name = theirs.cells[i].name;
      const std::size_t place = results::column_number(mine.cells, name);
      if (name.starts_with("gate_") || std::isnan(row.cells.at(i))) {
        continue;
      }
      EXPECT_NEAR(found->cells.at(place), row.cells[i], slack) << row.tensor << " " << name;
      ++compared;
    }
    for (std::size_t i = 0; i < theirs.arrays.size(); ++i) {
      const std::size_t place = results::column_number(mine.arrays, theirs.arrays[i].name);
      EXPECT_EQ(found->arrays.at(place), row.arrays.at(i)) << theirs.arrays[i].name;
    }
  }
  EXPECT_GT(compared, 20U);
}

TEST_F(TraceStatisticsTest, AreThoseOfADump) {
  auto backend = cpu::make_cpu_backend(1);
  settings.backend = backend.get();
  const std::string dump = folder / "dump";
  std::filesystem::create_directory(dump);
  DumpWriter writer(plan_dump({}, model, prompts.tokens()), prompts, dump, dump);
  auto own = statistics(folder / "statistics.h5");
  TraceObserver* const both[] = {&writer, own.get()};
  show(both, 0, kLayers, 17);
  writer.finish();
  own->finish(nullptr);
  EXPECT_EQ(results::validate_file(folder / "statistics.h5"), std::vector<std::string>());
  const results::ResultsView shown = results::read_view(folder / "statistics.h5");
  EXPECT_EQ(shown.state, "complete");

  RoutingSettings routing;
  routing.dump = dump;
  routing.rule = model.layers[1].mixture->rule;
  routing.run = run_settings(folder / "routing.h5");
  measure_routing(routing, {});
  expect_rows(shown, results::read_view(folder / "routing.h5"), "router_logits");

  ActivationsSettings activations;
  activations.dump = dump;
  activations.run = run_settings(folder / "mlp.h5");
  measure_activations(activations, {});
  expect_rows(shown, results::read_view(folder / "mlp.h5"), "mlp");
  activations.hidden = true;
  activations.run = run_settings(folder / "hidden.h5");
  measure_activations(activations, {});
  expect_rows(shown, results::read_view(folder / "hidden.h5"), "hidden");

  CkaSettings cka;
  cka.dump_a = cka.dump_b = dump;
  cka.pool = "mean";
  cka.permutations = 20;
  cka.run = run_settings(folder / "cka.h5");
  compare_activations(cka, {});
  const results::ResultsView layers = results::read_view(folder / "cka.h5");
  const results::ResultsReader reader(folder / "statistics.h5", std::nullopt);
  const std::uint64_t pairs = kLayers * (kLayers + 1) / 2;
  const auto value = results::read_numbers<double>(reader.file(), "/cka/cka", {pairs});
  const auto biased = results::read_numbers<double>(reader.file(), "/cka/cka_biased", {pairs});
  std::size_t pair = 0;
  for (std::size_t i = 0; i < kLayers; ++i) {
    for (std::size_t j = i; j < kLayers; ++j, ++pair) {
      EXPECT_NEAR(value[pair], layers.rows[i].arrays[0].at(j), 2e-6) << i << " " << j;
      EXPECT_NEAR(biased[pair], layers.rows[i].arrays[1].at(j), 2e-6) << i << " " << j;
    }
  }
}

TEST_F(TraceStatisticsTest, DoNotDependOnBlocksNorOnBudgetNorOnAPause) {
  auto whole = statistics(folder / "whole.h5");
  TraceObserver* one[] = {whole.get()};
  show(one, 0, kLayers, 1000);
  whole->finish(nullptr);
  settings.ram_budget = 0;  // rows in files
  settings.folder = folder / "run";
  std::filesystem::create_directory(settings.folder);
  for (const std::int32_t pause : {1, 2, 3}) {
    const std::string path = folder / ("paused" + std::to_string(pause) + ".h5");
    auto before = statistics(path);
    one[0] = before.get();
    show(one, 0, pause, 3);
    if (pause == 2) {  // a layer that was worked on, and did not count as finished
      const std::vector<float> rows = rows_of("hidden", 2, kHidden);
      before->hidden({.layer = 2, .first = 0, .rows = 9, .width = kHidden, .values = rows.data()});
    }
    before.reset();
    auto after = statistics(path);
    one[0] = after.get();
    show(one, pause, kLayers, 50);
    after->finish(nullptr);
    const results::ResultsView a = results::read_view(folder / "whole.h5");
    const results::ResultsView b = results::read_view(path);
    ASSERT_EQ(a.rows.size(), b.rows.size());
    for (std::size_t i = 0; i < a.rows.size(); ++i) {
      for (std::size_t cell = 0; cell < a.rows[i].cells.size(); ++cell) {
        const double x = a.rows[i].cells[cell];
        EXPECT_TRUE(x == b.rows[i].cells[cell] || std::isnan(x)) << a.rows[i].tensor << " " << cell;
      }
    }
  }
}

TEST_F(TraceStatisticsTest, RefuseToGoOnWhereEarlierLayersAreGone) {
  auto own = statistics(folder / "out.h5");
  try {
    own->begin(2);
    FAIL() << "went on";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.id(), "E-TRACE-STATISTICS");
    EXPECT_NE(std::string(error.what()).find("--restart"), std::string::npos);
  }
}

TEST_F(TraceStatisticsTest, ValuesThatAreNotFiniteAreSaid) {
  auto own = statistics(folder / "out.h5");
  own->begin(0);
  std::vector<float> rows = rows_of("hidden", 0, kHidden);
  rows[100] = std::nanf("");
  own->hidden(
      {.layer = 0, .first = 0, .rows = prompts.tokens(), .width = kHidden, .values = rows.data()});
  own->end_layer(0);
  own.reset();
  const results::ResultsView shown = results::read_view(folder / "out.h5");
  const auto row = std::find_if(shown.rows.begin(), shown.rows.end(),
                                [](const auto& one) { return one.tensor == "hidden.0"; });
  ASSERT_NE(row, shown.rows.end());
  EXPECT_EQ(row->status, "not_finite");
  EXPECT_FALSE(row->reason.empty());
}

}  // namespace
}  // namespace vindex::commands::trace_statistics_test
