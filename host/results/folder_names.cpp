// Owns listing a folder with every failure of the listing an error.
#include "folder_names.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <memory>

namespace vindex::results {

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
