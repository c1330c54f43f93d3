// Owns comparing with what is on disk, and removing it.
#include "earlier_run.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "results/parts/output_path.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/parts/share_record.hpp"
#include "results/reading/results_reader.hpp"
#include <vindex/error.hpp>

#include <cerrno>
#include <sys/stat.h>

namespace vindex::results {

void require_same_run(const std::string& path, const std::string& folder,
                      const FileDescription& description) {
  const auto check = [&](const std::string& file) {
    const ResultsReader reader(file, description.schema);
    require_same_fingerprint(description.fingerprint, reader.fingerprint(), file,
                             "use --restart to discard it, or another output name");
  };
  try {
    if (file_exists(path)) {
      check(path);
    }
    for (const std::string& file : list_parts(folder).runs) {
      check(file);
    }
  } catch (const FormatError& error) {
    if (error.id() == "E-RESULTS-VERSION" || error.id() == "E-RESULTS-KIND") {
      throw ConfigurationError(error.id(), error.what());
    }
    throw;
  }
}

void make_parts_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) == 0) {
    return;
  }
  if (errno != EEXIST) {
    throw_output_error("E-OUT-CREATE", errno, "cannot create folder " + printable(folder));
  }
  if (!is_folder(folder)) {
    throw OutputError("E-OUT-CREATE", printable(folder) + " is in the way: not a folder");
  }
}

void discard_run(const std::string& path, const std::string& folder) {
  remove_file(path);
  const PartFiles files = list_parts(folder);
  for (const std::vector<std::string>* list : {&files.parts, &files.runs}) {
    for (const std::string& file : *list) {
      remove_file(file);
    }
  }
  remove_records(folder);
}

}  // namespace vindex::results
