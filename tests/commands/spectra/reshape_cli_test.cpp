// `--reshape out`: tensors of rank 3 and more as out x rest, from both containers.
#include "tests/support/float_model.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"
#include "tests/support/singular_values.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::testing::reshape_cli_test {
namespace {

class ReshapeTest : public ProgramTest {
 protected:
  /// Rows of the file, each compared with LAPACK on the weights that `decode` writes.
  std::vector<MeasuredRow> checked(const std::string& model, const std::string& results) {
    const auto rows = read_rows(results);
    for (const MeasuredRow& row : rows) {
      EXPECT_EQ(row.status, 0) << row.tensor << ": " << row.reason;
      const auto expected = singular_values(decoded(model, row.tensor), row.rows, row.cols);
      EXPECT_EQ(row.sigma.size(), expected.size()) << row.tensor;
      for (std::size_t i = 0; i < std::min(expected.size(), row.sigma.size()); ++i) {
        EXPECT_NEAR(row.sigma[i], expected[i], 1e-6 * expected[0]) << row.tensor << " " << i;
      }
    }
    return rows;
  }
};

TEST_F(ReshapeTest, BothContainersGiveOutTimesRest) {
  const std::vector<FloatTensor> tensors = {
      noise_tensor("conv1.weight", {6, 4, 3, 5}, 1), noise_tensor("conv2.weight", {7, 1, 9}, 2),
      noise_tensor("linear.weight", {5, 8}, 3), noise_tensor("conv1.bias", {6}, 4)};
  const std::string hf = folder_.file("model.safetensors"), gguf = folder_.file("model.gguf");
  write_safetensors(hf, tensors);
  write_gguf(gguf, tensors,
             [](GgufBuilder& file) { file.key_string("general.architecture", "unheard_of"); });
  std::vector<std::vector<double>> spectra;
  for (const std::string& model : {hf, gguf}) {
    EXPECT_EQ(read_rows(measured(model, "plain", {"--restart"})).size(), 1U);
    const auto rows = checked(model, measured(model, "out", {"--reshape", "out", "--restart"}));
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(std::make_pair(rows[0].rows, rows[0].cols), std::make_pair(6L, 60L));
    EXPECT_EQ(std::make_pair(rows[1].rows, rows[1].cols), std::make_pair(7L, 9L));
    EXPECT_EQ(rows[0].slice, -1);
    spectra.push_back(rows[0].sigma);
  }
  EXPECT_EQ(spectra[0], spectra[1]);
}

// What lies in the file is the same; what the run is about is not.
TEST_F(ReshapeTest, AnotherChoiceIsAnotherRun) {
  const std::string model = folder_.file("model.safetensors");
  write_safetensors(
      model, {noise_tensor("conv.weight", {6, 4, 3}, 1), noise_tensor("linear.weight", {5, 8}, 3)});
  const std::string out = measured(model, "run");
  const ProgramResult other =
      run({"measure", model, "-o", out, "--reshape", "out", "--progress", "none"});
  EXPECT_EQ(other.exit_code, 78);
  EXPECT_NE(other.err.find("reshape was 'none', now 'out'"), std::string::npos) << other.err;
}

TEST_F(ReshapeTest, InspectAndPlanCountThem) {
  const std::string model = folder_.file("model.safetensors");
  write_safetensors(
      model, {noise_tensor("conv.weight", {6, 4, 3}, 1), noise_tensor("none.weight", {6, 0, 3}, 1),
              noise_tensor("linear.weight", {5, 8}, 3)});
  const auto count = [&](std::vector<std::string> arguments) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("matrices").get<int>();
  };
  EXPECT_EQ(count({"inspect", model, "--json"}), 1);
  EXPECT_EQ(count({"inspect", model, "--json", "--reshape", "out"}), 2);
  EXPECT_EQ(count({"plan", model, "--json", "--reshape", "out"}), 2);
  EXPECT_EQ(run({"inspect", model, "--reshape", "in"}).exit_code, 64);
}

TEST_F(ReshapeTest, ConvolutionsOfARealModelAgreeWithLapack) {
  const std::string model = data_ + "/silero/silero_vad_16k.safetensors";
  VINDEX_NEEDS(model);
  const auto rows = checked(model, measured(model, "silero", {"--reshape", "out"}));
  EXPECT_GT(rows.size(), 6U);
  for (const MeasuredRow& row : rows) {
    EXPECT_GE(row.cols, 1) << row.tensor;
  }
}

}  // namespace
}  // namespace vindex::testing::reshape_cli_test
