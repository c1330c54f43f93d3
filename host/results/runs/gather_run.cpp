// Owns gathering the rows of a run whose files go together.
#include "gather_run.hpp"

#include <vindex/error.hpp>

#include <optional>
#include <vector>

namespace vindex::results {

const std::string& describing_file(const std::string& path, const RunFiles& run) {
  return run.has_file             ? path
         : run.files.runs.empty() ? run.files.parts.front()
                                  : run.files.runs.front();
}

std::string state_of(const RunFiles& run, std::span<const StoredRow* const> rows) {
  const bool has_all = count_statuses(rows).skipped == 0;
  if (run.has_file) {
    return has_all ? "complete" : "partial";
  }
  return has_all ? "finished" : "running";
}

FileSchema gather_run(const std::string& path, const RunFiles& run, GatheredRows& gathered,
                      std::optional<FileSchema> wanted) {
  // First, so that what is no results file is refused as itself.
  std::optional<ResultsReader> first;
  if (run.has_file && first.emplace(path, wanted).header().part) {
    throw UsageError("E-RESULTS-PART",
                     printable(path) +
                         " is a part of a run; name the results file beside its folder, or merge "
                         "it first");
  }
  std::vector<std::string> files = run.files.runs;
  if (run.has_file) {
    files.push_back(path);
  }
  files.insert(files.end(), run.files.parts.begin(), run.files.parts.end());
  if (!first || files.front() != path) {
    first.emplace(files.front(), wanted);
  }
  const FileSchema schema = first->header().schema;
  Fingerprint fingerprint = first->fingerprint();
  first.reset();
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i > 0) {
      const Fingerprint found = ResultsReader(files[i], schema).fingerprint();
      require_same_fingerprint(fingerprint, found, files[i],
                               "its rows and those beside it do not go together");
      keep_derived_lines(fingerprint, found);
    }
    gathered.add_file(files[i]);
  }
  return schema;
}

}  // namespace vindex::results
