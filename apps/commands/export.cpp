// The command export: a results file in other formats.
#include "report/export/export.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace vindex::apps {

void add_export(Command& app, Session& session) {
  struct Options {
    std::string path, format, target, table = "matrix";
    report::PhaseInputs others;
    bool force = false;
  };
  auto options = std::make_shared<Options>();
  Command& command = app.add_command(
      "export",
      "Convert a results file: csv, json and other formats\n\nExamples:\n"
      "  vindex export OUT.h5 --format csv -o OUT.csv\n"
      "  vindex export OUT.h5 --format phase-json -o folder\n"
      "  vindex export OUT.h5 --format phase-json -o folder \\\n"
      "    --activations A.h5 --cka C.h5 --routing R.h5\n"
      "  vindex export R.h5 --format phase-json -o folder   routing alone\n"
      "csv and json are for every kind of results file; json has "
      "arrays too.\nParquet and Arrow files: with the Python package, vindex-spectra.");
  command.add_results("file", options->path, "Results file")->required();
  const std::vector<std::string> formats = report::export_formats();
  command.add_value("--format", options->format, fmt::format("{}", fmt::join(formats, ", ")))
      ->required()
      ->check(CLI::Validator(
          [](std::string& format) {
            report::refuse_python_format(format);
            return std::string();
          },
          ""))
      ->check(CLI::IsMember(formats));
  command
      .add_output("-o,--output", options->target, "export",
                  "File or folder to write (-: standard output)")
      ->required();
  command.add_value("--table", options->table, "matrix, imatrix or product (csv and json)")
      ->check(CLI::IsMember({"matrix", "imatrix", "product"}))
      ->capture_default_str();
  const char* const kJoined = "phase-json: of the same model";
  command.add_results("--activations", options->others.activations,
                      fmt::format("File of `vindex activations` for C1 to C4 ({})", kJoined));
  command.add_results("--cka", options->others.cka,
                      fmt::format("File of `vindex cka` for C5 ({})", kJoined));
  command.add_results("--routing", options->others.routing,
                      fmt::format("File of `vindex routing` for phase 3 ({})", kJoined));
  add_force(command, options->force, "Replace files that are there (never a results file)");
  command.runs(session, [&session, options] {
    const std::string note = report::export_file(options->path, options->format, options->target,
                                                 options->force, options->table, options->others);
    if (!note.empty()) {
      say(session, note);
    }
    return Ending();
  });
}

}  // namespace vindex::apps
