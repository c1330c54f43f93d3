// The functions of OpenSSL that compute and do nothing else: its newer ones fetch the algorithm
// from a provider, for which the library first sets itself up, a millisecond and a half of every
// run.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "digest.hpp"

#include <vindex/error.hpp>

#include <openssl/sha.h>

#include <tuple>

namespace vindex {

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  expects(SHA256_Init(&state_->context) == 1, "SHA-256 init failed");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  expects(SHA256_Update(&state_->context, bytes.data(), bytes.size()) == 1,
          "SHA-256 update failed");
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  expects(SHA256_Final(digest.data(), &state_->context) == 1, "SHA-256 final failed");
  return digest;
}

Sha256Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

bool is_sha256(std::string_view text) {
  return text.size() == 2 * std::tuple_size_v<Sha256Digest> &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string hex(const Sha256Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 0xFU];
  }
  return out;
}

}  // namespace vindex
