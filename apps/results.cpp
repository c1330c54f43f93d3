// The commands that work on results files: merge, validate, export.
#include "flag_names.hpp"
#include "verbs.hpp"

#include "report/export/export.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include "results/schema/schema.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

void add_merge(CLI::App& app, Session& session) {
  struct Options {
    std::vector<std::string> parts;
    std::string output;
    bool partial = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("merge",
                                      "Join the parts of many workers into one results file\n\n"
                                      "Example:\n  vindex merge OUT.h5.parts -o OUT.h5");
  verb->add_option("parts", options->parts, "Folders of parts, or part files")->required();
  verb->add_option("-o,--output", options->output, "Results file to write")->required();
  verb->add_flag("--partial", options->partial,
                 "Merge what is there though parts are missing; the file's status says so");
  on_choice(*verb, session, [&session, options] {
    const results::MergeOutcome merged =
        results::merge_parts(options->parts, options->output, options->partial);
    if (merged.same_twice > 0) {
      say(session, fmt::format("{} rows were in two parts with the same bits", merged.same_twice));
    }
    if (merged.passed_over > 0) {
      say(session, fmt::format("{} rows were measured twice: those of the parts that records name "
                               "are taken",
                               merged.passed_over));
    }
    const results::RunStatus status = results::read_status(options->output);
    say(session,
        fmt::format("{}: {} of {} {} ({})", printable(options->output), status.done,
                    status.matrices_total, results::row_noun(status.schema), status.state));
    return Ending();
  });
}

void add_validate(CLI::App& app, Session& session) {
  auto path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("validate",
                                      "Check a results file against the schema\n\n"
                                      "Example:\n  vindex validate OUT.h5");
  verb->add_option("file", *path, "Results file")->required();
  on_choice(*verb, session, [path] {
    const std::vector<std::string> faults = results::validate_file(*path);
    std::string text;
    for (const std::string& fault : faults) {
      text += fault + "\n";
    }
    print_result(faults.empty() ? fmt::format("{}: valid\n", printable(*path)) : text);
    if (faults.empty()) {
      return Ending();
    }
    return Ending(ExitCode::kMalformedInput,
                  fmt::format("E-INVALID: {}: {}{}", printable(*path), faults.front(),
                              faults.size() == 1 ? std::string()
                                                 : fmt::format(" ({} more on standard output)",
                                                               faults.size() - 1)));
  });
}

void add_export(CLI::App& app, Session& session) {
  struct Options {
    std::string path, format, target, table = "matrix";
    report::PhaseInputs others;
    bool force = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "export",
      "Convert a results file: csv, json and other formats\n\nExamples:\n"
      "  vindex export OUT.h5 --format csv -o OUT.csv\n"
      "  vindex export OUT.h5 --format phase-json -o folder\n"
      "  vindex export OUT.h5 --format phase-json -o folder \\\n"
      "    --activations A.h5 --cka C.h5 --routing R.h5\n"
      "  vindex export R.h5 --format phase-json -o folder   routing alone\n"
      "csv and json are for every kind of results file; json has "
      "arrays too.\nParquet and Arrow files: with the Python package, vindex-spectra.");
  verb->add_option("file", options->path, "Results file")->required();
  const std::vector<std::string> formats = report::export_formats();
  verb->add_option("--format", options->format, fmt::format("{}", fmt::join(formats, ", ")))
      ->required()
      ->check(CLI::Validator(
          [](std::string& format) {
            report::refuse_python_format(format);
            return std::string();
          },
          ""))
      ->check(CLI::IsMember(formats));
  verb->add_option("-o,--output", options->target, "File or folder to write (-: standard output)")
      ->required();
  verb->add_option("--table", options->table, "matrix, imatrix or product (csv and json)")
      ->check(CLI::IsMember({"matrix", "imatrix", "product"}))
      ->capture_default_str();
  const char* const kJoined = "phase-json: of the same model";
  verb->add_option("--activations", options->others.activations,
                   fmt::format("File of `vindex activations` for C1 to C4 ({})", kJoined));
  verb->add_option("--cka", options->others.cka,
                   fmt::format("File of `vindex cka` for C5 ({})", kJoined));
  verb->add_option("--routing", options->others.routing,
                   fmt::format("File of `vindex routing` for phase 3 ({})", kJoined));
  add_force(*verb, options->force, "Replace files that are there (never a results file)");
  on_choice(*verb, session, [&session, options] {
    const std::string note = report::export_file(options->path, options->format, options->target,
                                                 options->force, options->table, options->others);
    if (!note.empty()) {
      say(session, note);
    }
    return Ending();
  });
}

}  // namespace

void add_results_verbs(CLI::App& app, Session& session) {
  add_merge(app, session);
  add_validate(app, session);
  add_export(app, session);
}

}  // namespace vindex::apps
