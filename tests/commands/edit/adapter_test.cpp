// Patches and adapters as files: what is written is read again, and what is refused.
#include "edit_product.hpp"

#include "commands/edit/patch.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace vindex::edit::adapter_test {
namespace {

using testing::error_of;
using testing::FloatTensor;
using testing::noise_tensor;
using testing::TemporaryFolder;

PatchEntry entry_of(const std::string& tensor, std::int32_t slice, std::int64_t rows,
                    std::int64_t cols, std::int64_t rank, unsigned seed) {
  PatchEntry entry;
  entry.tensor = tensor;
  entry.slice = slice;
  entry.edit = {rows, cols, rank, noise_tensor("a", {rank, cols}, seed).values,
                noise_tensor("b", {rows, rank}, seed + 1).values};
  entry.before = std::string(64, 'a');
  return entry;
}

void expect_same(const LowRankEdit& got, const LowRankEdit& wanted, double factor = 1.0) {
  ASSERT_EQ(got.rows, wanted.rows);
  ASSERT_EQ(got.cols, wanted.cols);
  const std::vector<double> a = product(got);
  const std::vector<double> b = product(wanted);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], factor * b[i], 1e-6) << i;
  }
}

const PatchEntry& entry_called(const Patch& patch, const std::string& key) {
  const auto found = std::find_if(patch.entries.begin(), patch.entries.end(),
                                  [&](const auto& entry) { return entry.key() == key; });
  if (found == patch.entries.end()) {
    throw std::runtime_error("no entry " + key);
  }
  return *found;
}

TEST(PatchFile, IsReadAsItWasWritten) {
  const TemporaryFolder scratch;
  std::vector<PatchEntry> entries = {entry_of("x.weight", -1, 5, 4, 2, 1),
                                     entry_of("stack#odd", 12, 3, 6, 1, 3)};
  entries[1].after = std::string(64, 'b');
  AtomicFile file(scratch / "p.safetensors");
  write_patch(file, entries, "test");
  file.publish();
  const Patch patch = read_patch(scratch / "p.safetensors", false);
  ASSERT_EQ(patch.entries.size(), 2U);
  for (const PatchEntry& wanted : entries) {
    const PatchEntry& got = entry_called(patch, wanted.key());
    EXPECT_EQ(got.tensor, wanted.tensor);
    EXPECT_EQ(got.slice, wanted.slice);
    EXPECT_EQ(got.edit.a, wanted.edit.a);
    EXPECT_EQ(got.edit.b, wanted.edit.b);
    EXPECT_EQ(got.before, wanted.before);
    EXPECT_EQ(got.after, wanted.after);
  }
}

TEST(Adapter, OfPeftIsReadAsItWasWritten) {
  const TemporaryFolder scratch;
  const std::vector<PatchEntry> entries = {
      entry_of("model.layers.0.self_attn.q_proj.weight", -1, 6, 4, 2, 1),
      entry_of("model.layers.0.mlp.down_proj.weight", -1, 4, 8, 1, 3),
      entry_of("model.embed_tokens.weight", -1, 10, 4, 2, 5)};
  {
    write::OutputFolder folder(scratch / "lora");
    write_peft_adapter(folder, {{&entries[0]}, {&entries[1]}, {&entries[2], true}}, "base");
    folder.publish();
  }
  const Patch patch = read_patch(scratch / "lora", false);
  ASSERT_EQ(patch.entries.size(), 3U);
  for (const PatchEntry& wanted : entries) {
    expect_same(entry_called(patch, wanted.tensor).edit, wanted.edit);
  }
}

TEST(Adapter, OfGgufIsReadAsItWasWritten) {
  const TemporaryFolder scratch;
  const std::vector<PatchEntry> entries = {entry_of("blk.0.attn_q.weight", -1, 6, 4, 3, 1),
                                           entry_of("blk.0.ffn_down_exps.weight", 2, 4, 8, 1, 3),
                                           entry_of("token_embd.weight", -1, 10, 4, 2, 5)};
  AtomicFile file(scratch / "lora.gguf");
  write_gguf_adapter(file, {{&entries[0]}, {&entries[1], false, false, 4}, {&entries[2], true}},
                     "llama", "test");
  file.publish();
  const Patch patch = read_patch(scratch / "lora.gguf", false);
  ASSERT_EQ(patch.entries.size(), 6U);  // four slices, of which three are zero
  for (const PatchEntry& wanted : entries) {
    expect_same(entry_called(patch, wanted.key()).edit, wanted.edit);
  }
  EXPECT_EQ(spectrum_of(entry_called(patch, "blk.0.ffn_down_exps.weight#1").edit).norm, 0.0);
}

/// A PEFT folder with this configuration and q_proj 4 x 6 of rank 2.
std::string peft_folder(const TemporaryFolder& scratch, const std::string& config,
                        std::vector<FloatTensor> more = {}) {
  scratch.write("lora/adapter_config.json", config);
  const std::string prefix = "base_model.model.model.layers.0.self_attn.q_proj.";
  more.push_back(noise_tensor(prefix + "lora_A.weight", {2, 6}, 1));
  more.push_back(noise_tensor(prefix + "lora_B.weight", {4, 2}, 2));
  testing::write_safetensors(scratch / "lora/adapter_model.safetensors", more);
  return scratch / "lora";
}

TEST(Adapter, ScalesAreThoseOfPeft) {
  const LowRankEdit plain = {4, 6, 2, noise_tensor("", {2, 6}, 1).values,
                             noise_tensor("", {4, 2}, 2).values};
  const std::map<std::string, double> scales = {
      {R"("r":2,"lora_alpha":16)", 8.0},
      {R"("r":2,"lora_alpha":16,"use_rslora":true)", 16.0 / std::sqrt(2.0)},
      {R"("r":2,"lora_alpha":16,"fan_in_fan_out":true)", 8.0},
      {R"("r":8,"lora_alpha":16,"rank_pattern":{"q_proj":2})", 8.0},
      {R"("r":2,"lora_alpha":16,"alpha_pattern":{"layers.0.self_attn.q_proj":4})", 2.0}};
  for (const auto& [config, scale] : scales) {
    const TemporaryFolder scratch;
    const Patch patch =
        read_patch(peft_folder(scratch, R"({"peft_type":"LORA",)" + config + "}"), false);
    ASSERT_EQ(patch.entries.size(), 1U) << config;
    EXPECT_EQ(patch.entries[0].tensor, "model.layers.0.self_attn.q_proj.weight");
    expect_same(patch.entries[0].edit, plain, scale);
  }
}

// A file that is wrong (65), and not one that asks for what is not there (78).
TEST(Adapter, FactorsThatAreNoPairAreMalformedInput) {
  const std::string config = R"({"peft_type":"LORA","r":2,"lora_alpha":2)";
  const std::string up = "base_model.model.model.layers.0.mlp.up_proj.";
  const auto exit_code_of = [](const std::string& folder) {
    try {
      read_patch(folder, true);
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), "E-ADAPTER-PAIR") << error.what();
      return error.exit_code();
    }
    return ExitCode::kOk;
  };
  const auto with = [&](const std::vector<FloatTensor>& more, const std::string& keys) {
    const TemporaryFolder scratch;
    return exit_code_of(peft_folder(scratch, config + keys + "}", more));
  };
  const auto a = noise_tensor(up + "lora_A.weight", {2, 6}, 4);
  EXPECT_EQ(with({a}, ""), ExitCode::kMalformedInput);
  EXPECT_EQ(with({a, noise_tensor(up + "lora_B.weight", {5, 3}, 5)}, ""),
            ExitCode::kMalformedInput);
  EXPECT_EQ(with({a, noise_tensor(up + "lora_B.weight", {10}, 5)}, ""), ExitCode::kMalformedInput);
  EXPECT_EQ(with({}, R"(,"use_qalora":true)"), ExitCode::kBadConfiguration);
}

TEST(Adapter, WhatIsMoreThanFactorsIsRefused) {
  const std::string config = R"({"peft_type":"LORA","r":2,"lora_alpha":2)";
  {
    const TemporaryFolder scratch;
    const std::string folder = peft_folder(scratch, config + R"(,"use_dora":true})");
    EXPECT_EQ(error_of([&] { read_patch(folder, true); }), "E-ADAPTER-DORA");
  }
  {
    const TemporaryFolder scratch;
    const std::string folder = peft_folder(
        scratch, config + "}", {noise_tensor("base_model.model.lm_head.weight", {3, 6}, 4)});
    EXPECT_EQ(error_of([&] { read_patch(folder, false); }), "E-ADAPTER-REST");
    const Patch patch = read_patch(folder, true);
    EXPECT_EQ(patch.entries.size(), 1U);
    EXPECT_EQ(patch.warnings.back().id, "W-ADAPTER-REST");
  }
  {
    const TemporaryFolder scratch;
    const std::string folder = peft_folder(
        scratch, config + "}",
        {noise_tensor("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", {2, 6}, 4)});
    EXPECT_EQ(error_of([&] { read_patch(folder, false); }), "E-ADAPTER-PAIR");
  }
  {
    const TemporaryFolder scratch;
    const std::string folder = peft_folder(scratch, R"({"peft_type":"LOHA"})");
    EXPECT_EQ(error_of([&] { read_patch(folder, false); }), "E-LORA-TYPE");
  }
}

TEST(Adapter, StacksOfOneModuleLieInEachOther) {
  const TemporaryFolder scratch;
  const std::vector<PatchEntry> entries = {
      entry_of("model.layers.0.mlp.experts.down_proj", 0, 4, 6, 1, 1),
      entry_of("model.layers.0.mlp.experts.gate_up_proj", 1, 12, 4, 2, 3)};
  {
    write::OutputFolder folder(scratch / "lora");
    write_peft_adapter(folder, {{&entries[0], false, true, 2}, {&entries[1], false, true, 2}},
                       "base");
    folder.publish();
  }
  const Patch patch = read_patch(scratch / "lora", false);
  ASSERT_EQ(patch.entries.size(), 4U);
  for (const PatchEntry& wanted : entries) {
    const PatchEntry& got = entry_called(patch, wanted.key());
    expect_same(got.edit, wanted.edit);
    ASSERT_TRUE(got.parameter);
    EXPECT_EQ(got.parameter->experts, 2);
    EXPECT_EQ(got.parameter->peft_version, (std::array{0, 19, 1}));
  }
  const PatchEntry other = entry_of("model.layers.0.mlp.experts.x", 0, 12, 4, 1, 3);
  write::OutputFolder folder(scratch / "other");
  EXPECT_EQ(error_of([&] {
              write_peft_adapter(folder, {{&entries[0], false, true, 2}, {&other, false, true, 2}},
                                 "base");
            }),
            "E-LORA-STACKS");
}

// Gate and up of one expert share its slice of the stack, each with a rank of its own.
TEST(Adapter, ExpertsThatAreStoredAloneAreWrittenAsTheirStack) {
  const TemporaryFolder scratch;
  const std::vector<PatchEntry> entries = {entry_of("experts.1.gate_proj.weight", -1, 5, 4, 1, 1),
                                           entry_of("experts.1.up_proj.weight", -1, 5, 4, 2, 3)};
  const std::string stack = "model.layers.0.mlp.experts.gate_up_proj";
  std::vector<AdaptedMatrix> matrices(2);
  for (std::size_t i = 0; i < 2; ++i) {
    matrices[i].entry = &entries[i];
    matrices[i].slices = 3;
    matrices[i].stack = stack;
    matrices[i].expert = 1;
    matrices[i].stack_rows = 10;
    matrices[i].first_row = i == 0 ? 0 : 5;
  }
  write::OutputFolder folder(scratch / "lora");
  write_peft_adapter(folder, matrices, "base");
  folder.publish();
  const Patch patch = read_patch(scratch / "lora", false);
  ASSERT_EQ(patch.entries.size(), 3U);
  const std::vector<double> got = product(entry_called(patch, stack + "#1").edit);
  std::vector<double> wanted = product(entries[0].edit);
  const std::vector<double> lower = product(entries[1].edit);
  wanted.insert(wanted.end(), lower.begin(), lower.end());
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
  }
  EXPECT_EQ(spectrum_of(entry_called(patch, stack + "#0").edit).norm, 0.0);
}

/// A base of these tensors, and the adapter at `patch` read for it.
Patch read_for(const TemporaryFolder& scratch, const std::vector<FloatTensor>& tensors,
               const std::string& config, const std::string& patch) {
  scratch.write("base/config.json", config);
  testing::write_safetensors(scratch / "base/model.safetensors", tensors);
  const input::ModelFiles files = input::open_model(scratch / "base");
  const model::ModelIndex index = model::index_model(files);
  const PatchBase base = {files, index};
  return read_patch(patch, false, &base);
}

TEST(Adapter, CopiesOfTheBaseAreLeftOut) {
  const std::string config = R"({"peft_type":"LORA","r":2,"lora_alpha":2})";
  const FloatTensor embedding = noise_tensor("model.embed_tokens.weight", {9, 6}, 4);
  const FloatTensor output = noise_tensor("lm_head.weight", {9, 6}, 5);
  const auto copy = [](const char* name, const FloatTensor& of) {
    return FloatTensor{std::string("base_model.model.") + name, of.shape, of.values};
  };
  const std::string llama = R"({"model_type":"llama"})";
  const auto read = [&](const std::vector<FloatTensor>& base, const FloatTensor& held) {
    const TemporaryFolder scratch;
    return error_of([&] {
      const Patch patch = read_for(scratch, base, llama, peft_folder(scratch, config, {held}));
      EXPECT_EQ(patch.entries.size(), 1U);
      EXPECT_TRUE(patch.warnings.empty());
    });
  };
  EXPECT_EQ(read({embedding, output}, copy("lm_head.base_layer.weight", output)), "none");
  EXPECT_EQ(read({embedding, output}, copy("lm_head.weight", output)), "none");
  EXPECT_EQ(read({embedding, output}, copy("model.embed_tokens.base_layer.weight", embedding)),
            "none");
  EXPECT_EQ(read({embedding}, copy("lm_head.base_layer.weight", embedding)), "none");  // tied
  EXPECT_EQ(read({embedding, output}, copy("lm_head.weight", embedding)), "E-ADAPTER-REST");
  EXPECT_EQ(read({embedding}, copy("lm_head.weight", output)), "E-ADAPTER-REST");
  EXPECT_EQ(read({embedding, output}, copy("model.norm.weight", output)), "E-ADAPTER-REST");
  FloatTensor taller = output;
  taller.shape = {6, 9};
  EXPECT_EQ(read({embedding, output}, copy("lm_head.weight", taller)), "E-ADAPTER-REST");
  FloatTensor other = output;
  other.values.back() += 1e-3F;
  EXPECT_EQ(read({embedding, output}, copy("lm_head.weight", other)), "E-ADAPTER-REST");
}

TEST(Adapter, WhatIsNoSumIsRefused) {
  const std::string head = R"({"peft_type":"LORA","r":2,"lora_alpha":2,)";
  const std::map<std::string, std::string> refused = {
      {R"("init_lora_weights":"pissa"})", "E-ADAPTER-VARIANT"},
      {R"("init_lora_weights":"pissa_niter_4"})", "E-ADAPTER-VARIANT"},
      {R"("init_lora_weights":"olora"})", "E-ADAPTER-VARIANT"},
      {R"("init_lora_weights":"corda"})", "E-ADAPTER-VARIANT"},
      {R"("init_lora_weights":"loftq"})", "E-ADAPTER-VARIANT"},
      {R"("alora_invocation_tokens":[1,2]})", "E-ADAPTER-VARIANT"},
      {R"("layer_replication":[[0,4],[2,5]]})", "E-ADAPTER-VARIANT"},
      {R"("arrow_config":{"top_k":2}})", "E-ADAPTER-VARIANT"},
      {R"("use_qalora":true})", "E-ADAPTER-PAIR"},
      {R"("use_dora":1})", "E-LORA-CONFIG"},
      {R"("use_rslora":1})", "E-LORA-CONFIG"},
      {R"("use_rslora":"true"})", "E-LORA-CONFIG"}};
  for (const auto& [text, id] : refused) {
    const TemporaryFolder scratch;
    const std::string folder = peft_folder(scratch, head + text);
    EXPECT_EQ(error_of([&] { read_patch(folder, true); }), id) << text;
  }
  const TemporaryFolder scratch;
  const std::string folder = peft_folder(scratch, "[]");
  EXPECT_EQ(error_of([&] { read_patch(folder, true); }), "E-LORA-CONFIG");
}

}  // namespace
}  // namespace vindex::edit::adapter_test
