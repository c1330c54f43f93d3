// Owns refusing a place for a report, and writing the report there.
#include "report_file.hpp"

#include "apps/console/terminal.hpp"
#include "apps/process/session.hpp"
#include "core/files/output_sink.hpp"
#include "core/files/path_kind.hpp"
#include "core/text/text_table.hpp"
#include "engine/run/opening.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <span>
#include <unistd.h>
#include <utility>

namespace vindex::apps {

std::string cost_line(const std::string& model, const std::string& changed, std::size_t columns) {
  return wrapped_text(fmt::format("what it cost: vindex trace {} --ids FILE --against {}",
                                  printable(model), printable(changed)),
                      columns, 2) +
         "\n";
}

ReportFile::ReportFile(std::string path, std::string_view schema,
                       std::initializer_list<std::string> outputs)
    : path_(std::move(path)), schema_(schema) {
  for (const std::string& output : outputs) {
    if (!output.empty() && !path_.empty() && path_ != "-" && is_same_place(output, path_)) {
      throw UsageError("E-USAGE", fmt::format("--report {} is another output of this command too",
                                              printable(path_)));
    }
  }
  require_place();
}

void ReportFile::require_place() const {
  const PathKind kind = path_.empty() || path_ == "-" ? PathKind::kAbsent : path_kind(path_);
  if (kind == PathKind::kAbsent) {
    return;
  }
  const std::string begin = fmt::format("{{\n  \"schema\": \"{}\"", schema_);
  std::string there(begin.size(), '\0');
  if (kind == PathKind::kFile) {
    there = engine::beginning_of_file(path_, begin.size());
  }
  if (there != begin) {
    throw OutputError("E-OUTPUT-EXISTS",
                      fmt::format("{} exists and is not a report of {}; choose another name for "
                                  "--report",
                                  printable(path_), schema_));
  }
}

void ReportFile::report(const Session& session, bool is_json,
                        const std::function<std::string()>& json,
                        const std::function<std::string(std::size_t columns)>& text) const {
  const std::string document = is_json || !path_.empty() ? json() : std::string();
  if (!path_.empty()) {
    require_place();
    OutputSink sink(path_);
    sink.write(std::as_bytes(std::span(document)));
    sink.commit();
  }
  if (is_json) {
    print_result(document);
  } else if (!session.quiet) {
    print_result(text(text_width(STDOUT_FILENO)));
  }
}

}  // namespace vindex::apps
