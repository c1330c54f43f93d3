// The command lookup: which features of a model activate for a token or a vector, and storing them
// to be searched without the model.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/lookup/lookup_report.hpp"
#include "commands/lookup/lookup_run.hpp"
#include "commands/lookup/store/store_features.hpp"
#include "commands/lookup/store/stored_features.hpp"
#include "core/text/size_text.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <unistd.h>
#include <utility>

namespace vindex::apps {

namespace {

struct LookupFlags {
  commands::LookupSettings settings;
  commands::StoreSettings store;  ///< its `run` where a file is written
  JobFlags job;
  std::vector<std::string> tokens, sequences, number_sequences;
  std::vector<std::int64_t> numbers;
  std::string vector_file, queries_file, layers, blocks, tensors, order, type;
  std::string role = "gate_proj", pooling = "mean";
};

commands::QueryList requests_of(const LookupFlags& flags) {
  std::vector<commands::QueryRequest> given;
  for (const std::string& token : flags.tokens) {
    given.push_back({.what = commands::TokenText{token}});
  }
  for (const std::int64_t number : flags.numbers) {
    given.push_back({.what = commands::TokenNumber{number}});
  }
  for (const std::string& entries : flags.sequences) {
    given.push_back(commands::token_sequence(entries));
  }
  for (const std::string& numbers : flags.number_sequences) {
    given.push_back(commands::token_numbers(numbers));
  }
  commands::QueryList requests(std::move(given));
  if (!flags.vector_file.empty()) {
    requests.add(commands::read_vectors(flags.vector_file));
  }
  if (!flags.queries_file.empty()) {
    requests.add(commands::read_queries(flags.queries_file));
  }
  if (requests.empty()) {
    throw UsageError("E-QUERY",
                     "nothing to look up: --token T, --token-id N, --tokens \"T1 T2\", --token-ids "
                     "N,M, --vector FILE.npy or --queries FILE is needed");
  }
  return requests;
}

model::FeatureRole role_of(const LookupFlags& flags) {
  return flags.role == "up_proj" ? model::FeatureRole::kUp : model::FeatureRole::kGate;
}

commands::LookupSettings lookup_settings(const LookupFlags& flags, const Session& session) {
  commands::LookupSettings settings = flags.settings;
  settings.requests = requests_of(flags);
  settings.selection = model::parse_selection(flags.layers, flags.blocks, "", flags.tensors);
  settings.role = role_of(flags);
  settings.threads = flags.job.threads;
  static const std::map<std::string, commands::LookupOrder> kOrders = {
      {"", commands::LookupOrder::kApart},
      {"positive", commands::LookupOrder::kPositive},
      {"negative", commands::LookupOrder::kNegative},
      {"cosine", commands::LookupOrder::kCosine},
      {"score", commands::LookupOrder::kScore}};
  settings.order = kOrders.at(flags.order);
  settings.pooling =
      flags.pooling == "last" ? commands::TokenPooling::kLast : commands::TokenPooling::kMean;
  settings.ram_budget = ram_budget_of(session, flags.job.ram_budget).bytes;
  return settings;
}

/// With -o: features are stored, and nothing is looked up.
Ending run_store(const LookupFlags& flags, const Session& session) {
  const bool asks = !flags.tokens.empty() || !flags.numbers.empty() || !flags.sequences.empty() ||
                    !flags.number_sequences.empty() || !flags.vector_file.empty() ||
                    !flags.queries_file.empty();
  if (asks || !flags.order.empty()) {
    throw UsageError("E-USAGE",
                     "-o stores features, not answers: leave out queries and --by; then `vindex "
                     "lookup OUT.h5 ...` answers them");
  }
  if (commands::is_stored_features(flags.settings.model)) {
    throw UsageError("E-USAGE", fmt::format("-o stores features of a model, and {} has stored ones",
                                            printable(flags.settings.model)));
  }
  static const std::map<std::string, decode::ElementType> kTypes = {
      {"f16", decode::ElementType::kF16},
      {"bf16", decode::ElementType::kBF16},
      {"f32", decode::ElementType::kF32}};
  commands::StoreSettings settings = flags.store;
  settle_job(settings.run, flags.job, session);
  settings.run.model = flags.settings.model;
  settings.run.model_config = flags.settings.model_config;
  settings.run.selection = model::parse_selection(flags.layers, flags.blocks, "", flags.tensors);
  settings.tokenizer = flags.settings.tokenizer;
  settings.tokens_out = flags.settings.tokens_out;
  settings.role = role_of(flags);
  if (!flags.type.empty()) {
    settings.type = kTypes.at(flags.type);
  }
  return run_cells(
      settings.run, flags.job, session, results::FileSchema::kGateVectors,
      [&](const engine::RunHooks& hooks) { return commands::store_features(settings, hooks); });
}

Ending run_lookup(const LookupFlags& flags, const Session& session) {
  if (!flags.store.run.output.empty()) {
    return run_store(flags, session);
  }
  if (!flags.type.empty() || flags.job.restart) {
    throw UsageError("E-USAGE", "--dtype and --restart are of a file that -o writes");
  }
  const commands::LookupSettings settings = lookup_settings(flags, session);
  ConsoleReporter reporter(session, flags.job.progress);
  // A million answers are not a million calls of the system.
  constexpr std::size_t kPrintedBytes = 64U << 10U;
  std::string waiting;
  const auto print_waiting = [&] { print_result(std::exchange(waiting, {})); };
  commands::LookupWriter writer(flags.job.json, text_width(STDOUT_FILENO),
                                [&](const std::string& text) {
                                  waiting += text;
                                  if (waiting.size() >= kPrintedBytes) {
                                    print_waiting();
                                  }
                                });
  std::int64_t seen_passes = 0;
  const auto see = [&](const commands::LookupResult& all, const commands::QueryResult& query) {
    if (std::exchange(seen_passes, all.passes) != all.passes) {
      reporter.finish();  // its line ends before results begin
    }
    writer.add(all, query);
  };
  const commands::LookupResult result = commands::look_up(settings, reporter.hooks(), see);
  if (result.stopped) {
    print_waiting();
    reporter.finish();
    return stopped_early("nothing is kept of a search; run the same command again");
  }
  writer.finish(result);
  print_waiting();
  for (const commands::SkippedMatrix& matrix : result.skipped) {
    say(session, fmt::format("warning W-SKIPPED: {}: {}", matrix.name, printable(matrix.reason)));
  }
  if (result.not_finite > 0) {
    say(session, fmt::format("warning W-NOT-FINITE: {} rows hold weights that are not finite and "
                             "are in no list",
                             result.not_finite));
  }
  say(session,
      fmt::format("searched {} in {:.3g} s; {}", data_text(result.searched_bytes), result.seconds,
                  input::reading_text(result.reading, result.reading_engine)));
  if (result.is_incomplete) {
    const auto first = result.skipped.front();
    return {ExitCode::kMalformedInput,
            fmt::format("E-UNSUPPORTED: {} of the matrices were not searched, the first: {}: {}",
                        result.skipped.size(), first.name, first.reason)};
  }
  return {};
}

}  // namespace

void add_lookup(Command& app, Session& session) {
  auto flags = std::make_shared<LookupFlags>();
  commands::LookupSettings& settings = flags->settings;
  Command& command =
      app.add_command("lookup",
                      "Find the features that activate for a token or a vector\n\n"
                      "Examples:\n  vindex lookup MODEL --token Paris\n"
                      "  vindex lookup MODEL --token-id 3681 --layers 10-20 --top 50 --json\n"
                      "  vindex lookup MODEL --vector direction.npy --by score\n"
                      "  vindex lookup MODEL --queries words.txt   many tokens in one pass\n"
                      "  vindex lookup MODEL --tokens \"New York\"   two entries as one query\n"
                      "  vindex lookup MODEL -o gates.h5   store them; then, without the model:\n"
                      "  vindex lookup gates.h5 --token Paris\n"
                      "A feature is a row of gate_proj.");
  command.add_input("model", settings.model, "Model folder or file, or a file that -o wrote")
      ->required();
  command
      .add_value("--token", flags->tokens,
                 "An entry of the vocabulary, with or without its space; may be repeated")
      ->allow_extra_args(false);
  command.add_value("--token-id", flags->numbers, "The same by number; may be repeated")
      ->allow_extra_args(false);
  command
      .add_value("--tokens", flags->sequences,
                 "Several entries, spaces between them, as one query; may be repeated")
      ->allow_extra_args(false);
  command
      .add_value("--token-ids", flags->number_sequences,
                 "The same by numbers, for example 12,55,9; may be repeated")
      ->allow_extra_args(false);
  command
      .add_value("--pool", flags->pooling,
                 "Of several tokens: mean, the mean of their embeddings; last, the last one's")
      ->check(CLI::IsMember({"mean", "last"}))
      ->capture_default_str();
  command.add_input("--vector", flags->vector_file,
                    "A .npy file of floats, [hidden] or [queries, hidden], used unchanged");
  command.add_input(
      "--queries", flags->queries_file,
      "A file of queries: one text per line, .jsonl of texts, numbers and objects, or .npy");
  add_layers(command, flags->layers);
  add_blocks(command, flags->blocks, "Blocks: dense_mlp, routed_expert, shared_expert");
  command.add_value("--tensors", flags->tensors, "Regular expression for the whole logical name");
  add_roles(command, flags->role, "gate_proj, or up_proj (models without gates)")
      ->check(CLI::IsMember({"gate_proj", "up_proj"}))
      ->capture_default_str();
  command.add_value("--top", settings.top, "Features of each list")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      .add_value("--by", flags->order,
                 "positive, negative: the largest cosines of that sign (default: both, apart); "
                 "cosine, score: the largest by size")
      ->check(CLI::IsMember({"positive", "negative", "cosine", "score"}));
  command
      .add_value("--tokens-out", settings.tokens_out,
                 "Entries of the vocabulary named for each feature (0: none)")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_output("-o,--store", flags->store.run.output, "{inputs}.h5",
                     "Store the features, what they write and the embedding, instead of a search");
  command
      .add_value("--dtype", flags->type,
                 "Of the stored vectors: f16, bf16 or f32 (default: the weights' own, f16 of "
                 "quantised ones)")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}));
  command.add_flag("--restart", flags->job.restart, "Replace what -o wrote of other settings");
  command.add_input("--tokenizer", settings.tokenizer,
                    "A tokenizer.json (default: the GGUF keys, or the one beside the weights)");
  add_model_config(command, settings.model_config);
  add_threads(command, flags->job.threads, "Workers (0: every core)");
  add_ram_budget(command, flags->job.ram_budget);
  add_progress(command, flags->job.progress);
  command.add_flag("--json", flags->job.json, "One JSON document, numbers unrounded");
  add_config(command);
  command.runs(session, [&session, flags] { return run_lookup(*flags, session); });
}

}  // namespace vindex::apps
