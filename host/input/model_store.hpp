// Owns where the files of a model come from: a store lists the members of one folder and opens
// them. A local folder is one; what lies on another machine, and the unsteady store of the tests,
// are others. open_store.hpp opens them. Names are plain: a store never leads out of its folder by
// the text of a name.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::input {

/// What a listing says of a member.
struct StoreMember {
  std::string name;
  bool folder = false;  ///< a folder itself; a link to one counts as a file until it is opened
};

/// What opening a member would meet.
struct MemberState {
  enum class Presence : std::uint8_t {
    kAbsent,
    kDangling,  ///< a link to nothing or in a circle
    kPresent
  };
  Presence presence = Presence::kAbsent;
  std::string link_target;     ///< of a dangling link, as it says
  std::string foreign_folder;  ///< where it is a link out of the store: the folder led to
};

/// Thread-safe. Sources keep what they need of their store and may outlive it. Errors: SystemError
/// for a local store, RemoteError for one on another machine.
class ModelStore {
 public:
  virtual ~ModelStore() = default;
  /// As the user gave it.
  virtual const std::string& address() const = 0;
  /// The member that the address names; empty where it names the folder.
  virtual const std::string& file() const = 0;
  /// The path or address of a member, or of the folder itself where `name` is empty: for messages
  /// and for what results say of their inputs.
  virtual std::string location(std::string_view name) const = 0;
  /// Every member, in any order. Errors: as above, where the folder cannot be listed.
  virtual std::vector<StoreMember> list() = 0;
  /// Errors: as above, where it cannot be determined.
  virtual MemberState state(std::string_view name) = 0;
  /// SHA-256 of a member as whoever publishes it states it, lower-case hexadecimal; empty where
  /// nobody does. Errors: as above.
  virtual std::string published_sha256(std::string_view /*name*/) { return std::string(); }
  /// What all members are of, where the store is of one version for ever (a commit); else empty,
  /// and every file has a version of its own. Known once anything was opened or listed.
  virtual std::string revision() const { return {}; }
  /// Members that should be opened at once; 0: as many as there are cores. A store that pays for
  /// every request with a round trip wants more.
  virtual std::int32_t parallel_opens() const { return 0; }

  /// Opens a member; its size is known then. Errors: FormatError E-STORE-NAME for a name that could
  /// lead elsewhere; MissingInputError where it is absent or no file (which names what it is);
  /// SystemError 77 without permission, RemoteError.
  std::unique_ptr<ByteSource> open(std::string_view name);

 private:
  /// `name` is plain, or file().
  virtual std::unique_ptr<ByteSource> open_member(std::string_view name) = 0;
};

}  // namespace vindex::input
