// Owns the digest of text in a results file: SHA-256 of its strings in their order, a NUL byte
// behind each, in hexadecimal. Strings hold no NUL, so no two lists have the same bytes. It is of
// values, not of where they lie: a file that is copied or repacked keeps it.
#pragma once

#include "core/digest.hpp"

#include <span>
#include <string>
#include <string_view>

namespace vindex::results {

/// Of a list of text: as above. Of numbers: value_digest.hpp. Of an object's attributes: the names
/// and texts of those that stand behind the digest (hdf5.cpp).
inline constexpr const char* kTextDigest = "sha256";
inline constexpr const char* kAttributesDigest = "attributes_sha256";

class TextDigest {
 public:
  void add(std::string_view text) {
    sha_.update(text.substr(0, text.find('\0')));
    sha_.update(std::string_view("\0", 1));
  }
  std::string finish() { return hex(sha_.finish()); }

 private:
  Sha256 sha_;
};

inline std::string text_digest(std::span<const std::string> values) {
  TextDigest digest;
  for (const std::string& value : values) {
    digest.add(value);
  }
  return digest.finish();
}

}  // namespace vindex::results
