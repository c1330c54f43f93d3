// Owns hf:// as a store: one repository of the Hugging Face Hub at one commit. One request lists
// it; files that the shared cache has are read there, which is never written.
#include "hf_store.hpp"

#include "hub_environment.hpp"

#include "core/digest.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/small_file.hpp"
#include "core/json/json.hpp"
#include "input/forwarding_store.hpp"
#include "input/http/http_source.hpp"
#include "input/local/local_store.hpp"
#include "input/model_store.hpp"
#include "input/remote/remote_address.hpp"
#include "input/remote/remote_environment.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace vindex::input {

namespace {

constexpr std::size_t kLargestListing = std::size_t{64} << 20U;

bool is_commit(const std::string& text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

/// The text behind `key` of an object; empty where there is none.
std::string text_at_key(const JsonValue& object, const char* key) {
  const JsonValue* const value = object.find(key);
  const std::string* const text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? std::string() : *text;
}

class HfStore final : public ModelStore {
 public:
  HfStore(std::string address, HubAddress parts, HubEnvironment hub, const std::stop_token& stop)
      : address_(std::move(address)),
        parts_(std::move(parts)),
        hub_(std::move(hub)),
        hint_(hub_.token.empty() ? "; no token was sent: HF_TOKEN, or its file, holds one" : ""),
        client_(std::make_shared<HttpClient>(
            http_settings(), bearer_credential(origin_of(hub_.endpoint), hub_.token), stop)) {}

  const std::string& address() const override { return address_; }
  const std::string& file() const override { return parts_.file; }
  std::string location(std::string_view name) const override {
    std::string revision;
    {
      const std::lock_guard lock(mutex_);
      revision = commit_.empty() ? parts_.revision : commit_;
    }
    std::string path = parts_.folder + std::string(name);
    if (name.empty() && !path.empty()) {
      path.pop_back();
    }
    return fmt::format("hf://{}{}{}{}{}", parts_.repository, revision.empty() ? "" : "@", revision,
                       path.empty() ? "" : "/", path);
  }

  std::vector<StoreMember> list() override {
    resolve();
    std::set<std::pair<std::string, bool>> seen;
    for (const std::string& path : paths_) {
      if (path.starts_with(parts_.folder)) {
        const std::string rest = path.substr(parts_.folder.size());
        const std::size_t slash = rest.find('/');
        seen.emplace(rest.substr(0, slash), slash != std::string::npos);
      }
    }
    if (seen.empty()) {
      throw MissingInputError("E-FOLDER-EMPTY",
                              printable(location({})) + ": the repository has no such folder");
    }
    std::vector<StoreMember> members;
    for (const auto& [name, folder] : seen) {
      members.push_back({name, folder});
    }
    return members;
  }

  std::string revision() const override {
    const std::lock_guard lock(mutex_);
    return commit_;
  }

  MemberState state(std::string_view name) override {
    resolve();
    MemberState out;
    if (paths_.contains(parts_.folder + std::string(name))) {
      out.presence = MemberState::Presence::kPresent;
    }
    return out;
  }

  /// Of what the Hub keeps as LFS objects, by one more request for all of them.
  std::string published_sha256(std::string_view name) override {
    resolve();
    const std::lock_guard resolving(resolving_);
    if (!digests_) {
      std::map<std::string, std::string> digests;
      const JsonValue answer = ask_hub(commit_ + "?blobs=true");
      for (const JsonValue& sibling : siblings_of(answer)) {
        const JsonValue* const object = sibling.find("lfs");
        const std::string digest =
            object == nullptr ? std::string() : text_at_key(*object, "sha256");
        if (is_sha256(digest)) {
          digests.emplace(text_at_key(sibling, "rfilename"), digest);
        }
      }
      digests_ = std::move(digests);
    }
    const auto found = digests_->find(parts_.folder + std::string(name));
    return found == digests_->end() ? std::string() : found->second;
  }

 private:
  /// What the revision means, once for the life of the store: all files are of one commit.
  void resolve() {
    const std::lock_guard resolving(resolving_);
    if (!commit_.empty()) {
      return;
    }
    const std::string revision = parts_.revision.empty() ? "main" : parts_.revision;
    const JsonValue answer = ask_hub(percent_encoded(revision));
    const JsonValue* const sha = answer.find("sha");
    if (sha == nullptr || sha->as_string() == nullptr || !is_commit(*sha->as_string())) {
      throw RemoteError("E-REMOTE-ANSWER", shown() + ": the Hub's answer names no commit", false);
    }
    for (const JsonValue& sibling : siblings_of(answer)) {
      if (const std::string path = text_at_key(sibling, "rfilename"); !path.empty()) {
        paths_.insert(path);
      }
    }
    const std::lock_guard lock(mutex_);
    commit_ = *sha->as_string();
  }

  /// What the Hub says of the repository at `revision`, its files among it.
  JsonValue ask_hub(const std::string& revision) {
    const std::string text =
        http_text(*client_,
                  {.url = fmt::format("{}/api/models/{}/revision/{}", hub_.endpoint,
                                      percent_encoded_path(parts_.repository), revision),
                   .name = shown(),
                   .revision = {},
                   .hint = hint_},
                  kLargestListing);
    JsonLimits limits;
    limits.bytes = kLargestListing;
    limits.depth = 64;
    return parse_json(text, shown(), limits);
  }

  const std::vector<JsonValue>& siblings_of(const JsonValue& answer) const {
    const JsonValue* const siblings = answer.find("siblings");
    if (siblings == nullptr || siblings->as_array() == nullptr) {
      throw RemoteError("E-REMOTE-ANSWER", shown() + ": the Hub's answer names no files", false);
    }
    return *siblings->as_array();
  }

  std::string shown() const { return printable(location({})); }

  std::unique_ptr<ByteSource> open_member(std::string_view name) override {
    resolve();
    const std::string path = parts_.folder + std::string(name);
    const std::string shown = printable(location(name));
    if (!paths_.contains(path)) {
      throw MissingInputError("E-FILE-MISSING", shown + ": the repository has no such file");
    }
    const std::string cached =
        hub_.cache.empty() ? std::string() : hub_snapshot(hub_.cache, parts_.repository, commit_);
    std::error_code error;
    if (!cached.empty() && std::filesystem::is_regular_file(cached + "/" + path, error)) {
      const auto local = open_local_store(cached + "/" + path);
      return local->open(local->file());
    }
    return open_http_source(client_, {.url = fmt::format("{}/{}/resolve/{}/{}", hub_.endpoint,
                                                         percent_encoded_path(parts_.repository),
                                                         commit_, percent_encoded_path(path)),
                                      .name = shown,
                                      .revision = commit_});
  }

 public:
  /// The folder of a commit in a cache.
  static std::string hub_snapshot(const std::string& cache, const std::string& repository,
                                  const std::string& commit) {
    return hub_folder(cache, repository) + "/snapshots/" + commit;
  }
  static std::string hub_folder(const std::string& cache, const std::string& repository) {
    const std::size_t slash = repository.find('/');
    return cache + "/models--" + repository.substr(0, slash) + "--" + repository.substr(slash + 1);
  }

 private:
  std::string address_;
  HubAddress parts_;
  HubEnvironment hub_;
  std::string hint_;  ///< what a denied request may lack
  std::shared_ptr<HttpClient> client_;
  std::mutex resolving_;
  mutable std::mutex mutex_;
  std::string commit_;           ///< written under both
  std::set<std::string> paths_;  ///< of the whole repository; not changed once commit_ is known
  std::optional<std::map<std::string, std::string>> digests_;  ///< by path; under resolving_
};

/// A snapshot of the cache: of one commit, wherever it lies.
class SnapshotStore final : public ForwardingStore {
 public:
  SnapshotStore(std::shared_ptr<ModelStore> local, std::string commit)
      : ForwardingStore(std::move(local)), commit_(std::move(commit)) {}
  std::string revision() const override { return commit_; }

 private:
  std::string commit_;
};

/// Without a request: what the cache has of the revision.
std::shared_ptr<ModelStore> open_cached(const std::string& address, const HubAddress& parts,
                                        const HubEnvironment& hub) {
  const std::string folder = HfStore::hub_folder(hub.cache, parts.repository);
  const std::string revision = parts.revision.empty() ? "main" : parts.revision;
  std::string commit = revision;
  if (!is_commit(commit)) {
    commit = trimmed(read_small_file(folder + "/refs/" + revision));
  }
  const std::string snapshot = folder + "/snapshots/" + commit;
  if (hub.cache.empty() || !is_commit(commit) || !is_folder(snapshot)) {
    throw MissingInputError(
        "E-FOLDER-EMPTY",
        fmt::format("{}: not in the cache {}, and HF_HUB_OFFLINE forbids to ask the Hub",
                    printable(address), printable(hub.cache)));
  }
  return std::make_shared<SnapshotStore>(
      open_local_store(snapshot + "/" + parts.folder + parts.file), commit);
}

}  // namespace

std::shared_ptr<ModelStore> open_hf_store(const std::string& address, const std::stop_token& stop) {
  HubAddress parts = hub_address(address);
  HubEnvironment hub = hub_environment();
  if (hub.offline) {
    return open_cached(address, parts, hub);
  }
  return std::make_shared<HfStore>(address, std::move(parts), std::move(hub), stop);
}

}  // namespace vindex::input
