#include "digest.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <new>
#include <tuple>

namespace vindex {

namespace {
/// Whether OpenSSL's last failure came of that; it says so somewhere in its queue of errors.
bool is_out_of_memory() {
  bool found = false;
  for (unsigned long code = ERR_get_error(); code != 0; code = ERR_get_error()) {
    found = found || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  }
  return found;
}
}  // namespace

struct Sha256::State {
  struct Deleter {
    void operator()(EVP_MD_CTX* freed) const { EVP_MD_CTX_free(freed); }
  };
  std::unique_ptr<EVP_MD_CTX, Deleter> context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  ERR_clear_error();
  const bool begun = state_->context != nullptr &&
                     EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1;
  if (!begun && is_out_of_memory()) {
    throw std::bad_alloc();
  }
  expects(begun, "SHA-256 is not available in this OpenSSL");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  expects(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1,
          "SHA-256 update failed");
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  expects(EVP_DigestFinal_ex(state_->context.get(), digest.data(), nullptr) == 1,
          "SHA-256 final failed");
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
  std::string out;
  out.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    out += fmt::format("{:02x}", byte);
  }
  return out;
}

}  // namespace vindex
