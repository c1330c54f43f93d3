// A trace from its files to its dump: nothing but the prompts and the model decides its bits, and a
// run that was ended at any layer goes on to the same dump.
#include "commands/trace/trace_run.hpp"

#include "commands/trace/forward/forward_pass.hpp"
#include "commands/trace/statistics/trace_end.hpp"
#include "core/process/stop.hpp"
#include "cpu/forward/cpu_forward.hpp"
#include "model/dump/dump.hpp"
#include "model/routers/carried_rule.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/trace_models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::trace_run_test {
namespace {

namespace fs = std::filesystem;
using testing::folder_content;
using testing::message_of;
using testing::outcome_of;
using testing::TemporaryFolder;
using testing::TraceModelShape;
using Content = std::map<std::string, std::string>;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr int kVocabulary = 50;

std::string prompts_text(const std::vector<int>& lengths, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::string text;
  for (const int length : lengths) {
    text += "[";
    for (int i = 0; i < length; ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(random() % kVocabulary);
    }
    text += "]\n";
  }
  return text;
}

class TraceRunTest : public ::testing::Test {
 protected:
  commands::TraceSettings settings(const std::string& model, const std::string& output) const {
    commands::TraceSettings settings;
    settings.run.model = model;
    settings.run.output = folder_ / output;
    settings.run.backend = engine::BackendChoice::kCpu;
    settings.run.threads = 1;
    settings.run.ram_budget = 1024 * kMiB;
    settings.ids = ids_;
    settings.dump = commands::dump_choice("hidden,mlp,router_logits,logits", "", "", "");
    return settings;
  }
  Content content(const std::string& output) const { return folder_content(folder_ / output); }

  const TemporaryFolder folder_;
  const std::string dense_ = testing::write_trace_model(folder_, "dense");
  const std::string mixture_ = testing::write_trace_model(folder_, "mixture", {.experts = 5});
  const std::string ids_ =
      folder_.write("ids.jsonl", prompts_text({1, 40, 3, 900, 130, 2, 77, 500, 8}));
};

TEST_F(TraceRunTest, TheDumpIsWhatThePagesOfDumpsSay) {
  for (const std::string& model : {dense_, mixture_}) {
    const commands::TraceResult result = commands::trace(settings(model, "a"), {});
    EXPECT_EQ(result.tokens, 1661);
    EXPECT_EQ(result.prompts, 9);
    EXPECT_EQ(result.layers, 3);
    const model::Dump dump = model::open_dump(folder_ / "a");
    EXPECT_EQ(dump.tokens, 1661);
    EXPECT_EQ(dump.prompts.size(), 9U);
    EXPECT_EQ(dump.prompts[3].count, 900);
    EXPECT_EQ(dump.token_ids.size(), 1661U);
    EXPECT_TRUE(dump.index.warnings.empty());
    EXPECT_EQ(model::matrices_of_role(dump, "hidden").size(), 3U);
    EXPECT_EQ(model::matrices_of_role(dump, "mlp").size(), model == dense_ ? 3U : 0U);
    EXPECT_EQ(model::matrices_of_role(dump, "router_logits").size(), model == dense_ ? 0U : 3U);
    EXPECT_EQ(model::matrices_of_role(dump, "logits").size(), 1U);
    EXPECT_FALSE(fs::exists(folder_ / "a.parts"));
    fs::remove_all(folder_ / "a");
  }
}

/// Rows of a .npy file of float32 as numbers, the first `count` of them.
std::vector<float> first_floats(const std::string& path, std::size_t count) {
  const std::string bytes = testing::file_text(path);
  const std::size_t data =
      10 + static_cast<unsigned char>(bytes[8]) + 256U * static_cast<unsigned char>(bytes[9]);
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data() + data, count * sizeof(float));
  return values;
}

TEST_F(TraceRunTest, ExpertsThatNobodyIsSentToAreNotRead) {
  TraceModelShape shape;
  shape.experts = 40;
  const std::string model = testing::write_trace_model(folder_, "many", shape);
  const std::string text = prompts_text({4});
  commands::TraceSettings few = settings(model, "few");
  few.ids = folder_.write("few.jsonl", text);
  commands::TraceSettings all = settings(model, "all");
  all.ids = folder_.write("all.jsonl", text + prompts_text({900, 900}));
  const auto few_bytes = commands::trace(few, {}).reading.bytes();
  const auto all_bytes = commands::trace(all, {}).reading.bytes();
  // Of 40 experts in a layer, 4 tokens reach 8 at most.
  const std::uint64_t expert = 3U * 32 * 48 * sizeof(float);
  EXPECT_LE(few_bytes + 3 * 32 * expert, all_bytes);
  const std::vector<float> a = first_floats(folder_ / "few/hidden.2.npy", 4U * 32);
  const std::vector<float> b = first_floats(folder_ / "all/hidden.2.npy", 4U * 32);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 2e-6);
  }
}

/// Counts the reads of exactly these bytes of another source.
class CountingSource final : public ByteSource {
 public:
  CountingSource(std::unique_ptr<ByteSource> source, std::uint64_t bytes)
      : source_(std::move(source)), bytes_(bytes) {}
  const std::string& name() const override { return source_->name(); }
  std::uint64_t size() const override { return source_->size(); }
  SourceIdentity identity() const override { return source_->identity(); }
  void read_many(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      if (request.into.size() == bytes_) {
        const std::lock_guard lock(mutex_);
        ++seen_[request.offset];
      }
    }
    source_->read_many(requests);
  }
  int reads_at(std::uint64_t offset) const { return seen_.contains(offset) ? seen_.at(offset) : 0; }

 private:
  std::unique_ptr<ByteSource> source_;
  std::uint64_t bytes_;
  std::mutex mutex_;
  std::map<std::uint64_t, int> seen_;
};

TEST_F(TraceRunTest, ANormIsReadOnceForAllExperts) {
  engine::OpenModel model = engine::open_whole(mixture_, "", 1);
  const model::Transformer transformer = model::read_transformer(model.files, model.index);
  ASSERT_EQ(model.files.shards.size(), 1U);
  auto counting = std::make_unique<CountingSource>(
      std::move(model.files.shards[0].source),
      static_cast<std::uint64_t>(transformer.hidden) * sizeof(float));
  const CountingSource& source = *counting;
  model.files.shards[0].source = std::move(counting);
  const auto backend = cpu::make_cpu_forward(1);
  const commands::TracePrompts prompts = commands::read_prompts(ids_, transformer.vocabulary);
  commands::ForwardOptions options;
  options.ram_budget = 1024 * kMiB;
  options.scratch_folder = folder_ / ".";
  (void)commands::run_forward({transformer, model.files, model.index, *backend}, prompts, options,
                              {}, {});
  for (const model::TransformerLayer& layer : transformer.layers) {
    ASSERT_GT(layer.mixture.value().experts.size(), 2U);
    const auto tensor = static_cast<std::size_t>(layer.ffn_norm.tensor);
    EXPECT_EQ(source.reads_at(model.files.tensors[tensor].offset), 1) << layer.number;
  }
}

/// Ends the pass in a layer: as a stop does, or as an error.
class EndingObserver final : public commands::TraceObserver {
 public:
  EndingObserver(std::int32_t layer, bool by_error) : layer_(layer), by_error_(by_error) {}
  void begin(std::int32_t layer) override { began_ = layer; }
  bool wants_hidden(std::int32_t layer) const override { return layer == layer_; }
  void hidden(const commands::TraceBlock& /*block*/) override {
    if (by_error_) {
      throw SystemError("E-TEST", EIO, "ended here");
    }
    throw Stopped{};
  }
  std::int32_t began() const { return began_; }

 private:
  std::int32_t layer_, began_ = -1;
  bool by_error_;
};

/// The parts of commands::trace(), with one more observer.
class InterruptedTrace {
 public:
  InterruptedTrace(const std::string& model, const std::string& ids, std::string output)
      : model_(engine::open_whole(model, "", 1)),
        transformer_(model::read_transformer(model_.files, model_.index)),
        prompts_(commands::read_prompts(ids, transformer_.vocabulary)),
        backend_(cpu::make_cpu_forward(1)),
        output_(std::move(output)) {}

  /// Whether it ended by itself.
  bool run(std::uint64_t ram_budget, commands::TraceObserver& other) {
    commands::TraceFolder folder(output_, false, false, {{"of", "this test"}});
    commands::DumpWriter writer(
        commands::plan_dump(commands::dump_choice("", "", "", ""), transformer_, prompts_.tokens()),
        prompts_, folder.dump_folder(), output_);
    const std::array<commands::TraceObserver*, 2> observers = {&writer, &other};
    commands::ForwardOptions options;
    options.ram_budget = ram_budget;
    options.scratch_folder = folder.folder();
    options.folder = &folder;
    const commands::ForwardModel model{transformer_, model_.files, model_.index, *backend_};
    const commands::ForwardOutcome outcome =
        commands::run_forward(model, prompts_, options, observers, {});
    if (outcome.stopped) {
      return false;
    }
    writer.finish();
    folder.publish();
    return true;
  }

 private:
  engine::OpenModel model_;
  model::Transformer transformer_;
  commands::TracePrompts prompts_;
  std::unique_ptr<ForwardBackend> backend_;
  std::string output_;
};

TEST_F(TraceRunTest, ARunThatEndedInAnyLayerGoesOnToTheSameDump) {
  for (const std::string& model : {dense_, mixture_}) {
    commands::TraceObserver nothing;
    InterruptedTrace(model, ids_, folder_ / "a").run(1024 * kMiB, nothing);
    // The rows lie in memory, and in files; a run may go on with another budget.
    const std::uint64_t small = 70 * kMiB;
    for (const std::uint64_t budget : {1024 * kMiB, small}) {
      for (const bool by_error : {false, true}) {
        InterruptedTrace trace(model, ids_, folder_ / "b");
        for (std::int32_t layer = 0; layer < 3; ++layer) {
          EndingObserver end(layer, by_error);
          if (by_error) {
            EXPECT_EQ(outcome_of([&] { trace.run(budget, end); }), "E-TEST 74");
          } else {
            EXPECT_FALSE(trace.run(budget, end));
          }
          EXPECT_EQ(end.began(), std::max(0, layer - 1));  // what the run before had finished
          EXPECT_EQ(fs::exists(folder_ / "b.parts"), layer > 0);
          EXPECT_FALSE(fs::exists(folder_ / "b"));
        }
        EXPECT_TRUE(trace.run(budget == small ? 1024 * kMiB : small, nothing));
        EXPECT_EQ(content("a"), content("b"));
        EXPECT_FALSE(fs::exists(folder_ / "b.parts"));
        fs::remove_all(folder_ / "b");
      }
    }
    fs::remove_all(folder_ / "a");
  }
}

TEST_F(TraceRunTest, AnArrayThatIsNotThereAnyMoreIsNoticed) {
  EndingObserver end(2, false);
  InterruptedTrace trace(dense_, ids_, folder_ / "a");
  EXPECT_FALSE(trace.run(1024 * kMiB, end));
  ASSERT_TRUE(fs::remove(folder_ / "a.parts/dump/hidden.0.npy"));
  commands::TraceObserver nothing;
  EXPECT_EQ(outcome_of([&] { trace.run(1024 * kMiB, nothing); }), "E-TRACE-STATE 65");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(TraceRunTest, OnlyTheSameRunGoesOn) {
  EndingObserver end(2, false);
  const auto interrupt = [&] {
    InterruptedTrace(dense_, ids_, folder_ / "a").run(1024 * kMiB, end);
  };
  interrupt();
  // Its fingerprint is not that of a trace of the program.
  EXPECT_EQ(outcome_of([&] { commands::trace(settings(dense_, "a"), {}); }),
            "E-RESUME-FINGERPRINT 78");
  commands::TraceSettings anew = settings(dense_, "a");
  anew.run.restart = true;
  EXPECT_EQ(commands::trace(anew, {}).layers_before, 0);
  commands::trace(settings(dense_, "b"), {});
  EXPECT_EQ(content("a"), content("b"));
}

// Its layers are kept, its logits are beyond float16: a run that goes on comes as far again.
TEST_F(TraceRunTest, ARunGoesOnWithTheSameConfigurationAlone) {
  const std::string model = testing::write_trace_model(folder_, "loud");
  std::string bytes = testing::file_text(model + "/model.safetensors");
  constexpr std::size_t kOutput = std::size_t{kVocabulary} * 32 * sizeof(float);  // lies last
  for (std::size_t i = bytes.size() - kOutput; i < bytes.size(); i += sizeof(float)) {
    bytes[i + 3] = static_cast<char>(0x4F);
  }
  folder_.write("loud/model.safetensors", bytes);
  commands::TraceSettings choice = settings(model, "a");
  choice.dump = commands::dump_choice("hidden,logits", "", "f16", "");
  const auto outcome = [&] { return outcome_of([&] { commands::trace(choice, {}); }); };
  EXPECT_EQ(outcome(), "E-DUMP-RANGE 78");
  EXPECT_TRUE(fs::exists(folder_ / "a.parts/stream.3"));
  EXPECT_EQ(outcome(), "E-DUMP-RANGE 78");
  std::string config = testing::file_text(model + "/config.json");
  config.replace(config.find("10000.0"), 7, "20000.0");  // rope_theta
  folder_.write("loud/config.json", config);
  EXPECT_EQ(outcome(), "E-RESUME-FINGERPRINT 78");
}

TEST_F(TraceRunTest, ADumpIsReplacedOnRequestAndNothingElseIs) {
  commands::TraceSettings choice = settings(dense_, "a");
  commands::trace(choice, {});
  const Content before = content("a");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-EXISTS 73");
  choice.replace = true;
  choice.dump = commands::dump_choice("hidden", "1", "f16", "safetensors");
  commands::trace(choice, {});
  EXPECT_EQ(testing::names_in(folder_ / "a"),
            (std::vector<std::string>{"hidden.1.safetensors", "prompt.safetensors",
                                      "token_ids.safetensors"}));
  folder_.write("a/notes.txt", "mine");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-NOT-A-DUMP 73");
  choice.run.output = folder_ / "b";
  folder_.write("b", "a file");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-NOT-A-FOLDER 73");
  choice.run.output = folder_ / "no/c";
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-CREATE 73");
  choice.run.output = folder_ / "d";
  folder_.write("d.parts/mine", "not a trace's");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUT-FOREIGN 73");
  EXPECT_EQ(testing::names_in(folder_ / "d.parts"), std::vector<std::string>{"mine"});
  fs::create_directory(folder_ / "e");  // an empty folder is as good as none
  choice.run.output = folder_ / "e";
  EXPECT_EQ(commands::trace(choice, {}).arrays, 3);
}

TEST_F(TraceRunTest, WhatAFailureLeftBesideAFinishedDumpIsRemovedByTheNextRun) {
  const commands::TraceSettings choice = settings(dense_, "a");
  commands::trace(choice, {});
  // The dump had its name, and the folder it came from could not be listed.
  folder_.write("a.parts/run.json", "{}");
  folder_.write("a.parts/stream.3", "");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-EXISTS 73");
  EXPECT_FALSE(fs::exists(folder_ / "a.parts"));
  // Arrays of a run that has not ended stay.
  folder_.write("a.parts/run.json", "{}");
  folder_.write("a.parts/dump/hidden.0.npy", "");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-EXISTS 73");
  EXPECT_TRUE(fs::exists(folder_ / "a.parts/dump/hidden.0.npy"));
}

TEST_F(TraceRunTest, ADumpInOneFileHoldsTheArraysOfAFolder) {
  commands::TraceSettings choice = settings(mixture_, "a");
  choice.dump = commands::dump_choice("hidden,router_logits,logits", "", "bf16", "safetensors");
  commands::trace(choice, {});
  choice.run.output = folder_ / "one.safetensors";
  EXPECT_EQ(commands::trace(choice, {}).arrays, 9);
  const model::Dump dump = model::open_dump(choice.run.output);
  EXPECT_TRUE(dump.index.warnings.empty());
  EXPECT_EQ(dump.token_ids, model::open_dump(folder_ / "a").token_ids);
  EXPECT_EQ(model::matrices_of_role(dump, "hidden").size(), 3U);
  EXPECT_EQ(model::matrices_of_role(dump, "router_logits").size(), 3U);
  EXPECT_EQ(model::matrices_of_role(dump, "logits").size(), 1U);
  // Elements follow one another in the order of their offsets.
  const std::string bytes = testing::file_text(choice.run.output);
  for (const auto& [name, array] : content("a")) {
    if (name == model::kCarriedRuleFile) {
      continue;  // compared below
    }
    std::uint64_t header = 0;
    std::memcpy(&header, array.data(), sizeof header);
    EXPECT_NE(bytes.find(array.substr(sizeof header + header)), std::string::npos) << name;
  }
  EXPECT_FALSE(fs::exists(folder_ / "one.safetensors.parts"));
  const auto rule = model::carried_rule(dump);
  ASSERT_TRUE(rule.has_value());
  EXPECT_EQ(rule->rule, (RouterRule{.top_k = 2, .normalised = true}));
  EXPECT_EQ(rule->family, "mixtral");
  EXPECT_EQ(rule->text, content("a").at(std::string(model::kCarriedRuleFile)));

  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-EXISTS 73");
  choice.replace = true;
  choice.dump = commands::dump_choice("hidden", "1", "f16", "safetensors");
  EXPECT_EQ(commands::trace(choice, {}).arrays, 3);
  EXPECT_EQ(model::open_dump(choice.run.output).index.matrices.size(), 1U);
  choice.run.output = dense_ + "/model.safetensors";
  const std::string weights = testing::file_text(choice.run.output);
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-OUTPUT-NOT-A-DUMP 73");
  EXPECT_EQ(testing::file_text(choice.run.output), weights);
}

TEST_F(TraceRunTest, PromptsOfOneTokenHaveNoLossAndSaySo) {
  commands::TraceSettings choice = settings(dense_, "");
  choice.run.output.clear();
  choice.losses = true;
  choice.ids = folder_.write("short.jsonl", "[3]\n[5]\n");
  const std::string text = commands::trace_text(commands::trace(choice, {}));
  EXPECT_NE(text.find("2 tokens in 2 prompts through"), std::string::npos) << text;
  EXPECT_NE(text.find("loss: none: no prompt has a second token"), std::string::npos) << text;
  choice.ids = folder_.write("short.jsonl", "[3]\n");
  EXPECT_EQ(commands::trace_text(commands::trace(choice, {})).find("1 token in 1 prompt through"),
            0U);
}

TEST_F(TraceRunTest, TheKeptLayersAndTypesAreThoseAskedFor) {
  commands::TraceSettings choice = settings(mixture_, "a");
  commands::trace(choice, {});
  choice.run.output = folder_ / "b";
  choice.dump = commands::dump_choice("hidden,router_logits", "0,2", "", "");
  commands::trace(choice, {});
  Content all = content("a");
  const Content some = content("b");
  EXPECT_EQ(some.size(), 7U);  // four arrays, tokens, prompts, the rule
  for (const auto& [name, bytes] : some) {
    EXPECT_EQ(all[name], bytes) << name;
  }
  for (const char* layers : {"3", "-1"}) {
    EXPECT_EQ(outcome_of([&] {
                choice.dump = commands::dump_choice("", layers, "", "");
                choice.run.output = folder_ / "c";
                commands::trace(choice, {});
              }),
              "E-SELECTION 64");
  }
  EXPECT_EQ(outcome_of([] { commands::dump_choice("hidden,neurons", "", "", ""); }), "E-KEEP 64");
  EXPECT_EQ(outcome_of([] { commands::dump_choice("", "", "bf16", "npy"); }), "E-DTYPE 64");
  choice.dump = commands::dump_choice("mlp", "", "", "");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-KEEP 78");
}

TEST_F(TraceRunTest, ValuesBeyondFloat16EndTheRun) {
  TraceModelShape shape;
  shape.layers = 1;
  const std::string model = testing::write_trace_model(folder_, "large", shape);
  std::string bytes = testing::file_text(model + "/model.safetensors");
  // The embedding lies first: its exponents are raised beyond what float16 holds.
  const std::size_t data =
      8 + static_cast<unsigned char>(bytes[0]) + 256U * static_cast<unsigned char>(bytes[1]);
  for (std::size_t i = 0; i < 50U * 32U; ++i) {
    bytes[data + 4 * i + 3] = static_cast<char>(0x49);
  }
  folder_.write("large/model.safetensors", bytes);
  commands::TraceSettings choice = settings(model, "a");
  choice.dump = commands::dump_choice("hidden", "", "f16", "");
  EXPECT_EQ(outcome_of([&] { commands::trace(choice, {}); }), "E-DUMP-RANGE 78");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_FALSE(fs::exists(folder_ / "a.parts"));
}

}  // namespace
}  // namespace vindex::trace_run_test
