// Owns how what a user names becomes a store. A model, an adapter, an importance matrix, captured
// activations, every array and tokenizer is named by an address: a local path, or SCHEME://... .
// A scheme is one source file and one line of the list in open_store.cpp.
#pragma once
#include "prefetching_store.hpp"
#include "retrying_store.hpp"

#include "input/model_store.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace vindex::input {

/// How often a scheme's stores are asked again and how far they are read ahead.
struct StoreWrapping {
  RetryPolicy retry;
  PrefetchPolicy prefetch;
  std::function<void(double seconds)> sleep;  ///< between attempts; empty: until a stop at most
};

/// A way to name stores. What open(address).location(member) gives is an address of the scheme too:
/// it opens that member.
struct StoreScheme {
  std::string name;  ///< of addresses "NAME://..."
  /// `stop` ends what the store and its sources wait for, with Stopped. Errors: UsageError
  /// E-REMOTE-ADDRESS (64) where the address is malformed; those of ModelStore.
  std::function<std::shared_ptr<ModelStore>(const std::string& address,
                                            const std::stop_token& stop)>
      open;
  /// Of a store that pays for every request with a round trip; nothing: it is used as it is.
  std::optional<StoreWrapping> wrapping;
};

/// A scheme beside those of the program, for as long as this lives: for tests, and programs with
/// stores of their own. Thread-safe. It may not have the name of another.
class ScopedStoreScheme {
 public:
  explicit ScopedStoreScheme(StoreScheme scheme);
  ~ScopedStoreScheme();
  ScopedStoreScheme(const ScopedStoreScheme&) = delete;
  ScopedStoreScheme& operator=(const ScopedStoreScheme&) = delete;

 private:
  std::string name_;
};

/// The store that `address` means, wrapped as its scheme says. Of a folder its members, where it is
/// a repository of a Hugging Face cache those of its one snapshot; of a file it and what lies
/// beside it. Errors: those of StoreScheme::open(); UsageError E-REMOTE-ADDRESS (64) for a scheme
/// that is not known; MissingInputError E-FOLDER-EMPTY for a repository without a snapshot,
/// FormatError E-FOLDER-SEVERAL listing several; a file is looked for when it is opened. Once
/// `stop` is requested, every call of a remote store and of its sources, those under way too, ends
/// with Stopped (core/process/stop.hpp), however long the server keeps it waiting.
std::shared_ptr<ModelStore> open_store(const std::string& address,
                                       const std::stop_token& stop = {});

/// The one file that `address` names. Errors: as above; MissingInputError (66) where it is absent
/// or a folder; those of ModelStore::open().
std::unique_ptr<ByteSource> open_input(const std::string& address,
                                       const std::stop_token& stop = {});

/// The path that a local address means, for questions of places on this machine: what has no
/// scheme as it is, of file:// the path behind it; nothing for every other scheme. Errors:
/// UsageError E-REMOTE-ADDRESS (64) for a file:// address that is malformed.
std::optional<std::string> local_path(const std::string& address);

}  // namespace vindex::input
