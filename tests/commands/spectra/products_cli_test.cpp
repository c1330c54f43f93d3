// `--heads` and `--lora` through the program: rows of /product/, their resume, merge and exports,
// and what adapters say without the flag.
#include "tests/support/float_model.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"
#include "tests/support/singular_values.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace vindex::testing::products_cli_test {
namespace {

class ProductsTest : public ProgramTest {
 protected:
  /// Spectra of /product/ by tensor and slice, with the row's rank.
  static std::map<std::pair<std::string, int>, std::vector<double>> spectra(
      const std::string& file) {
    const auto tensors = read_strings(file, "/product/tensor");
    const NumberTable slices = read_numbers(file, "/product/slice");
    const NumberTable ranks = read_numbers(file, "/product/rank");
    std::map<std::pair<std::string, int>, std::vector<double>> out;
    for (const std::string& group : list_group(file, "/product/spectra")) {
      const std::string path = "/product/spectra/" + group;
      const NumberTable members = read_numbers(file, path + "/matrix");
      const NumberTable sigma = read_numbers(file, path + "/sigma");
      for (std::size_t i = 0; i < members.rows; ++i) {
        const auto row = static_cast<std::size_t>(members.at(i));
        EXPECT_EQ(ranks.at(row), static_cast<double>(sigma.columns));
        std::vector<double>& values = out[{tensors.at(row), static_cast<int>(slices.at(row))}];
        for (std::size_t k = 0; k < sigma.columns; ++k) {
          values.push_back(sigma.at(i, k));
        }
      }
    }
    return out;
  }

  /// A model of two layers, 4 heads on 2 key-value heads.
  std::string llama() {
    std::vector<FloatTensor> tensors;
    for (unsigned layer = 0; layer < 2; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
      tensors.push_back(noise_tensor(prefix + "q_proj.weight", {16, 24}, 4 * layer + 1));
      tensors.push_back(noise_tensor(prefix + "k_proj.weight", {8, 24}, 4 * layer + 2));
      tensors.push_back(noise_tensor(prefix + "v_proj.weight", {8, 24}, 4 * layer + 3));
      tensors.push_back(noise_tensor(prefix + "o_proj.weight", {24, 16}, 4 * layer + 4));
    }
    std::filesystem::create_directory(folder_.file("llama"));
    write_safetensors(folder_.file("llama/model.safetensors"), tensors);
    std::ofstream(folder_.file("llama/config.json"))
        << R"({"model_type":"llama","num_attention_heads":4,"num_key_value_heads":2})";
    return folder_.file("llama");
  }

  /// B A with B of 12 x 3 and A of 3 x 20; `config` is adapter_config.json.
  std::string peft(const std::string& config, std::vector<FloatTensor> more = {}) {
    const std::string prefix = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
    more.push_back(noise_tensor(prefix + "A.weight", {3, 20}, 1));
    more.push_back(noise_tensor(prefix + "B.weight", {12, 3}, 2));
    std::filesystem::create_directory(folder_.file("peft"));
    write_safetensors(folder_.file("peft/adapter_model.safetensors"), more);
    std::ofstream(folder_.file("peft/adapter_config.json")) << config;
    return folder_.file("peft");
  }

  std::string gguf_adapter(float alpha) {
    const std::string path = folder_.file("adapter.gguf");
    FloatTensor a = noise_tensor("blk.0.attn_q.weight.lora_a", {3, 20}, 1);
    FloatTensor b = noise_tensor("blk.0.attn_q.weight.lora_b", {12, 3}, 2);
    write_gguf(path, {a, b}, [&](GgufBuilder& file) {
      file.key_string("general.architecture", "llama")
          .key_string("general.type", "adapter")
          .key_string("adapter.type", "lora")
          .key("adapter.lora.alpha", 6, file.number(std::bit_cast<std::uint32_t>(alpha)));
    });
    return path;
  }

  /// Singular values of scale * B A, formed.
  static std::vector<double> adapted(double scale) {
    const FloatTensor a = noise_tensor("", {3, 20}, 1);
    const FloatTensor b = noise_tensor("", {12, 3}, 2);
    std::vector<double> product(12 * 20, 0.0);
    for (std::size_t i = 0; i < 12; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        for (std::size_t j = 0; j < 20; ++j) {
          product[i * 20 + j] += scale * b.values[i * 3 + k] * a.values[k * 20 + j];
        }
      }
    }
    std::vector<double> values = singular_values(product, 12, 20);
    values.resize(3);
    return values;
  }
  static void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 1e-12 * wanted[0]) << i;
    }
  }
};

TEST_F(ProductsTest, HeadsHaveATableOfTheirOwn) {
  const std::string out = measured(llama(), "heads", {"--heads", "--null", "signflip"});
  EXPECT_EQ(read_rows(out).size(), 8U);
  EXPECT_EQ(spectra(out).size(), 2U * 4 * 2);
  EXPECT_EQ(read_strings(out, "/product/role").front(), "ov_head");
  EXPECT_EQ(read_strings(out, "/product/method").front(), "product64+cpu");
  const NumberTable var = read_numbers(out, "/product/var_at_k");
  const NumberTable null = read_numbers(out, "/product/var_at_k_null");
  const NumberTable scale = read_numbers(out, "/product/mp_scale");
  for (std::size_t row = 0; row < var.rows; ++row) {
    EXPECT_GT(var.at(row, 0), 0.25) << row;  // of four values the largest
    EXPECT_EQ(var.at(row, 2), 1.0);          // k = 4
    EXPECT_NEAR(null.at(row, 0), null.at(0, 0), 1e-12);
    EXPECT_GT(null.at(row, 0), 0.3);
    EXPECT_LT(null.at(row, 0), 0.9);
    EXPECT_TRUE(std::isnan(scale.at(row)));
  }
  must({"export", out, "--format", "csv", "--table", "product", "-o", folder_.file("heads.csv")});
  EXPECT_NE(file_text(folder_.file("heads.csv")).find("model.layers.1.self_attn.qk"),
            std::string::npos);
}

TEST_F(ProductsTest, HeadsStandBesideSeveralSignFlips) {
  const std::string out = measured(llama(), "heads", {"--heads", "--null", "signflip=2"});
  EXPECT_EQ(read_numbers(out, "/matrix/stable_rank_signflip_std").rows, 8U);
  EXPECT_EQ(read_numbers(out, "/product/stable_rank").rows, 2U * 4 * 2);
  must({"validate", out});
  must({"show", out, "--table", "product"});
}

TEST_F(ProductsTest, RunsResumeToTheSameRows) {
  const std::string model = llama();
  const std::string whole = measured(model, "whole", {"--heads"});
  const auto expected = spectra(whole);
  // A run without heads first, then only some, then all: what is there is kept.
  const std::string grown = measured(model, "grown");
  measured(model, "grown", {"--heads", "--layers", "1"});
  EXPECT_EQ(spectra(grown).size(), 8U);
  const ProgramResult last = run({"measure", model, "-o", grown, "--heads", "--progress", "none"});
  EXPECT_EQ(last.exit_code, 0) << last.err;
  EXPECT_NE(last.err.find("resuming"), std::string::npos) << last.err;
  must({"validate", grown});
  EXPECT_EQ(spectra(grown), expected);
  const auto status = nlohmann::json::parse(run({"status", grown, "--json"}).out);
  EXPECT_EQ(status["derived"]["done"], 16);

  // Other head counts are other products.
  std::ofstream(model + "/config.json")
      << R"({"model_type":"llama","num_attention_heads":2,"num_key_value_heads":1})";
  EXPECT_EQ(run({"measure", model, "-o", grown, "--heads", "--progress", "none"}).exit_code, 78);
}

TEST_F(ProductsTest, EveryModeMeasuresProductsWhole) {
  const std::string model = llama();
  const auto expected = spectra(measured(model, "default", {"--heads"}));
  for (const char* mode : {"fast", "strict"}) {
    EXPECT_EQ(spectra(measured(model, mode, {"--heads", "--mode", mode})), expected) << mode;
  }
  const std::string chosen = measured(model, "chosen", {"--heads", "--roles", "qk_head"});
  EXPECT_EQ(spectra(chosen).size(), 8U);
  EXPECT_TRUE(read_rows(chosen).empty());
}

TEST_F(ProductsTest, AFileOfHeadsAloneShowsThem) {
  const std::string out = folder_.file("alone.h5");
  const ProgramResult run_of_heads = run({"measure", llama(), "-o", out, "--heads", "--roles",
                                          "qk_head,ov_head", "--progress", "none"});
  EXPECT_EQ(run_of_heads.exit_code, 0) << run_of_heads.err;
  EXPECT_NE(run_of_heads.out.find("qk_head"), std::string::npos) << run_of_heads.out;
  const std::string shown = run({"show", out}).out;
  EXPECT_NE(shown.find("16 of 16 rows of /product/ measured"), std::string::npos) << shown;
  EXPECT_NE(shown.find("ov_head"), std::string::npos) << shown;
  // Heads of 4 columns: the first 4 singular values are all there are, of noise too.
  for (const char* metric : {"var@4", "var@64"}) {
    const std::string all = run({"show", out, "--metric", metric}).out;
    EXPECT_EQ(all.find("1.000"), std::string::npos) << all;
    EXPECT_NE(all.find("-"), std::string::npos) << all;
  }
  EXPECT_NE(run({"show", out, "--metric", "var@2"}).out.find("0."), std::string::npos);
  const ProgramResult none = run({"show", out, "--table", "matrix"});
  EXPECT_EQ(none.exit_code, 66);
  EXPECT_NE(none.err.find("E-SHOW-TABLE"), std::string::npos) << none.err;
  const std::string status = run({"status", out}).out;
  EXPECT_NE(status.find("16 done, 0 failed, 0 left of 16 derived rows"), std::string::npos)
      << status;
  const ProgramResult unasked =
      run({"measure", folder_.file("llama"), "-o", folder_.file("never.h5"), "--roles", "qk_head"});
  EXPECT_EQ(unasked.exit_code, 64);
  EXPECT_NE(unasked.err.find("--heads"), std::string::npos) << unasked.err;
}

TEST_F(ProductsTest, HeadsStandBesideAnImportanceMatrix) {
  const std::string imatrix = data_ + "/gguf/variants/moe.imatrix.gguf";
  VINDEX_NEEDS(imatrix);
  VINDEX_NEEDS(mixture_gguf_);
  const std::vector<std::string> attention = {"--blocks", "attention", "--layers", "1"};
  std::vector<std::string> flags = attention;
  flags.insert(flags.end(), {"--heads"});
  const auto heads = spectra(measured(mixture_gguf_, "heads", flags));
  ASSERT_EQ(heads.size(), 8U);
  flags.insert(flags.end(), {"--imatrix", imatrix});
  const std::string both = measured(mixture_gguf_, "both", flags);
  EXPECT_EQ(spectra(both), heads);
  must({"validate", both});
  const std::string shown = run({"show", both}).out;
  EXPECT_NE(shown.find("\nothers: --table imatrix, --table product\n"), std::string::npos) << shown;
  for (const char* table : {"imatrix", "product"}) {
    const std::string text = run({"show", both, "--table", table}).out;
    EXPECT_NE(text.find(std::string("rows of /") + table + "/ measured"), std::string::npos)
        << text;
  }
}

TEST_F(ProductsTest, LatentHeadsAgreeBetweenContainers) {
  VINDEX_NEEDS(mixture_gguf_);
  const std::vector<std::string> flags = {"--heads", "--roles", "qk_head,ov_head"};
  const auto hf = spectra(measured(mixture_, "hf", flags));
  const auto gguf = spectra(measured(mixture_gguf_, "gguf", flags));
  ASSERT_EQ(hf.size(), 32U);
  ASSERT_EQ(gguf.size(), 32U);
  for (const auto& [key, values] : hf) {
    const std::string& name = key.first;  // model.layers.N.self_attn.qk
    const std::string other =
        "blk." + name.substr(13, 1) + ".attn_" + name.substr(name.rfind('.') + 1);
    ASSERT_TRUE(gguf.contains({other, key.second})) << other;
    expect_near(gguf.at({other, key.second}), values);
    EXPECT_EQ(values.size(), 64U);
  }
}

TEST_F(ProductsTest, ARealGroupedModelHasItsHeads) {
  const std::string model = data_ + "/stories260k/stories260K.gguf";
  VINDEX_NEEDS(model);
  const auto all = spectra(measured(model, "stories", {"--heads"}));
  EXPECT_EQ(all.size(), 5U * 8 * 2);
  EXPECT_EQ(all.begin()->second.size(), 8U);
}

TEST_F(ProductsTest, AdaptersOfBothContainersAreTheirProducts) {
  const std::string folder = peft(R"({"peft_type":"LORA","r":3,"lora_alpha":12})");
  const auto hf = spectra(measured(folder, "peft", {"--lora"}));
  expect_near(hf.at({"model.layers.0.self_attn.q_proj.weight", -1}), adapted(4.0));
  const auto gguf = spectra(measured(gguf_adapter(12.0F), "gguf", {"--lora"}));
  expect_near(gguf.at({"blk.0.attn_q.weight", -1}), adapted(4.0));

  const ProgramResult inspected = run({"inspect", folder_.file("adapter.gguf"), "--lora"});
  EXPECT_NE(inspected.out.find("an adapter: 1 LoRA pair of rank 3"), std::string::npos)
      << inspected.out << inspected.err;
  const auto json = nlohmann::json::parse(run({"inspect", folder, "--lora", "--json"}).out);
  EXPECT_EQ(json["lora"]["pairs"], 1);
  EXPECT_EQ(json["matrices"], 2);
}

TEST_F(ProductsTest, AFreshAdapterIsAZeroMatrix) {
  FloatTensor b{"base_model.model.lm_head.lora_B.weight", {12, 3}, std::vector<float>(36, 0.0F)};
  const std::string folder =
      peft(R"({"r":3,"lora_alpha":12})",
           {b, noise_tensor("base_model.model.lm_head.lora_A.weight", {3, 20}, 5)});
  const std::string out = measured(folder, "fresh", {"--lora"});
  const auto reasons = read_strings(out, "/product/reason");
  const auto tensors = read_strings(out, "/product/tensor");
  ASSERT_EQ(tensors.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(reasons[i].starts_with("zero matrix"), tensors[i] == "lm_head.weight")
        << tensors[i] << ": " << reasons[i];
  }
}

TEST_F(ProductsTest, AnotherScaleIsAnotherProduct) {
  const std::string folder =
      peft(R"({"r":3,"lora_alpha":12})",
           {noise_tensor("base_model.model.lm_head.lora_A.weight", {3, 20}, 5),
            noise_tensor("base_model.model.lm_head.lora_B.weight", {12, 3}, 6)});
  const std::string out = measured(folder, "scaled", {"--lora"});
  std::ofstream(folder + "/adapter_config.json")
      << R"({"r":3,"lora_alpha":12,"alpha_pattern":{"lm_head":6}})";
  EXPECT_EQ(run({"measure", folder, "-o", out, "--lora", "--progress", "none"}).exit_code, 78);
}

TEST_F(ProductsTest, DamagedAdaptersAreTold) {
  const std::string out = folder_.file("never.h5");
  const auto exit_of = [&](const std::string& model) {
    const ProgramResult result =
        run({"measure", model, "-o", out, "--lora", "--progress", "none", "--restart"});
    EXPECT_FALSE(result.err.empty());
    return result.exit_code;
  };
  EXPECT_EQ(exit_of(gguf_adapter(std::numeric_limits<float>::quiet_NaN())), 65);
  EXPECT_EQ(exit_of(gguf_adapter(std::numeric_limits<float>::infinity())), 65);
  EXPECT_EQ(exit_of(peft(R"({"peft_type":"LOHA"})")), 65);
  EXPECT_EQ(exit_of(peft("{")), 65);
  EXPECT_FALSE(std::filesystem::exists(out));
  // The pair that has no partner is a row; the others are measured.
  EXPECT_EQ(exit_of(peft(R"({"lora_alpha":3})",
                         {noise_tensor("base_model.model.x.lora_A.weight", {3, 20}, 5)})),
            65);
  EXPECT_EQ(spectra(out).size(), 1U);
  FloatTensor broken = noise_tensor("base_model.model.x.lora_A.weight", {3, 20}, 5);
  broken.values[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(exit_of(peft(R"({"lora_alpha":3})",
                         {broken, noise_tensor("base_model.model.x.lora_B.weight", {9, 3}, 6)})),
            0);
  EXPECT_EQ(exit_of(llama()), 64);
}

TEST_F(ProductsTest, WithoutTheFlagAdaptersPointToIt) {
  const std::string gguf = gguf_adapter(12.0F);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"inspect", gguf},
        {"measure", gguf, "-o", folder_.file("never.h5")}}) {
    const ProgramResult refused = run(command);
    EXPECT_EQ(refused.exit_code, 65);
    EXPECT_NE(refused.err.find("an adapter (LoRA)"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("--lora"), std::string::npos) << refused.err;
  }
  const std::string folder = peft(R"({"r":3,"lora_alpha":12})");
  const ProgramResult plain =
      run({"measure", folder, "-o", folder_.file("plain.h5"), "--progress", "none"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_NE(plain.err.find("W-LORA"), std::string::npos) << plain.err;
  EXPECT_EQ(read_rows(folder_.file("plain.h5")).size(), 2U);
  EXPECT_EQ(run({"measure", folder, "-o", folder_.file("heads.h5"), "--heads"}).exit_code, 64);
  EXPECT_EQ(run({"plan", folder, "--lora", "--json"}).exit_code, 0);
}

}  // namespace
}  // namespace vindex::testing::products_cli_test
