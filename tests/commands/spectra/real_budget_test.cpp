// Models larger than the memory they may use, and weights that are stored twice.
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"
#include "tests/support/safetensors_builder.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <fstream>

namespace vindex::testing::real_budget_test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
/// What the contract grants beside the budget (code, libraries, threads).
constexpr std::uint64_t kBeside = 256 * kMiB;

class BudgetTest : public ProgramTest {
 protected:
  std::uint64_t least(const std::string& model) {
    const ProgramResult plan = run({"plan", model, "--json"});
    EXPECT_EQ(plan.exit_code, 0) << plan.err;
    return nlohmann::json::parse(plan.out)["least_ram_bytes"];
  }
  /// Measures within `budget`, checks the peak, returns the table.
  std::string table_within(const std::string& model, std::uint64_t budget) {
    const std::string out = folder_.file("budget.h5");
    const ProgramResult result = run({"measure", model, "-o", out, "--progress", "none",
                                      "--restart", "--ram-budget", std::to_string(budget)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    if (!VINDEX_SANITIZED) {  // a sanitizer's shadow memory is no memory of the program's
      EXPECT_LE(static_cast<std::uint64_t>(result.peak_kib) * 1024, budget + kBeside);
    }
    must({"validate", out});
    return csv(out);
  }
  /// One BF16 tensor; the value at (i, j) is exactly representable and depends on both.
  std::string embedding(std::size_t rows, std::size_t cols) {
    const std::string path = folder_.file("embedding.safetensors");
    const std::size_t bytes = rows * cols * 2;
    std::ofstream file(path, std::ios::binary);
    file << safetensors_file(
        braces(safetensors_entry("model.embed_tokens.weight", "BF16",
                                 std::to_string(rows) + "," + std::to_string(cols),
                                 "0," + std::to_string(bytes))),
        0);
    std::uint64_t state = 1;
    std::vector<std::uint16_t> row(cols);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::uint16_t& code : row) {
        state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
        code = static_cast<std::uint16_t>(0x3C00U | ((state >> 33U) & 0x80FFU));
      }
      file.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(cols * 2));
    }
    return path;
  }
};

TEST_F(BudgetTest, AnEmbeddingLargerThanTheBudgetIsStreamed) {
  constexpr std::size_t kRows = 40000, kCols = 512;
  const std::string model = embedding(kRows, kCols);
  const std::uint64_t budget = least(model);
  ASSERT_LT(budget, kRows * kCols * 2);
  const std::string small = table_within(model, budget);
  EXPECT_EQ(small, table_within(model, 2048 * kMiB));
  EXPECT_EQ(run({"measure", model, "-o", folder_.file("none.h5"), "--ram-budget",
                 std::to_string(budget - 1)})
                .exit_code,
            78);

  // Its spectrum against exact sums over the bytes just written.
  const auto rows = read_rows(folder_.file("budget.h5"));
  ASSERT_EQ(rows.size(), 1U);
  const auto weights = decoded(model, "model.embed_tokens.weight");
  ASSERT_EQ(weights.size(), kRows * kCols);
  double energy = 0.0, spectrum = 0.0;
  for (const float weight : weights) {
    energy += static_cast<double>(weight) * weight;
  }
  for (const double sigma : rows[0].sigma) {
    spectrum += sigma * sigma;
  }
  EXPECT_EQ(rows[0].rows, 40000);
  EXPECT_EQ(rows[0].sigma.size(), kCols);
  EXPECT_NEAR(rows[0].frobenius_norm, std::sqrt(energy), 1e-12 * std::sqrt(energy));
  EXPECT_NEAR(spectrum, energy, 3e-6 * energy);
}

// Hugging Face files may hold lm_head although the configuration ties it to the embedding. It is
// another matrix where a byte differs.
TEST_F(BudgetTest, TiedEmbeddingsAppearOnce) {
  std::string values(2 * 48 * 32 * 2, '\x3c');
  const std::string header =
      braces(safetensors_entry("lm_head.weight", "BF16", "48,32", "0,3072") + "," +
             safetensors_entry("model.embed_tokens.weight", "BF16", "48,32", "3072,6144"));
  std::filesystem::create_directories(folder_.path() / "tied");
  const auto check = [&](const std::string& name, bool tied, std::size_t count) {
    std::ofstream(folder_.file("tied/model.safetensors"), std::ios::binary)
        << safetensors_file(header, 0) << values;
    std::ofstream(folder_.file("tied/config.json"))
        << R"({"model_type":"llama","num_hidden_layers":1,"tie_word_embeddings":)"
        << (tied ? "true}" : "false}");
    const std::string file = measured(folder_.file("tied"), name);
    const auto rows = read_rows(file);
    ASSERT_EQ(rows.size(), count) << name;
    EXPECT_EQ(rows[0].role, "embed_tokens");
    EXPECT_EQ(read_strings(file, "/tensor/name").size(), 2U);  // the tensor table still names both
    const ProgramResult inspected = run({"inspect", folder_.file("tied"), "--json"});
    EXPECT_EQ(nlohmann::json::parse(inspected.out)["matrices"], count) << name;
    EXPECT_EQ(inspected.out.find("W-TIED") != std::string::npos, tied) << name;
    const ProgramResult plan = run({"plan", folder_.file("tied"), "--json"});
    EXPECT_EQ(nlohmann::json::parse(plan.out)["matrices"], count) << name;
  };
  check("tied", true, 1);
  check("untied", false, 2);
  values[17] = '\x3d';
  check("other", true, 2);
}

}  // namespace
}  // namespace vindex::testing::real_budget_test
