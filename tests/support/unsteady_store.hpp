// Owns a store of files in memory that counts its requests and is as slow, lying and short-lived as
// a test wants: every request passes a hook that may wait or throw, every answer one that may
// change it.
#pragma once

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/shard/model_store.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

/// Thread-safe, hooks too where they are called from several threads.
class UnsteadyStore final : public shard::ModelStore {
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

  explicit UnsteadyStore(std::string file = {}) { shared_->file = std::move(file); }

  /// Set before the store is used.
  void before(std::function<void(const Request&)> hook) { shared_->before = std::move(hook); }
  void after(std::function<void(const Request&, std::span<std::byte>)> hook) {
    shared_->after = std::move(hook);
  }

  void put(const std::string& name, std::string bytes) {
    shared_->files[name].bytes = std::move(bytes);
  }
  File& at(const std::string& name) { return shared_->files.at(name); }
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

  const std::string& address() const override { return shared_->address; }
  const std::string& file() const override { return shared_->file; }
  std::string location(std::string_view name) const override {
    return shared_->address + (name.empty() ? "" : "/") + std::string(name);
  }
  std::vector<shard::StoreMember> list() override {
    shared_->pass({.kind = Kind::kList, .name = {}});
    std::vector<shard::StoreMember> members;
    for (const auto& [name, file] : shared_->files) {
      members.push_back({name, false});
    }
    return members;
  }
  shard::MemberState state(std::string_view name) override {
    shared_->pass({.kind = Kind::kState, .name = std::string(name)});
    shard::MemberState out;
    if (shared_->files.contains(std::string(name))) {
      out.presence = shard::MemberState::Presence::kPresent;
    }
    return out;
  }

 private:
  struct Shared {
    std::string address = "store://model";
    std::string file;
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
    shard::SourceIdentity identity_of(const std::string& name) const {
      const std::lock_guard lock(mutex);
      const File& known = files.at(name);
      return {size_of(known), known.version};
    }
    static std::uint64_t size_of(const File& file) {
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(file.bytes.size()) + file.lie);
    }
  };

  class Source final : public shard::ByteSource {
   public:
    Source(std::shared_ptr<Shared> shared, std::string member)
        : shared_(std::move(shared)),
          member_(std::move(member)),
          name_(shared_->address + "/" + member_),
          opened_(shared_->identity_of(member_)) {}
    const std::string& name() const override { return name_; }
    std::uint64_t size() const override { return opened_.bytes; }
    shard::SourceIdentity identity() const override {
      shared_->pass({.kind = Kind::kIdentity, .name = member_});
      return shared_->identity_of(member_);
    }
    shard::SourceIdentity identity_at_opening() const override { return opened_; }
    void read_many(std::span<const shard::ReadRequest> requests) override {
      for (const shard::ReadRequest& request : requests) {
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
    shard::SourceIdentity opened_;
  };

  std::unique_ptr<shard::ByteSource> open_member(std::string_view name) override {
    shared_->pass({.kind = Kind::kOpen, .name = std::string(name)});
    if (!shared_->files.contains(std::string(name))) {
      throw MissingInputError("E-FILE-MISSING", location(name) + ": no such file");
    }
    return std::make_unique<Source>(shared_, std::string(name));
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

/// What a busy server answers.
[[noreturn]] inline void throw_busy(const std::string& name) {
  throw RemoteError("E-REMOTE-BUSY", name + ": the server answers 503", true);
}

}  // namespace vindex::testing
