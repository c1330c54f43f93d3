// A forward pass with the device's back end, in the emulation, beside the host's: weights from
// staging memory that the device wants, calls as layers make them.
#include "commands/trace/forward/forward_pass.hpp"
#include "cpu/forward/cpu_forward.hpp"
#include "engine/run/opening.hpp"
#include "kernels/forward/cuda_forward.hpp"
#include "tests/support/trace_models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace vindex::trace_cuda_test {
namespace {

using testing::TemporaryFolder;

/// The residual stream behind the last layer.
std::vector<float> states_of(const std::string& path, ForwardBackend& backend) {
  const engine::OpenModel opened = engine::open_whole(path, "", 1);
  const model::Transformer transformer = model::read_transformer(opened.files, opened.index);
  commands::TracePrompts prompts;
  prompts.lengths = {1, 40, 3, 70};
  for (std::int32_t i = 0; i < 114; ++i) {
    prompts.ids.push_back(i * 31 % 50);
  }
  commands::ForwardOptions options;
  options.ram_budget = std::uint64_t{2} << 30U;
  const commands::ForwardModel model{transformer, opened.files, opened.index, backend};
  const commands::ForwardOutcome outcome = commands::run_forward(model, prompts, options, {}, {});
  const commands::TokenRows& states = *outcome.states;
  std::vector<float> rows(static_cast<std::size_t>(states.tokens() * states.width()));
  states.read(0, states.tokens(), rows.data());
  return rows;
}

TEST(TraceCuda, AForwardPassIsTheHosts) {
  const TemporaryFolder folder;
  const auto host = cpu::make_cpu_forward(1);
  const auto device = kernels::make_cuda_forward(0);
  for (const std::string& model : {testing::write_trace_model(folder, "dense"),
                                   testing::write_trace_model(folder, "mixture", {.experts = 5})}) {
    SCOPED_TRACE(model);
    const std::vector<float> wanted = states_of(model, *host);
    const std::vector<float> got = states_of(model, *device);
    ASSERT_EQ(got.size(), wanted.size());
    const float largest = *std::max_element(wanted.begin(), wanted.end());
    float apart = 0.0F;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i])) << i;
      apart = std::max(apart, std::abs(got[i] - wanted[i]));
    }
    EXPECT_LT(apart, 1e-4F * largest);
  }
}

}  // namespace
}  // namespace vindex::trace_cuda_test
