// The command organ verify: a GGUF model judged by the rules that loaders hold it to.
#include "organ/verify/verify.hpp"

#include "organ.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "core/json/json_document.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

std::string verify_json(const organ::VerifyReport& report) {
  Json findings = Json::array();
  for (const organ::VerifyFinding& finding : report.findings) {
    findings.push_back({{"id", finding.id},
                        {"level", organ::level_name(finding.level)},
                        {"file", finding.file},
                        {"where", finding.where},
                        {"what", finding.what},
                        {"advice", finding.advice}});
  }
  const Json json = {{"schema", "organ-verify/1"}, {"files", report.files},
                     {"tensors", report.tensors},  {"tensors_checked", report.tensors_checked},
                     {"errors", report.errors},    {"warnings", report.warnings},
                     {"notes", report.notes},      {"findings", std::move(findings)}};
  return json.dump(2) + "\n";
}

std::string verify_text(const organ::VerifyReport& report, bool several) {
  std::string text;
  for (const organ::VerifyFinding& finding : report.findings) {
    text += fmt::format("{:<7} {}{}{}: {}\n", organ::level_name(finding.level), finding.id,
                        several && !finding.file.empty() ? " " + printable(finding.file) : "",
                        finding.where.empty() ? "" : " " + printable(finding.where),
                        printable(finding.what));
    if (!finding.advice.empty()) {
      text += fmt::format("        -> {}\n", finding.advice);
    }
  }
  text +=
      fmt::format("{} file{}, {} tensors{}: {} errors, {} warnings, {} notes\n",
                  report.files.size(), several ? "s" : "", report.tensors,
                  report.tensors_checked > 0 ? fmt::format(" ({} decoded)", report.tensors_checked)
                                             : std::string(),
                  report.errors, report.warnings, report.notes);
  return text;
}

Ending run_verify(const organ::VerifySettings& given, const Session& session, bool json) {
  organ::VerifySettings settings = given;
  settings.stop = catch_stop_signals();
  const organ::VerifyReport report = organ::verify(settings);
  if (report.stopped) {
    return stopped_early("not everything was judged");
  }
  if (json || !session.quiet || report.errors > 0) {
    print_result(json ? verify_json(report) : verify_text(report, report.files.size() > 1));
  }
  if (report.errors > 0) {
    return {ExitCode::kMalformedInput,
            fmt::format("E-ORGAN-VERIFY: {}: {} errors: loaders refuse this model, or worse; what "
                        "to do stands beside each",
                        printable(settings.path), report.errors)};
  }
  return {};
}

}  // namespace

void add_organ_verify(Command& organ, Session& session) {
  struct Options {
    organ::VerifySettings settings;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  organ::VerifySettings& settings = options->settings;
  Command& command =
      organ.add_command("verify",
                        "Check a GGUF model by the rules of its loaders\n\n"
                        "Examples:\n  vindex organ verify model.gguf\n"
                        "  vindex organ verify model-00001-of-00005.gguf --check-tensors\n"
                        "  vindex organ verify downloads/ --json\n"
                        "Exit code 65 where there are errors, 0 for warnings and notes alone.");
  command.add_input("path", settings.path, "GGUF file, split, folder, or extracted folder")
      ->required();
  command.add_flag("--check-tensors", settings.check_tensors,
                   "Decode every tensor: NaN, infinite weights, scales that are not finite");
  add_threads(command, settings.threads, "Threads that decode (0: by the machine)", 64);
  command.add_flag("--json", options->json, "Findings as one JSON document");
  command.runs(session, [&session, options] {
    return run_verify(options->settings, session, options->json);
  });
}

}  // namespace vindex::apps
