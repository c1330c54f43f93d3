// The example of docs/developing/adding-a-job.md: its numbers are those of `vindex measure`, and
// what the runner does for every job it does for this one.
#include "norms_job.hpp"

#include "commands/spectra/measure_run.hpp"
#include "results/reading/query.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/run_status.hpp"
#include "results/schema/schema.hpp"
#include "results/view/results_view.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::commands::norms_job_test {
namespace {

using vindex::testing::noise_tensor;

class NormsJobTest : public ::testing::Test {
 protected:
  NormsJobTest() {
    for (unsigned i = 0; i < kMatrices; ++i) {
      tensors_.push_back(noise_tensor("model.layers." + std::to_string(i) + ".mlp.down_proj.weight",
                                      {40 + i, 70}, i));
    }
    write();
  }
  void write() { vindex::testing::write_safetensors(folder_ / "m.safetensors", tensors_); }

  engine::RunSettings settings(const std::string& output) const {
    engine::RunSettings settings;
    settings.model = folder_ / "m.safetensors";
    settings.output = folder_ / output;
    settings.backend = engine::BackendChoice::kCpu;
    settings.threads = 1;
    settings.ram_budget = 1ULL << 30U;
    return settings;
  }

  static constexpr unsigned kMatrices = 6;
  std::optional<results::ScopedSchema> schema_{
      results::Schema{.id = kNormsSchema,
                      .name = "vindex-norms",
                      .version = "1.0",
                      .rows = "matrices",
                      .command = "norms",
                      .table = "/matrix",
                      .dimension = "matrix",
                      .name_column = "tensor",
                      .outcome = "measured",
                      .members = results::schema_of(results::FileSchema::kResults).members,
                      .cells = &kNormsTable}};
  vindex::testing::TemporaryFolder folder_;
  std::vector<vindex::testing::FloatTensor> tensors_;
};

TEST_F(NormsJobTest, GivesTheNormsOfMeasure) {
  EXPECT_EQ(measure_norms(settings("norms.h5"), {}).exit_code, ExitCode::kOk);
  EXPECT_EQ(measure_model({.run = settings("spectra.h5")}, {}).exit_code, ExitCode::kOk);
  EXPECT_EQ(results::validate_file(folder_ / "norms.h5"), std::vector<std::string>{});
  const results::ResultsView norms = results::read_view(folder_ / "norms.h5");
  const std::vector<double> wanted =
      results::ResultsFile(folder_ / "spectra.h5").numbers("frobenius_norm", {{0, 1, 2, 3, 4, 5}});
  ASSERT_EQ(norms.rows.size(), kMatrices);
  for (std::size_t i = 0; i < kMatrices; ++i) {
    EXPECT_EQ(norms.rows[i].tensor, tensors_[i].name);
    EXPECT_EQ(norms.rows[i].cells[norms_cell("frobenius_norm")], wanted[i]);
  }
}

TEST_F(NormsJobTest, StopsWithWhatIsFinishedAndResumes) {
  std::stop_source stop;
  engine::RunHooks hooks;
  hooks.stop = stop.get_token();
  hooks.progress = [&](const engine::ProgressSnapshot& snapshot) {  // after every row
    if (snapshot.done.matrices == 2) {
      stop.request_stop();
    }
  };
  const engine::RunOutcome stopped = measure_norms(settings("norms.h5"), hooks);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.exit_code, ExitCode::kStoppedEarly);
  EXPECT_EQ(stopped.measured_now, 2);
  EXPECT_EQ(results::read_status(folder_ / "norms.h5").done, 2);
  const engine::RunOutcome resumed = measure_norms(settings("norms.h5"), {});
  EXPECT_EQ(resumed.exit_code, ExitCode::kOk);
  EXPECT_EQ(resumed.done_before, 2);
  EXPECT_EQ(resumed.measured_now, std::int64_t{kMatrices} - 2);
  EXPECT_EQ(results::read_status(folder_ / "norms.h5").state, "complete");
  measure_norms(settings("whole.h5"), {});
  const results::ResultsView a = results::read_view(folder_ / "norms.h5");
  const results::ResultsView b = results::read_view(folder_ / "whole.h5");
  for (std::size_t i = 0; i < kMatrices; ++i) {
    EXPECT_EQ(a.rows[i].cells, b.rows[i].cells);
  }
}

TEST_F(NormsJobTest, DoesNothingTwiceAndKeepsNothingOfAnotherModel) {
  measure_norms(settings("norms.h5"), {});
  EXPECT_EQ(measure_norms(settings("norms.h5"), {}).done_before, std::int64_t{kMatrices});
  tensors_.pop_back();
  write();
  EXPECT_THROW(measure_norms(settings("norms.h5"), {}), ConfigurationError);
}

TEST_F(NormsJobTest, SaysWhichMatrixHasNoNorm) {
  tensors_[2].values[5] = std::numeric_limits<float>::quiet_NaN();
  write();
  const engine::RunOutcome outcome = measure_norms(settings("norms.h5"), {});
  EXPECT_EQ(outcome.not_finite, 1);
  const results::ResultsView norms = results::read_view(folder_ / "norms.h5");
  EXPECT_EQ(norms.rows[2].status, "not_finite");
  EXPECT_EQ(norms.rows[2].reason, "1 weights are not finite");
  EXPECT_EQ(results::validate_file(folder_ / "norms.h5"), std::vector<std::string>{});
}

TEST_F(NormsJobTest, IsAFileOfNoKindWithoutItsSchema) {
  measure_norms(settings("norms.h5"), {});
  schema_.reset();
  EXPECT_EQ(vindex::testing::error_of([&] { (void)results::schema_at(folder_ / "norms.h5"); }),
            "E-RESULTS-SCHEMA");
}

/// A page shows a file as it is.
TEST(AddingAJob, ThePageShowsTheExample) {
  const std::string root = VINDEX_SOURCE_DIR;
  const std::string code = vindex::testing::file_text(root + "/tests/commands/norms/norms_job.hpp");
  EXPECT_NE(vindex::testing::file_text(root + "/docs/developing/adding-a-job.md")
                .find("```cpp\n" + code + "```\n"),
            std::string::npos)
      << "docs/developing/adding-a-job.md shows something else than "
         "tests/commands/norms/norms_job.hpp";
}

}  // namespace
}  // namespace vindex::commands::norms_job_test
