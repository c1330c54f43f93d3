// Owns checking an output's path, joining the history of a file that is replaced, and listing
// folders.
#include "output_path.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "results/reading/results_reader.hpp"
#include <vindex/error.hpp>

#include <climits>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <sys/stat.h>

namespace vindex::results {

bool file_exists(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) {
    return true;
  }
  if (errno != ENOENT && errno != ENOTDIR) {  // what cannot be seen may hold results
    throw SystemError("E-RESULTS-OPEN", errno, "cannot examine " + printable(path));
  }
  return false;
}

std::string resolve_output(const std::string& path) {
  if (path.empty() || path.back() == '/') {
    throw OutputError("E-OUT-PATH", "'" + printable(path) + "' names no file");
  }
  if (path == "-") {
    throw OutputError("E-OUT-PATH",
                      "a results file does not go to standard output: name a file, and `vindex "
                      "export` writes it there");
  }
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      throw OutputError("E-OUT-PATH", printable(path) + " is a folder; name a file in it");
    }
    if (!S_ISREG(status.st_mode)) {
      throw OutputError("E-OUT-PATH", printable(path) + " is not a regular file");
    }
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr),
                                                           &std::free);
    return real ? std::string(real.get()) : path;
  }
  if (errno != ENOENT && errno != ENOTDIR) {
    throw_output_error("E-OUT-PATH", errno, "cannot examine " + printable(path));
  }
  const std::string folder = folder_of(path);
  const bool found = stat(folder.c_str(), &status) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) {
    throw_output_error("E-OUT-PATH", errno, "cannot examine folder " + printable(folder));
  }
  if (!found || !S_ISDIR(status.st_mode)) {
    throw OutputError("E-OUT-PATH", "folder " + printable(folder) + " does not exist");
  }
  return path;
}

void require_replaceable(const std::string& path, std::optional<FileSchema> schema) {
  if (!file_exists(path)) {
    return;
  }
  try {
    const ResultsReader reader(path, std::nullopt);
    if (!reader.header().part && reader.header().schema == schema.value_or(reader.schema().id)) {
      return;
    }
    if (!reader.header().part) {
      throw OutputError(
          "E-OUT-FOREIGN",
          fmt::format("{} is a file of `vindex {}`; it is not replaced by one of "
                      "`vindex {}`, choose another name",
                      printable(path), reader.schema().command, schema_of(*schema).command));
    }
  } catch (const FormatError& error) {
    if (error.id() == "E-RESULTS-VERSION") {
      throw ConfigurationError(error.id(), error.what());
    }
  }
  throw OutputError("E-OUT-FOREIGN", printable(path) +
                                         " exists and is not a readable results file; it is not "
                                         "replaced, choose another name or remove it");
}

std::string joined_history(const std::string& before, const std::string& now) {
  constexpr std::size_t kBytes = 32U << 10U;
  if (before.empty() || before == now || before.ends_with("\n" + now)) {
    return now.empty() || before.ends_with(now) ? before : now;
  }
  std::string all = before + "\n" + now;
  while (all.size() > kBytes && all.find('\n') != std::string::npos) {
    all.erase(0, all.find('\n') + 1);
  }
  return all;
}

std::int64_t number_after(const std::string& name, const std::string& prefix) {
  std::int64_t number = 0;
  if (name.starts_with(prefix)) {
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  }
  return number;
}

std::vector<std::string> names_in(const std::string& folder,
                                  const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  int error = listing || errno == ENOENT ? 0 : errno;
  while (listing && error == 0) {
    errno = 0;
    const dirent* const entry = readdir(listing.get());
    if (entry == nullptr) {
      error = errno;
      break;
    }
    if (const std::string name = entry->d_name; wanted(name)) {
      names.push_back(name);
    }
  }
  if (error != 0) {
    throw SystemError("E-PART-FOLDER", error, "cannot list " + printable(folder));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace vindex::results
