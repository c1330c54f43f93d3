// Every command over a store that is slow, fails for a while, lies or dies: what passes leaves the
// bytes of the local run, what does not ends with the exit code of its cause and leaves nothing.
// tests/engine/units/unsteady_store_test.cpp has the main job's rows one by one.
#include "commands/activations/activations_run.hpp"
#include "commands/cka/cka_run.hpp"
#include "commands/compare/compare_run.hpp"
#include "commands/decode/decode_tensor.hpp"
#include "commands/edit/edit_model.hpp"
#include "commands/experts/experts_run.hpp"
#include "commands/lookup/lookup_report.hpp"
#include "commands/lookup/lookup_run.hpp"
#include "commands/lookup/store/store_features.hpp"
#include "commands/purify/purify.hpp"
#include "commands/routing/routing_run.hpp"
#include "commands/spectra/measure_run.hpp"
#include "commands/trace/trace_run.hpp"
#include "cpu/cpu_backend.hpp"
#include "fleet/measure_fleet.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/inspect/inspect.hpp"
#include "organ/assemble/assemble.hpp"
#include "organ/difference/difference_report.hpp"
#include "organ/difference/model_difference.hpp"
#include "organ/extract/extract.hpp"
#include "organ/graft/graft.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/verify/verify.hpp"
#include "report/export/export.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/importance_builder.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/trace_models.hpp"
#include "tests/support/unsteady_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace vindex::store_commands_test {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::FloatTensor;
using testing::noise_tensor;
using testing::npy_array;
using testing::TemporaryFolder;
using testing::UnsteadyScheme;
using testing::UnsteadyStore;
using Kind = UnsteadyStore::Kind;
using Request = UnsteadyStore::Request;

constexpr int kWidth = 16, kInner = 24, kTokens = 20, kRows = 30;

/// Address of an input by its name.
using Inputs = std::function<std::string(const std::string& name)>;

enum class Reads : std::uint8_t {
  kHeaders,
  kOnce,     ///< weights too, and what it says is of the bytes that it saw
  kWatching  ///< weights too, and it asks at the end whether they are still there
};

struct Command {
  const char* name;
  /// What comes out, as bytes that do not depend on where it came from. `out`: a folder.
  std::function<std::string(const Inputs& in, const std::string& out)> run;
  Reads reads = Reads::kWatching;
};

void PrintTo(const Command& command, std::ostream* out) { *out << command.name; }

/// Rows of a run that failed.
struct FailedRows {
  ExitCode code;
};

// ---- inputs

std::vector<FloatTensor> hf_tensors(unsigned seed) {
  std::vector<FloatTensor> tensors = {
      noise_tensor("model.embed_tokens.weight", {kTokens, kWidth}, seed),
      noise_tensor("lm_head.weight", {kTokens, kWidth}, seed + 1)};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
    const unsigned own = seed + 10 * static_cast<unsigned>(layer);
    tensors.push_back(noise_tensor(prefix + "gate_proj.weight", {kInner, kWidth}, own + 2));
    tensors.push_back(noise_tensor(prefix + "up_proj.weight", {kInner, kWidth}, own + 3));
    tensors.push_back(noise_tensor(prefix + "down_proj.weight", {kWidth, kInner}, own + 4));
  }
  return tensors;
}

void write_hf(const TemporaryFolder& folder, const std::string& name, unsigned seed) {
  folder.write(
      name + "/config.json",
      fmt::format(R"({{"model_type":"llama","num_hidden_layers":2,"hidden_size":{}}})", kWidth));
  std::string vocabulary;
  for (int i = 0; i < kTokens; ++i) {
    vocabulary += fmt::format(R"({}"t{}":{})", i == 0 ? "" : ",", i, i);
  }
  folder.write(name + "/tokenizer.json",
               R"({"model":{"type":"BPE","vocab":{)" + vocabulary + R"(},"merges":[]}})");
  testing::write_safetensors(folder / (name + "/model.safetensors"), hf_tensors(seed));
}

void write_moe(const TemporaryFolder& folder) {
  folder.write("moe/config.json",
               R"({"model_type":"mixtral","num_local_experts":4,"num_experts_per_tok":2,)"
               R"("num_hidden_layers":1})");
  const std::string prefix = "model.layers.0.block_sparse_moe.";
  std::vector<FloatTensor> tensors = {noise_tensor(prefix + "gate.weight", {4, kWidth}, 90)};
  for (unsigned expert = 0; expert < 4; ++expert) {
    for (const char* role : {"w1", "w3"}) {
      tensors.push_back(noise_tensor(fmt::format("{}experts.{}.{}.weight", prefix, expert, role),
                                     {kInner, kWidth}, 91 + expert));
    }
  }
  testing::write_safetensors(folder / "moe/model.safetensors", tensors);
}

void write_llama_gguf(const TemporaryFolder& folder, const std::string& name, unsigned seed) {
  std::vector<FloatTensor> tensors = {noise_tensor("token_embd.weight", {kTokens, kWidth}, seed)};
  for (const char* role : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up"}) {
    tensors.push_back(noise_tensor(fmt::format("blk.0.{}.weight", role), {kWidth, kWidth}, ++seed));
  }
  // Something that purify finds: one large direction.
  FloatTensor& query = tensors[1];
  for (int i = 0; i < kWidth * kWidth; ++i) {
    query.values[static_cast<std::size_t>(i)] += static_cast<float>((i / kWidth) % 3 - 1);
  }
  testing::write_gguf(folder / name, tensors, [&](testing::GgufBuilder& builder) {
    builder.key_string("general.architecture", "llama").key_string("general.name", name);
    builder.key_u32("llama.block_count", 1).key_u32("llama.embedding_length", kWidth);
  });
}

std::string floats(std::int64_t rows, std::int64_t cols, unsigned seed) {
  return npy_array(noise_tensor("", {rows, cols}, seed).values, {rows, cols});
}

void write_dumps(const TemporaryFolder& folder) {
  for (const unsigned dump : {0U, 1U}) {
    const std::string name = fmt::format("dump{}/", dump);
    for (const unsigned layer : {0U, 1U}) {
      const unsigned seed = 200 + 100 * dump + 10 * layer;
      folder.write(fmt::format("{}hidden.{}.npy", name, layer), floats(kRows, kWidth, seed));
      folder.write(fmt::format("{}mlp.{}.npy", name, layer), floats(kRows, kInner, seed + 1));
    }
    folder.write(name + "router_logits.0.npy", floats(kRows, 4, 300 + dump));
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(kRows));
    std::iota(tokens.begin(), tokens.end(), 0);
    folder.write(name + "token_ids.npy", npy_array(tokens, {kRows}));
    folder.write(name + "prompt.npy",
                 npy_array(std::vector<std::int64_t>(static_cast<std::size_t>(kRows), 1), {kRows}));
  }
}

void extract(const std::string& model, const std::string& output, bool by_reference = false) {
  organ::ExtractSettings settings;
  settings.model = model;
  settings.output = output;
  settings.by_reference = settings.digests = by_reference;
  settings.threads = 2;
  (void)organ::extract(settings);
}

std::string assemble(const std::string& input, const std::string& out) {
  organ::AssembleSettings settings;
  settings.input = input;
  settings.output = out + "/a.gguf";
  settings.threads = 2;
  (void)organ::assemble(settings);
  return file_text(settings.output);
}

edit::EditSettings edit_settings(const Inputs& in, const std::string& out, edit::EditKind kind) {
  edit::EditSettings settings;
  settings.kind = kind;
  settings.model = in("hf");
  settings.output = out + "/model";
  settings.program = "test";
  settings.threads = 2;
  settings.force = true;
  settings.accept_unknown_base = true;
  if (kind != edit::EditKind::kApply) {
    settings.tensor = "model.layers.0.mlp.gate_proj.weight";
  }
  return settings;
}

void write_inputs(const TemporaryFolder& folder) {
  write_hf(folder, "hf", 1);
  write_hf(folder, "hf_b", 50);
  write_moe(folder);
  write_llama_gguf(folder, "a.gguf", 400);
  write_llama_gguf(folder, "b.gguf", 500);
  write_dumps(folder);
  testing::write_trace_model(folder, "traced", {.layers = 1, .experts = 3});
  folder.write("ids.jsonl", "[1, 5, 9, 1]\n{\"ids\": [7]}\n");
  folder.write("imatrix.gguf",
               testing::importance_gguf(
                   {{"blk.0.ffn_gate.weight", std::vector<float>(kWidth, 2.0F), {4.0F}}}));
  folder.write("direction.npy", floats(kWidth, 1, 600));
  folder.write("key.npy", floats(kWidth, 1, 601));
  folder.write("value.npy", floats(kInner, 1, 602));
  folder.write("keys.npy", floats(kWidth, 3, 603));
  folder.write("values.npy", floats(kInner, 3, 604));
  folder.write("probe.npy", floats(5, kWidth, 605));
  folder.write("queries.npy", floats(2, kWidth, 606));
  folder.write("queries.txt", "t3\nt7\n");
  folder.write("other_config.json", R"({"model_type":"llama"})");
  folder.write("lora/adapter_config.json", R"({"peft_type":"LORA","r":2,"lora_alpha":2})");
  const std::string module = "base_model.model.model.layers.1.mlp.up_proj.lora_";
  testing::write_safetensors(folder / "lora/adapter_model.safetensors",
                             {noise_tensor(module + "A.weight", {2, kWidth}, 700),
                              noise_tensor(module + "B.weight", {kInner, 2}, 701)});
  folder.write("recipe.json",
               R"({"schema":"organ-recipe/1","name":"mixed","host":"a","donors":{"a":"a.gguf",)"
               R"("b":"b.gguf"},"rules":[{"from":"b","tensors":"blk\\.0\\.attn_k\\.weight"}]})");
  const Inputs local = [&](const std::string& name) { return folder / name; };
  extract(local("a.gguf"), local("organs"));
  edit::EditSettings patch = edit_settings(local, {}, edit::EditKind::kDelete);
  patch.output.clear();
  patch.direction.file = local("direction.npy");
  patch.side = edit::Side::kRight;
  patch.save_patch = local("patch.safetensors");
  (void)edit::edit_model(patch);
}

/// The inputs, made once.
const TemporaryFolder& inputs() {
  static const TemporaryFolder folder;
  static std::once_flag once;
  std::call_once(once, [] { write_inputs(folder); });
  return folder;
}

std::string at_home(const std::string& name) {
  return name.empty() ? inputs().path().string() : inputs() / name;
}

// ---- what comes out

/// Every file below `folder`, manifests without their times and places.
std::string tree_text(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != "manifest.json") {
      files[entry.path().lexically_relative(folder).string()] = file_text(entry.path());
    }
  }
  std::string text;
  for (const auto& [name, content] : files) {
    text += name + "\n" + content + "\n";
  }
  return text;
}

/// `text` with the places of the inputs taken out.
std::string without_places(std::string text, const Inputs& in) {
  for (const std::string& place : {in({}), at_home({})}) {
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place)) {
      text.erase(at, place.size());
    }
  }
  return text;
}

engine::RunSettings job(const std::string& out) {
  engine::RunSettings settings;
  settings.output = out + "/results.h5";
  settings.backend = engine::BackendChoice::kCpu;
  settings.threads = 2;
  settings.ram_budget = std::uint64_t{1} << 30U;
  return settings;
}

std::string rows_of(const engine::RunOutcome& outcome, const std::string& out,
                    const std::vector<std::string>& tables = {"matrix"}) {
  if (outcome.exit_code != ExitCode::kOk) {
    throw FailedRows{outcome.exit_code};
  }
  std::string text;
  for (const std::string& table : tables) {
    report::export_file(out + "/results.h5", "csv", out + "/rows.csv", true, table);
    text += file_text(out + "/rows.csv");
  }
  return text;
}

std::string look_up(const Inputs& in, commands::LookupSettings settings) {
  settings.model = in("hf");
  settings.threads = 2;
  settings.ram_budget = std::uint64_t{1} << 30U;
  std::string text;
  commands::LookupWriter writer(false, 100, [&](const std::string& part) { text += part; });
  const commands::LookupResult result = commands::look_up(
      settings, {}, [&](const commands::LookupResult& all, const commands::QueryResult& one) {
        writer.add(all, one);
      });
  writer.finish(result);
  return without_places(text, in);
}

std::string edited(const edit::EditSettings& settings, const std::string& out) {
  (void)edit::edit_model(settings);
  return tree_text(out + "/model");
}

std::string purify(const Inputs& in, const std::string& out) {
  const auto source = organ::open_gguf(in("a.gguf"));
  const purify::PurifyTargets targets = {.output = out + "/p.gguf",
                                         .factors = out + "/f.safetensors"};
  purify::require_free_targets(*source, targets);
  purify::PurifyOptions options;
  options.ram_budget = std::uint64_t{1} << 30U;
  options.scratch_folder = out;
  options.keep_factors = true;
  options.gate.force = true;
  const auto backend = cpu::make_cpu_backend(2);
  const purify::PurifyResult result = purify::purify_model(*source, *backend, options);
  EXPECT_TRUE(purify::write_results(*source, result, targets));
  return tree_text(out);
}

std::string organ_measure(const Inputs& in, const std::string& out) {
  const std::vector<fleet::NamedModel> models =
      fleet::named_models(fleet::find_models(in("a.gguf")));
  commands::SpectraSettings settings{.run = job(out)};
  settings.run.model = models.at(0).path;
  engine::RunOutcome outcome;
  auto measured = fleet::measure_model(settings, models.at(0).name, {}, outcome);
  (void)rows_of(outcome, out);
  measured.value().seconds = 0.0;
  return without_places(fleet::measure_json(*measured), in);
}

std::string inspect(const Inputs& in, const std::string&) {
  std::string text;
  for (const auto& [name, config] : std::map<std::string, std::string>{
           {"hf", ""}, {"moe/model.safetensors", "other_config.json"}, {"a.gguf", ""}}) {
    const input::ModelFiles files =
        input::open_model(in(name), {.model_config = config.empty() ? config : in(config)});
    text += model::inspect_json(files, model::index_model(files), true);
  }
  return without_places(text, in);
}

std::string diff(const Inputs& in, const char* a, const char* b) {
  organ::DiffSettings settings;
  settings.a = in(a);
  settings.b = in(b);
  settings.threads = 2;
  return without_places(organ::difference_json(organ::diff_models(settings)), in);
}

std::vector<Command> commands() {
  using edit::EditKind;
  return {
      {"Inspect", inspect, Reads::kHeaders},
      {"Measure",
       [](const Inputs& in, const std::string& out) {
         commands::SpectraSettings settings{.run = job(out)};
         settings.run.model = in("a.gguf");
         settings.imatrix = in("imatrix.gguf");
         return rows_of(commands::measure_model(settings, {}), out, {"matrix", "imatrix"});
       }},
      {"MeasureAdapter",
       [](const Inputs& in, const std::string& out) {
         commands::SpectraSettings settings{.run = job(out)};
         settings.run.model = in("lora");
         settings.indexing.lora = true;
         return rows_of(commands::measure_model(settings, {}), out, {"product"});
       }},
      {"Experts",
       [](const Inputs& in, const std::string& out) {
         commands::ExpertsSettings settings{.run = job(out), .vectors = 2};
         settings.run.model = in("moe");
         return rows_of(commands::measure_experts(settings, {}).run, out);
       }},
      {"Compare",
       [](const Inputs& in, const std::string& out) {
         commands::CompareSettings settings;
         settings.model_a = in("hf");
         settings.model_b = in("hf_b");
         settings.delta = true;
         settings.run = job(out);
         return rows_of(commands::compare_models(settings, {}), out);
       }},
      {"Cka",
       [](const Inputs& in, const std::string& out) {
         commands::CkaSettings settings;
         settings.dump_a = in("dump0");
         settings.dump_b = in("dump1");
         settings.permutations = 5;
         settings.interval = false;
         settings.run = job(out);
         return rows_of(commands::compare_activations(settings, {}), out);
       }},
      {"Activations",
       [](const Inputs& in, const std::string& out) {
         commands::ActivationsSettings settings;
         settings.run = job(out);
         settings.dump = in("dump0");
         settings.model = in("hf");
         return rows_of(commands::measure_activations(settings, {}), out);
       }},
      {"Routing",
       [](const Inputs& in, const std::string& out) {
         commands::RoutingSettings settings;
         settings.dump = in("dump0");
         settings.model = in("moe");
         settings.run = job(out);
         return rows_of(commands::measure_routing(settings, {}), out);
       }},
      {"LookupOfTokens",
       [](const Inputs& in, const std::string&) {
         commands::LookupSettings settings;
         settings.requests = commands::read_queries(in("queries.txt"));
         return look_up(in, std::move(settings));
       }},
      {"LookupOfVectors",
       [](const Inputs& in, const std::string&) {
         commands::LookupSettings settings;
         settings.requests = commands::read_vectors(in("queries.npy"));
         settings.tokenizer = in("hf_b/tokenizer.json");
         return look_up(in, std::move(settings));
       }},
      {"Trace",
       [](const Inputs& in, const std::string& out) {
         commands::TraceSettings settings;
         settings.ids = in("ids.jsonl");
         settings.run = job(out);
         settings.run.model = in("traced");
         settings.run.output = out + "/dump";
         // The matrix of logits is read for them alone.
         settings.dump = commands::dump_choice("hidden,logits", "", "", "");
         (void)commands::trace(settings, {});
         return tree_text(out + "/dump");
       }},
      {"StoreOfFeatures",
       [](const Inputs& in, const std::string& out) {
         commands::StoreSettings settings;
         settings.run = job(out);
         settings.run.model = in("hf");
         return rows_of(commands::store_features(settings, {}), out);
       }},
      {"Decode",
       [](const Inputs& in, const std::string& out) {
         (void)commands::decode_tensor(in("hf"), {}, "model.layers.1.mlp.down_proj.weight",
                                       std::nullopt, out + "/values", false);
         return file_text(out + "/values");
       }},
      {"EditDelete",
       [](const Inputs& in, const std::string& out) {
         edit::EditSettings settings = edit_settings(in, out, EditKind::kDelete);
         settings.direction.file = in("direction.npy");
         settings.side = edit::Side::kRight;
         settings.probe = in("probe.npy");
         return edited(settings, out);
       }},
      {"EditInsert",
       [](const Inputs& in, const std::string& out) {
         edit::EditSettings settings = edit_settings(in, out, EditKind::kInsert);
         settings.key = in("key.npy");
         settings.value = in("value.npy");
         return edited(settings, out);
       }},
      {"EditMemit",
       [](const Inputs& in, const std::string& out) {
         edit::EditSettings settings = edit_settings(in, out, EditKind::kMemit);
         settings.keys = in("keys.npy");
         settings.values = in("values.npy");
         return edited(settings, out);
       }},
      {"EditApplyPatch",
       [](const Inputs& in, const std::string& out) {
         edit::EditSettings settings = edit_settings(in, out, EditKind::kApply);
         settings.patch = in("patch.safetensors");
         return edited(settings, out);
       }},
      {"EditApplyAdapter",
       [](const Inputs& in, const std::string& out) {
         edit::EditSettings settings = edit_settings(in, out, EditKind::kApply);
         settings.patch = in("lora");
         return edited(settings, out);
       }},
      {"OrganExtract",
       [](const Inputs& in, const std::string& out) {
         extract(in("a.gguf"), out + "/organs");
         return tree_text(out + "/organs");
       }},
      {"OrganExtractSafetensors",
       [](const Inputs& in, const std::string& out) {
         extract(in("hf"), out + "/organs");
         return tree_text(out + "/organs");
       }},
      {"OrganByReference",
       [](const Inputs& in, const std::string& out) {
         extract(in("a.gguf"), out + "/organs", true);
         return assemble(out + "/organs", out);
       }},
      {"OrganAssemble",
       [](const Inputs& in, const std::string& out) { return assemble(in("organs"), out); }},
      {"OrganAssembleRecipe",
       [](const Inputs& in, const std::string& out) { return assemble(in("recipe.json"), out); }},
      {"OrganGraft",
       [](const Inputs& in, const std::string& out) {
         organ::GraftSettings settings;
         settings.donor = in("b.gguf");
         settings.host = in("organs/manifest.json");
         settings.output = out + "/g.gguf";
         settings.types = "organ";
         settings.name = "grafted";
         settings.force = true;
         settings.threads = 2;
         const organ::GraftReport report = organ::graft_models(settings);
         EXPECT_EQ(report.outcome, organ::GraftOutcome::kWritten);
         return file_text(out + "/g.gguf");
       }},
      {"OrganPurify", purify},
      {"OrganMeasure", organ_measure},
      {"OrganVerify",
       [](const Inputs& in, const std::string&) {
         std::string text;
         for (const char* name : {"a.gguf", "organs"}) {
           const organ::VerifyReport report =
               organ::verify({.path = in(name), .check_tensors = true, .threads = 2});
           text += fmt::format("{} {} {}\n", report.tensors, report.tensors_checked,
                               fmt::join(report.files, "\n"));
           for (const organ::VerifyFinding& finding : report.findings) {
             text += fmt::format("{} {} {}\n", finding.id, finding.file, finding.what);
           }
         }
         return without_places(text, in);
       },
       Reads::kOnce},
      {"OrganDiff",
       [](const Inputs& in, const std::string&) {
         return diff(in, "organs", "b.gguf") + diff(in, "hf", "hf_b");
       }},
  };
}

class EveryCommand : public ::testing::TestWithParam<Command> {
 protected:
  EveryCommand() { store().put_all(inputs().path()); }

  UnsteadyStore& store() { return scheme_.store(); }
  std::string run(const Inputs& in) {
    const std::string out = scratch_ / fmt::format("out{}", ++runs_);
    fs::create_directory(out);
    return GetParam().run(in, out);
  }
  std::string run() { return run(UnsteadyScheme::address); }
  /// The exit code of a run that fails, which leaves no output but rows that say so.
  int failure() {
    try {
      run();
    } catch (const Error& error) {
      message_ = error.what();
      expect_nothing_left();
      return static_cast<int>(error.exit_code());
    } catch (const FailedRows& rows) {
      return static_cast<int>(rows.code);
    }
    return 0;
  }
  void expect_nothing_left() const {
    const std::string name = GetParam().name;
    if (name == "OrganByReference" || name == "OrganMeasure") {
      return;  // the first of their two steps may have finished
    }
    if (name == "Trace") {
      return;  // layers that were finished stay
    }
    for (const auto& entry : fs::directory_iterator(scratch_ / fmt::format("out{}", runs_))) {
      ADD_FAILURE() << entry.path() << " " << message_;
    }
  }

  TemporaryFolder scratch_;
  UnsteadyScheme scheme_{10};
  int runs_ = 0;
  std::string message_;
};

TEST_P(EveryCommand, GivesTheBytesOfTheLocalRunOverABusyAndSlowStore) {
  const std::string wanted = run(at_home);
  EXPECT_FALSE(wanted.empty());
  EXPECT_EQ(run([](const std::string& name) { return "file://" + at_home(name); }), wanted);
  store().before([](const Request& request) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    // Not for ever: of many reads in one call one would fail in every attempt.
    if (request.number % 3 == 1 && request.number < 12) {
      testing::throw_busy(request.name);
    }
  });
  store().after([](const Request& request, std::span<std::byte> bytes) {
    if (request.kind == Kind::kRead && request.number == 0) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0xA5});
      throw RemoteError("E-REMOTE-DIGEST", request.name + ": the answer's digest is wrong", true);
    }
  });
  EXPECT_EQ(run(), wanted);
  EXPECT_GT(scheme_.waits(), 0);
}

TEST_P(EveryCommand, EndsWith69OverADeadStore) {
  scheme_.set_attempts(2);
  store().before([](const Request& request) { testing::throw_busy(request.name); });
  EXPECT_EQ(failure(), 69);
  EXPECT_EQ(scheme_.waits(), 1);
}

TEST_P(EveryCommand, EndsWith69WhereTheStoreDiesUnderIt) {
  scheme_.set_attempts(2);
  std::atomic<std::uint64_t> reads{0};
  store().before([&](const Request& request) { reads += request.kind == Kind::kRead ? 1 : 0; });
  run();
  const std::uint64_t last = reads;
  for (const std::uint64_t alive : {last / 2, last * 3 / 4}) {
    reads = 0;
    store().before([&, alive](const Request& request) {
      if (request.kind == Kind::kRead && reads++ >= alive) {
        testing::throw_busy(request.name);
      }
    });
    EXPECT_EQ(failure(), 69) << alive << " of " << last;
  }
}

TEST_P(EveryCommand, EndsWith65WhereFilesAreShorterThanTheStoreSays) {
  if (GetParam().reads == Reads::kHeaders) {
    return;
  }
  for (const std::string& name : store().names()) {
    if (name.ends_with(".safetensors") || name.ends_with(".gguf") || name.ends_with(".npy") ||
        name.ends_with(".bin")) {
      UnsteadyStore::File& file = store().at(name);
      const std::size_t cut = std::min<std::size_t>(file.bytes.size() / 3, 400);
      file.bytes.resize(file.bytes.size() - cut);
      file.lie = static_cast<std::int64_t>(cut);
    }
  }
  EXPECT_EQ(failure(), 65) << message_;
}

TEST_P(EveryCommand, EndsWith74WhereFilesChangeMeanwhile) {
  if (GetParam().reads != Reads::kWatching) {
    return;
  }
  std::mutex mutex;
  std::set<std::string> seen;
  store().after([&](const Request& request, std::span<std::byte>) {
    const std::lock_guard lock(mutex);
    if (request.kind == Kind::kRead && request.offset > 0 && seen.insert(request.name).second) {
      store().set_version(request.name, "two");
    }
  });
  EXPECT_EQ(failure(), 74) << message_;
}

INSTANTIATE_TEST_SUITE_P(Store, EveryCommand, ::testing::ValuesIn(commands()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace vindex::store_commands_test
