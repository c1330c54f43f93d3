// Owns causal attention on the host.
#pragma once

#include "backend/forward_backend.hpp"

#include <cstdint>
#include <stop_token>

namespace vindex::cpu {

/// ForwardBackend::attention() on up to `threads` threads. No bit depends on them.
void attend_causally(const AttentionCall& call, std::int32_t threads, const std::stop_token& stop);

/// Host memory that it takes.
std::uint64_t attention_bytes(const AttentionCall& call, std::int32_t threads);

}  // namespace vindex::cpu
