// Owns SHA-256 digests: provenance of headers and files, keys of the sign-flip null.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace vindex {

using Sha256Digest = std::array<std::uint8_t, 32>;

/// Incremental SHA-256 (FIPS 180-4, by OpenSSL). Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// The digest of everything given; the object is spent afterwards.
  Sha256Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Digest of one piece of text.
Sha256Digest sha256(std::string_view text);

/// Lower-case hexadecimal.
std::string hex(const Sha256Digest& digest);
/// Whether `text` is one as hex() writes it.
bool is_sha256(std::string_view text);

}  // namespace vindex
