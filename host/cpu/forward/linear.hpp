// Owns y = x W^T of encoded weights on the host.
#pragma once

#include "backend/forward_backend.hpp"

#include <cstdint>
#include <stop_token>

namespace vindex::cpu {

/// ForwardBackend::linear() on up to `threads` threads. No bit of y depends on them.
void multiply_linear(const LinearCall& call, std::int32_t threads, const std::stop_token& stop);

/// Host memory that it takes for weights of `rows` x `cols` as stored.
std::uint64_t linear_bytes(std::int64_t rows, std::int64_t cols, std::int32_t threads);

}  // namespace vindex::cpu
