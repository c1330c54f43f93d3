// Owns a store of files in memory that counts its requests and is as slow, lying and short-lived as
// a test wants: every request passes a hook that may wait or throw, every answer one that may
// change it. And a scheme for it, so that whatever reads an address reads such a store.
#pragma once

#include "file_content.hpp"

#include "core/integers.hpp"
#include "input/model_store.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

/// Thread-safe, hooks too where they are called from several threads.
class UnsteadyStore final : public input::ModelStore {
 public:
  enum class Kind : std::uint8_t { kList, kState, kOpen, kIdentity, kRead };
  struct Request {
    Kind kind = Kind::kList;
    std::string name;
    std::uint64_t number = 0;  ///< of its kind on this member, from 0
    std::uint64_t offset = 0;  ///< of a read
    std::uint64_t bytes = 0;
  };
  struct File {
    std::string bytes;
    std::string version = "one";
    std::int64_t lie = 0;  ///< added to the size that is told
  };

  explicit UnsteadyStore(std::string file = {}, const std::string& address = "store://model")
      : file_(std::move(file)) {
    shared_->address = address;
    address_ = file_.empty() ? address : location(file_);
  }

  /// The same files, counts and hooks, seen from what `path` names among them: a file in its
  /// folder, else a folder.
  std::shared_ptr<UnsteadyStore> at_path(const std::string& path) const {
    auto view = std::make_shared<UnsteadyStore>(*this);
    const bool is_file = shared_->files.contains(path);
    const std::size_t slash = path.rfind('/');
    const std::size_t cut = slash == std::string::npos ? 0 : slash + 1;
    view->folder_ = is_file ? path.substr(0, cut) : path.empty() ? path : path + "/";
    view->file_ = is_file ? path.substr(cut) : std::string();
    view->address_ = shared_->address + (path.empty() ? "" : "/") + path;
    return view;
  }

  /// Set before the store is used.
  void before(std::function<void(const Request&)> hook) { shared_->before = std::move(hook); }
  void after(std::function<void(const Request&, std::span<std::byte>)> hook) {
    shared_->after = std::move(hook);
  }

  void put(const std::string& name, std::string bytes) {
    shared_->files[name].bytes = std::move(bytes);
  }
  /// Every file at or below `folder`, by its path from there.
  void put_all(const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        put(entry.path().lexically_relative(folder).string(), file_text(entry.path()));
      }
    }
  }
  File& at(const std::string& name) { return shared_->files.at(name); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, file] : shared_->files) {
      names.push_back(name);
    }
    return names;
  }
  void set_version(const std::string& name, const std::string& version) {
    const std::lock_guard lock(shared_->mutex);
    shared_->files.at(name).version = version;
  }
  /// Requests of `kind` on `name`; on every member where it is empty.
  std::uint64_t count(Kind kind, const std::string& name = {}) const {
    const std::lock_guard lock(shared_->mutex);
    std::uint64_t sum = 0;
    for (const auto& [key, requests] : shared_->counts) {
      sum += key.first == kind && (name.empty() || key.second == name) ? requests : 0;
    }
    return sum;
  }

  const std::string& address() const override { return address_; }
  const std::string& file() const override { return file_; }
  std::string location(std::string_view name) const override {
    const std::string path = folder_ + std::string(name);
    const std::string folder = path.substr(0, path.find_last_not_of('/') + 1);
    return shared_->address + (folder.empty() ? "" : "/") + folder;
  }
  std::vector<input::StoreMember> list() override {
    shared_->pass({.kind = Kind::kList, .name = {}});
    std::set<std::pair<std::string, bool>> seen;
    for (const auto& [path, file] : shared_->files) {
      if (path.starts_with(folder_)) {
        const std::string rest = path.substr(folder_.size());
        const std::size_t slash = rest.find('/');
        seen.emplace(rest.substr(0, slash), slash != std::string::npos);
      }
    }
    std::vector<input::StoreMember> members;
    for (const auto& [name, is_folder] : seen) {
      members.push_back({name, is_folder});
    }
    return members;
  }
  input::MemberState state(std::string_view name) override {
    const std::string path = folder_ + std::string(name);
    shared_->pass({.kind = Kind::kState, .name = path});
    input::MemberState out;
    if (shared_->files.contains(path)) {
      out.presence = input::MemberState::Presence::kPresent;
    }
    return out;
  }

 private:
  struct Shared {
    std::string address;  ///< of all of it
    std::map<std::string, File> files;
    std::function<void(const Request&)> before;
    std::function<void(const Request&, std::span<std::byte>)> after;
    mutable std::mutex mutex;
    std::map<std::pair<Kind, std::string>, std::uint64_t> counts;

    Request pass(Request request) {
      {
        const std::lock_guard lock(mutex);
        request.number = counts[{request.kind, request.name}]++;
      }
      if (before) {
        before(request);
      }
      return request;
    }
    SourceIdentity identity_of(const std::string& name) const {
      const std::lock_guard lock(mutex);
      const File& known = files.at(name);
      return {size_of(known), known.version};
    }
    static std::uint64_t size_of(const File& file) {
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(file.bytes.size()) + file.lie);
    }
  };

  class Source final : public ByteSource {
   public:
    Source(std::shared_ptr<Shared> shared, std::string member)
        : shared_(std::move(shared)),
          member_(std::move(member)),
          name_(shared_->address + "/" + member_),
          opened_(shared_->identity_of(member_)) {}
    const std::string& name() const override { return name_; }
    std::uint64_t size() const override { return opened_.bytes; }
    SourceIdentity identity() const override {
      shared_->pass({.kind = Kind::kIdentity, .name = member_});
      return shared_->identity_of(member_);
    }
    SourceIdentity identity_at_opening() const override { return opened_; }
    void read_many(std::span<const ReadRequest> requests) override {
      for (const ReadRequest& request : requests) {
        const Request passed = shared_->pass({.kind = Kind::kRead,
                                              .name = member_,
                                              .offset = request.offset,
                                              .bytes = request.into.size()});
        const std::string& bytes = shared_->files.at(member_).bytes;
        const auto end = checked_add(request.offset, request.into.size());
        if (!end || *end > bytes.size()) {
          throw FormatError("E-TRUNCATED", name_, "the store has no such bytes");
        }
        std::memcpy(request.into.data(), bytes.data() + request.offset, request.into.size());
        if (shared_->after) {
          shared_->after(passed, request.into);
        }
      }
    }

   private:
    std::shared_ptr<Shared> shared_;
    std::string member_;
    std::string name_;
    SourceIdentity opened_;
  };

  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    const std::string path = folder_ + std::string(name);
    shared_->pass({.kind = Kind::kOpen, .name = path});
    if (!shared_->files.contains(path)) {
      throw MissingInputError("E-FILE-MISSING", location(name) + ": no such file");
    }
    return std::make_unique<Source>(shared_, path);
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::string folder_;  ///< within it, with the slash at its end; empty: all of it
  std::string file_;
  std::string address_;
};

/// The scheme unsteady://PATH of one store, for as long as this lives, wrapped as a remote one is;
/// between attempts nothing waits.
class UnsteadyScheme {
 public:
  static constexpr const char* kRoot = "unsteady://";
  explicit UnsteadyScheme(std::int32_t attempts = 4) { set_attempts(attempts); }

  void set_attempts(std::int32_t attempts) {
    scheme_.reset();
    scheme_.emplace(input::StoreScheme{
        .name = "unsteady",
        .open = [this](const std::string& address,
                       const std::stop_token& /*stop*/) -> std::shared_ptr<input::ModelStore> {
          const std::size_t slash = address.find('/', std::string(kRoot).size());
          return store_->at_path(slash == std::string::npos ? std::string()
                                                            : address.substr(slash + 1));
        },
        .wrapping = input::StoreWrapping{.retry = {.attempts = attempts},
                                         .prefetch = {},
                                         .sleep = [this](double) { ++waits_; }}});
  }
  UnsteadyStore& store() { return *store_; }
  int waits() const { return waits_; }
  /// The address of what lies at `path` in the store.
  static std::string address(const std::string& path) {
    return std::string(kRoot) + "m" + (path.empty() ? "" : "/") + path;
  }

 private:
  std::shared_ptr<UnsteadyStore> store_ =
      std::make_shared<UnsteadyStore>(std::string(), address({}));
  std::atomic<int> waits_{0};
  std::optional<input::ScopedStoreScheme> scheme_;
};

/// What a busy server answers.
[[noreturn]] inline void throw_busy(const std::string& name) {
  throw RemoteError("E-REMOTE-BUSY", name + ": the server answers 503", true);
}

}  // namespace vindex::testing
