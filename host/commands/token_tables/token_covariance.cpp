// Owns sums of the smaller Gram matrix of centred tokens, and the effective rank from its
// eigenvalues.
#include "token_covariance.hpp"

#include "cpu/tridiagonal/symmetric_eigenvalues.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "statistics/activations/activation_statistics.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <stop_token>

namespace vindex::engine {

namespace {

InnerProductShape covariance_shape(std::int64_t tokens, std::int64_t width, std::int32_t threads,
                                   std::stop_token stop = {}) {
  const bool by_tokens = TokenCovariance::is_by_tokens(tokens, width);
  return {.left = by_tokens ? tokens : width,
          .right = 0,
          .cols = width,
          .threads = threads,
          .stop = std::move(stop)};
}

}  // namespace

TokenCovariance::TokenCovariance(Backend& backend, std::int64_t tokens,
                                 std::span<const double> means, std::int32_t threads,
                                 std::stop_token stop)
    : backend_(backend), tokens_(tokens), means_(means), threads_(threads), stop_(std::move(stop)) {
  const auto width = static_cast<std::int64_t>(means.size());
  if (is_by_tokens(tokens, width)) {
    centred_.reserve(static_cast<std::size_t>(tokens) * means.size());
  } else {
    products_ = backend_.inner_products(covariance_shape(tokens, width, threads, stop_));
  }
}

std::int64_t TokenCovariance::side() const {
  return covariance_shape(tokens_, static_cast<std::int64_t>(means_.size()), threads_).left;
}

void TokenCovariance::add(const decode::EncodedMatrix& slab, std::span<const float> values) {
  if (products_ != nullptr) {
    products_->add({.matrices = {&slab, 1}, .columns = true, .means = means_});
    return;
  }
  const std::size_t width = means_.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    centred_.push_back(static_cast<float>(static_cast<double>(values[i]) - means_[i % width]));
  }
}

double TokenCovariance::effective_rank() {
  const std::int64_t n = side();
  if (products_ == nullptr) {
    const auto width = static_cast<std::int64_t>(means_.size());
    std::vector<decode::EncodedMatrix> tokens;
    tokens.reserve(static_cast<std::size_t>(tokens_));
    for (std::int64_t t = 0; t < tokens_; ++t) {
      tokens.push_back(decode::float32_view(centred_.data() + t * width, 1, width));
    }
    products_ = backend_.inner_products(covariance_shape(tokens_, width, threads_, stop_));
    products_->add({.matrices = tokens});
    centred_ = {};
  }
  std::vector<double> gram(static_cast<std::size_t>(n) * static_cast<std::size_t>(n));
  products_->read(gram);
  products_.reset();
  return statistics::effective_rank_of(cpu::symmetric_eigenvalues(gram, n, stop_));
}

std::uint64_t TokenCovariance::memory_bytes(const Backend& backend, std::int64_t tokens,
                                            std::int64_t width, std::int32_t threads) {
  const InnerProductShape shape = covariance_shape(tokens, width, threads);
  const auto n = static_cast<std::uint64_t>(shape.left);
  const std::uint64_t products = backend.inner_product_memory(shape).host;
  const std::uint64_t gram = n * n * sizeof(double);
  const std::uint64_t rows =
      is_by_tokens(tokens, width)
          ? static_cast<std::uint64_t>(tokens) *
                (static_cast<std::uint64_t>(width) * sizeof(float) + sizeof(decode::EncodedMatrix))
          : 0;
  return gram + std::max(products + rows, cpu::symmetric_eigenvalues_bytes(shape.left));
}

}  // namespace vindex::engine
