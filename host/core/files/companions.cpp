// Owns the list of places where a companion may lie, nearest first, and the search through it.
#include "companions.hpp"

#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace vindex {

namespace {

/// The folder of the library that this code is part of, where it is part of one, and the program's.
std::vector<std::filesystem::path> own_folders() {
  std::error_code ignored;
  std::vector<std::filesystem::path> folders;
  Dl_info self{};
  // Of a program the loader knows no more than argv[0].
  if (::dladdr(reinterpret_cast<const void*>(&own_folders), &self) != 0 && *self.dli_fname == '/') {
    folders.push_back(std::filesystem::canonical(self.dli_fname, ignored).parent_path());
  }
  folders.push_back(std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path());
  return folders;
}

}  // namespace

std::vector<std::string> companion_places(std::string_view name) {
  std::vector<std::string> places;
  for (const std::filesystem::path& folder : own_folders()) {
    if (!folder.empty()) {
      const std::filesystem::path above = folder.parent_path();
      for (const std::filesystem::path& place : {folder / name, above / "lib" / "vindex" / name,
                                                 above.parent_path() / "lib" / "vindex" / name}) {
        places.push_back(place.string());
      }
    }
  }
  return places;
}

std::string find_companion(std::string_view name) {
  for (const std::string& place : companion_places(name)) {
    if (::access(place.c_str(), R_OK) == 0) {
      return place;
    }
  }
  return {};
}

}  // namespace vindex
