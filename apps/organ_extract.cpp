// The command organ extract: a model taken apart, tensor by tensor.
#include "flag_names.hpp"
#include "organ.hpp"

#include "core/json_document.hpp"
#include "core/size_text.hpp"
#include "core/text_table.hpp"
#include "organ/extract.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

std::string extract_json(const organ::ExtractSettings& settings,
                         const organ::ExtractReport& report) {
  Json json = {
      {"schema", "organ-extract/1"}, {"model", settings.model},
      {"output", settings.output},   {"storage", settings.by_reference ? "reference" : "files"},
      {"tensors", report.tensors},   {"tensors_total", report.tensors_total},
      {"bytes", report.bytes},       {"bytes_sharing_blocks", report.cloned},
      {"seconds", report.seconds},   {"classes", organ::class_counts_json(report.classes)}};
  return json.dump(2) + "\n";
}

std::string extract_text(const organ::ExtractSettings& settings,
                         const organ::ExtractReport& report) {
  std::string text =
      fmt::format("{:<10} {:>8} {:>16} {:>12}\n", "class", "tensors", "weights", "bytes");
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const organ::ClassCount& count = report.classes.at(i);
    if (count.tensors > 0) {
      text += fmt::format("{:<10} {:>8} {:>16} {:>12}\n",
                          organ::class_name(static_cast<organ::OrganClass>(i)), count.tensors,
                          count.params, data_text(count.bytes));
    }
  }
  const bool read = !settings.by_reference || settings.digests;
  text += fmt::format("{} of {} tensors {} {}: {}\n", report.tensors, report.tensors_total,
                      settings.by_reference ? "by reference in" : "in", printable(settings.output),
                      read ? rate_text(report.bytes, report.seconds)
                           : fmt::format("{} not copied, {:.0f} ms", data_text(report.bytes),
                                         1e3 * report.seconds));
  return text;
}

Ending run_extract(const organ::ExtractSettings& given, const Session& session, bool json) {
  organ::ExtractSettings settings = given;
  settings.tool = program_name();
  settings.stop = catch_stop_signals();
  const organ::ExtractReport report = organ::extract(settings);
  if (report.stopped) {
    return stopped_early("nothing of " + printable(settings.output) + " is kept");
  }
  say_warnings(session, report.warnings);
  if (json || !session.quiet) {
    print_result(json ? extract_json(settings, report) : extract_text(settings, report));
  }
  return {};
}

}  // namespace

void add_organ_extract(CLI::App& organ, Session& session) {
  struct Options {
    organ::ExtractSettings settings;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  organ::ExtractSettings& settings = options->settings;
  CLI::App* verb = organ.add_subcommand(
      "extract",
      "Split a model: a valid GGUF for each tensor, and a manifest\n\n"
      "Examples:\n  vindex organ extract model.gguf -o organs\n"
      "  vindex organ extract model-00001-of-00005.gguf -o organs --by-reference\n"
      "  vindex organ extract model.gguf -o ffn --type organ --layers 5-20\n"
      "`vindex organ assemble organs -o again.gguf` gives back the same bytes.");
  verb->add_option("model", settings.model, "GGUF file, split or folder; or safetensors")
      ->required();
  verb->add_option("-o,--output", settings.output, "Folder to create")->required();
  verb->add_flag("--by-reference", settings.by_reference,
                 "Copy nothing: the manifest says where the bytes lie");
  verb->add_flag("--digests", settings.digests,
                 "With --by-reference: digest every tensor (reads all of it); copies always have "
                 "digests");
  verb->add_option("--type", settings.types,
                   "Classes: skeleton, organ (feed-forward, with router), ffn (without it), embed, "
                   "norm, adapter, router, other, all");
  add_layers(*verb, settings.layers, "Blocks, for example 0,1,5-20 (-1: what is in no block)");
  verb->add_option("--threads", settings.threads, "Threads that copy (0: by the machine)")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  verb->add_flag("--json", options->json, "Report as one JSON document");
  on_choice(*verb, session,
            [&session, options] { return run_extract(options->settings, session, options->json); });
}

}  // namespace vindex::apps
