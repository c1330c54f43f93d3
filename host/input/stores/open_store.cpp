// Owns the list of schemes, choosing among them, and refusing names that lead out of a store's
// folder.
#include "open_store.hpp"

#include "core/files/reading_bounds.hpp"
#include "core/process/stop.hpp"
#include "input/http/http_source.hpp"
#include "input/http/https_store.hpp"
#include "input/hub/hf_store.hpp"
#include "input/local/local_store.hpp"
#include "input/model_store.hpp"
#include "input/remote/remote_address.hpp"
#include "input/s3/s3_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::input {

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

namespace {

constexpr std::string_view kFileScheme = "file";

/// The first step of reading ahead is what came with the opening: it costs no request.
StoreWrapping over_http() {
  StoreWrapping wrapping;
  wrapping.prefetch.first_bytes = kFirstHttpBytes;
  return wrapping;
}

/// Those of the program first; what is added later, only by ScopedStoreScheme, follows.
struct SchemeList {
  std::mutex mutex;
  std::vector<StoreScheme> schemes = {{std::string(kFileScheme),
                                       [](const std::string& address, const std::stop_token&) {
                                         return open_local_store(path_of_file_address(address));
                                       },
                                       std::nullopt},
                                      {"hf", open_hf_store, over_http()},
                                      {"https", open_https_store, over_http()},
                                      {"http", open_https_store, over_http()},
                                      {"s3", open_s3_store, over_http()}};

  /// Under the mutex.
  std::vector<StoreScheme>::iterator find(std::string_view name) {
    return std::find_if(schemes.begin(), schemes.end(),
                        [&](const StoreScheme& scheme) { return scheme.name == name; });
  }
};

SchemeList& scheme_list() {
  static SchemeList list;
  return list;
}

/// A copy: opening may take long, and may open other addresses.
std::optional<StoreScheme> find_scheme(std::string_view name) {
  SchemeList& list = scheme_list();
  const std::lock_guard lock(list.mutex);
  const auto found = list.find(name);
  return found == list.schemes.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

ScopedStoreScheme::ScopedStoreScheme(StoreScheme scheme) : name_(scheme.name) {
  SchemeList& list = scheme_list();
  const std::lock_guard lock(list.mutex);
  expects(list.find(name_) == list.schemes.end(), "ScopedStoreScheme: a name of its own");
  list.schemes.push_back(std::move(scheme));
}

ScopedStoreScheme::~ScopedStoreScheme() {
  SchemeList& list = scheme_list();
  const std::lock_guard lock(list.mutex);
  list.schemes.erase(list.find(name_));
}

std::shared_ptr<ModelStore> open_store(const std::string& address, const std::stop_token& stop) {
  const auto name = scheme_of(address);
  if (!name) {
    return open_local_store(address);
  }
  const auto scheme = find_scheme(*name);
  if (!scheme) {
    throw_unknown_scheme(address);
  }
  if (reading_is_bounded() && *name != kFileScheme) {
    throw UsageError("E-READ-OUTSIDE",
                     fmt::format("{}:// is another machine: what may be read here lies in folders "
                                 "of this one",
                                 excerpt(*name)));
  }
  std::shared_ptr<ModelStore> store = scheme->open(address, stop);
  if (scheme->wrapping) {
    const auto& [retry, prefetch, sleep] = *scheme->wrapping;
    const auto wait = [stop](double seconds) { wait_or_stop(seconds, stop); };
    store = make_prefetching_store(
        make_retrying_store(std::move(store), retry, sleep ? sleep : wait), prefetch);
  }
  return store;
}

std::unique_ptr<ByteSource> open_input(const std::string& address, const std::stop_token& stop) {
  const std::shared_ptr<ModelStore> store = open_store(address, stop);
  if (store->file().empty()) {
    throw MissingInputError("E-FILE-KIND",
                            fmt::format("{} is a folder, not a file", printable(address)));
  }
  return store->open(store->file());
}

std::optional<std::string> local_path(const std::string& address) {
  const auto scheme = scheme_of(address);
  if (!scheme) {
    return address;
  }
  return *scheme == kFileScheme ? std::optional(path_of_file_address(address)) : std::nullopt;
}

}  // namespace vindex::input
