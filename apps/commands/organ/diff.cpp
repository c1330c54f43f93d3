// The command organ diff: two models, key by key and tensor by tensor.
#include "organ.hpp"

#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/reporting/report_file.hpp"
#include "organ/difference/difference_report.hpp"
#include "organ/difference/model_difference.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

/// What diff, cmp and git end with where two sides differ; only with --exit-code.
constexpr ExitCode kDifferent{1};

struct DiffFlags {
  organ::DiffSettings settings;
  organ::DiffView view;
  std::string report;
  bool json = false, exit_code = false;
};

Ending run_diff(const DiffFlags& flags, const Session& session) {
  organ::DiffSettings settings = flags.settings;
  settings.stop = catch_stop_signals();
  const ReportFile file(flags.report, "organ-diff/1");
  const organ::ModelDifference difference = organ::diff_models(settings);
  if (difference.stopped) {
    return stopped_early("no difference is reported");
  }
  file.report(
      session, flags.json, [&] { return organ::difference_json(difference); },
      [&](std::size_t columns) {
        organ::DiffView view = flags.view;
        view.width = columns;
        return organ::difference_text(difference, view);
      });
  if (flags.exit_code && !difference.is_same()) {
    return {kDifferent, fmt::format("E-DIFFERENT: {} and {} are not the same",
                                    printable(settings.a), printable(settings.b))};
  }
  return {};
}

}  // namespace

void add_organ_diff(Command& organ, Session& session) {
  auto flags = std::make_shared<DiffFlags>();
  Command& command = organ.add_command(
      "diff",
      "Show the differences of two models: metadata, bytes, weights\n\n"
      "Examples:\n"
      "  vindex organ diff ORIGINAL.gguf GRAFTED.gguf\n"
      "  vindex organ diff A.gguf B-00001-of-00005.gguf --by-layer --top 30\n"
      "  vindex organ diff A.gguf B.gguf --tensors 'blk\\.[0-9]+\\.ffn_.*' --json\n"
      "  vindex organ diff A.gguf B.gguf --exit-code -q && echo same\n"
      "GGUF files, splits and extracted folders in any mixture, or safetensors models.");
  command.add_input("a", flags->settings.a, "Model A")->required();
  command.add_input("b", flags->settings.b, "Model B")->required();
  command.add_value("--tensors", flags->settings.tensors,
                    "Regular expression for the whole name of a tensor");
  command.add_flag("--by-layer", flags->view.by_layer, "Sum up by block rather than by class");
  command.add_former_flag("--layers", "--by-layer");
  command.add_value("--top", flags->view.top, "Tensors to list, the largest error first")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_flag("--exit-code", flags->exit_code, "End with 1 where the models differ",
                   ValueKind::kCaller);
  add_report(command, flags->report, "difference");
  add_threads(command, flags->settings.threads, "Threads (0: every core, at most 8)");
  command.add_flag("--json", flags->json, "The difference as one JSON document");
  command.runs(session, [&session, flags] { return run_diff(*flags, session); });
}

}  // namespace vindex::apps
