// Owns the spectrum of the covariance of tokens: its effective rank, by the Gram matrix of features
// or of tokens, whichever is smaller.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::engine {

/// Takes the tokens of one matrix in order; the eigenvalues of its covariance (times the number of
/// tokens) at the end.
class TokenCovariance {
 public:
  /// `means`: of every feature, which are taken away; they live as long as this. `threads`: of
  /// products on the host. Errors, here and below: OutOfMemory, DeviceError, Stopped.
  TokenCovariance(Backend& backend, std::int64_t tokens, std::span<const double> means,
                  std::int32_t threads, std::stop_token stop);

  /// The next tokens, as stored and as floats.
  void add(const decode::EncodedMatrix& slab, std::span<const float> values);

  /// exp(entropy) of the eigenvalues as shares; NaN where all tokens are equal.
  double effective_rank();

  /// By tokens where they are fewer than features.
  static bool is_by_tokens(std::int64_t tokens, std::int64_t width) { return tokens < width; }
  static std::uint64_t memory_bytes(const Backend& backend, std::int64_t tokens, std::int64_t width,
                                    std::int32_t threads);

 private:
  std::int64_t side() const;

  Backend& backend_;
  std::int64_t tokens_;
  std::span<const double> means_;
  std::int32_t threads_;
  std::stop_token stop_;
  std::unique_ptr<InnerProducts> products_;
  std::vector<float> centred_;  ///< by tokens: all of them
};

}  // namespace vindex::engine
