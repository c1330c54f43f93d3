// Owns refusing names that lead out of the folder.
#include <vindex/core/error.hpp>
#include <vindex/shard/model_store.hpp>

namespace vindex::shard {

namespace {
/// One component of a path that leads nowhere else. A backslash is a letter to Linux.
bool stays_inside(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}
}  // namespace

std::unique_ptr<ByteSource> ModelStore::open(std::string_view name) {
  // The file that the user named is opened as it was named.
  if (name != file() && !stays_inside(name)) {
    throw FormatError("E-STORE-NAME", printable(location({})),
                      "\"" + excerpt(name) + "\" is not a name of a file in this folder");
  }
  return open_member(name);
}

}  // namespace vindex::shard
