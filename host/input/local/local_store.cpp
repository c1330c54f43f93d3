// A local folder as a store: which of its members may be opened. They may be links; in a Hugging
// Face cache they lead to its blobs, elsewhere it is worth a word. And the addresses file://.
#include "local_store.hpp"

#include "file_source.hpp"

#include "core/digest.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/reading_bounds.hpp"
#include "core/text/secrets.hpp"
#include "input/model_store.hpp"
#include "input/shard_list.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace vindex::input {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestFileName = 255;  // of every file system of Linux

/// In a Hugging Face cache, `snapshots/<revision>/<file>` links to `blobs/<hash>` of the same
/// repository folder `models--<organisation>--<name>`.
bool is_cache_blob(const fs::path& folder, const fs::path& target) {
  const fs::path blobs = target.parent_path();
  if (blobs.filename() != "blobs") {
    return false;
  }
  const bool same_repository = folder.parent_path().filename() == "snapshots" &&
                               folder.parent_path().parent_path() == blobs.parent_path();
  return same_repository || blobs.parent_path().filename().string().starts_with("models--");
}

bool is_inside(const fs::path& folder, const fs::path& target) {
  const auto [mismatch, unused] =
      std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  return mismatch == folder.end();
}

bool says_absent(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
         error == std::errc::too_many_symbolic_link_levels || error == std::errc::filename_too_long;
}

[[noreturn]] void throw_unresolved(const fs::path& path, const std::error_code& error) {
  throw SystemError("E-OPEN", error.value(),
                    fmt::format("cannot resolve {}", printable(path.string())));
}

/// What lies in `folder`, links not followed. Errors: SystemError E-FOLDER-READ.
std::vector<StoreMember> members_of(const fs::path& folder) {
  std::vector<StoreMember> members;
  std::error_code error;
  fs::directory_iterator member(folder, error);
  while (!error && member != fs::directory_iterator()) {
    // Asks the system where the listing does not tell kinds.
    const bool is_link = member->is_symlink(error);
    const bool is_folder = !error && !is_link && member->is_directory(error);
    if (error && !says_absent(error)) {
      break;
    }
    members.push_back({member->path().filename().string(), is_folder});
    error.clear();
    member.increment(error);
  }
  if (error) {
    throw SystemError("E-FOLDER-READ", error.value(),
                      fmt::format("cannot list {}", printable(folder.string())));
  }
  return members;
}

/// Where `folder` is a repository of a Hugging Face cache (`models--<organisation>--<name>`), the
/// folder of its one snapshot; else empty.
std::string snapshot_of_cache(const std::string& folder) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error && !says_absent(error)) {
    throw_unresolved(folder, error);
  }
  const fs::path snapshots = root / "snapshots";
  if (!root.filename().string().starts_with("models--") || !is_folder(snapshots)) {
    return std::string();
  }
  std::vector<std::string> revisions;
  for (const StoreMember& member : members_of(snapshots)) {
    if (is_folder(snapshots / member.name)) {
      revisions.push_back(member.name);
    }
  }
  std::sort(revisions.begin(), revisions.end());
  const fs::path given = fs::path(folder) / "snapshots";
  if (revisions.empty()) {
    throw MissingInputError("E-FOLDER-EMPTY",
                            fmt::format("{}: a folder of the Hugging Face cache without a "
                                        "snapshot: fetch the model",
                                        printable(folder)));
  }
  if (revisions.size() > 1) {
    throw FormatError("E-FOLDER-SEVERAL", printable(given.string()),
                      fmt::format("several snapshots lie here, give the folder of one of them: {}",
                                  join_names(revisions)));
  }
  return (given / revisions.front()).string();
}

class LocalStore final : public ModelStore {
 public:
  LocalStore(std::string address, std::string folder, std::string file)
      : address_(std::move(address)), folder_(std::move(folder)), file_(std::move(file)) {}

  const std::string& address() const override { return address_; }
  const std::string& file() const override { return file_; }

  std::string location(std::string_view name) const override {
    if (name.empty()) {
      return folder_;
    }
    return name == file_ ? address_ : (fs::path(folder_) / name).string();
  }

  std::vector<StoreMember> list() override { return members_of(folder_); }

  MemberState state(std::string_view name) override {
    MemberState out;
    if (name.size() > kLongestFileName) {
      return out;  // before any path is built: the name may have 100 MB
    }
    const fs::path path = location(name);
    std::error_code error;
    const fs::file_status itself = fs::symlink_status(path, error);
    if (itself.type() == fs::file_type::not_found) {
      return out;
    }
    expect_readable_place(path.string());
    fs::path target = path;
    if (!error && itself.type() == fs::file_type::symlink) {
      target = fs::canonical(path, error);
    }
    if (error && says_absent(error)) {
      out.presence = MemberState::Presence::kDangling;
      out.link_target = fs::read_symlink(path, error).string();
      return out;
    }
    if (error) {
      throw_unresolved(path, error);
    }
    out.presence = MemberState::Presence::kPresent;
    if (itself.type() == fs::file_type::symlink) {
      const fs::path home = fs::canonical(folder_, error);
      if (!error && !is_inside(home, target) && !is_cache_blob(home, target)) {
        out.foreign_folder = target.parent_path().string();
      }
    }
    return out;
  }

  /// Large files of a Hugging Face cache are blobs named by theirs.
  std::string published_sha256(std::string_view name) override {
    std::error_code error;
    const fs::path target = fs::canonical(location(name), error);
    const std::string blob = target.filename().string();
    return !error && target.parent_path().filename() == "blobs" && is_sha256(blob) ? blob
                                                                                   : std::string();
  }

 private:
  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    return open_file_source(location(name));
  }

  std::string address_;
  std::string folder_;
  std::string file_;
};

}  // namespace

std::shared_ptr<ModelStore> open_local_store(const std::string& path) {
  expect_readable_place(path);
  if (is_folder(path)) {
    const std::string snapshot = snapshot_of_cache(path);
    return std::make_shared<LocalStore>(path, snapshot.empty() ? path : snapshot, std::string());
  }
  const fs::path whole(path);
  const std::string folder = whole.parent_path().string();
  // "absent/" and "" name no file and lead to none: the path itself is what is looked for.
  const std::string file = whole.filename().empty() ? path : whole.filename().string();
  return std::make_shared<LocalStore>(path, folder.empty() ? "." : folder,
                                      file.empty() ? "." : file);
}

std::string path_of_file_address(const std::string& address) {
  const auto refuse = [&](const char* fault) {
    throw UsageError(
        "E-REMOTE-ADDRESS",
        fmt::format("{}: {}; the form is file:///PATH, where %20 is a space and %25 a %",
                    excerpt(address_without_secrets(address)), fault));
  };
  const std::size_t host = address.find("://") + 3;
  const std::size_t begin = std::min(address.find('/', host), address.size());
  if (const auto name = address.substr(host, begin - host); !name.empty() && name != "localhost") {
    refuse("names another machine, or a path that does not begin at the root");
  }
  std::string path;
  for (std::size_t i = begin; i < address.size(); ++i) {
    unsigned char letter = static_cast<unsigned char>(address[i]);
    if (letter <= 0x20 || letter == 0x7F || letter == '?' || letter == '#') {
      refuse("a space, a control character, ? or # that is not written as %XX");
    }
    if (letter == '%') {
      const char* const digits = address.c_str() + i + 1;
      const char* const end = address.c_str() + std::min(i + 3, address.size());
      if (end - digits != 2 || std::from_chars(digits, end, letter, 16).ptr != end || letter == 0) {
        refuse("a % that two hexadecimal digits do not follow");
      }
      i += 2;
    }
    path += static_cast<char>(letter);
  }
  if (path.empty()) {
    refuse("no path");
  }
  return path;
}

}  // namespace vindex::input
