// Owns the k of var_at_k (metrics contract), and which of them a summary takes: one that can
// distinguish a matrix from noise. At k >= p every matrix has 1, and near it noise has almost 1, so
// that no ratio to it can say anything.
#pragma once

#include "backend/sign_flip_draws.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vindex::statistics {

/// Where 64 stands among them.
inline constexpr std::size_t kPlaceOf64 = 6;
static_assert(kVarAtK[kPlaceOf64] == 64);

/// The largest k chosen: the one that published figures use.
inline constexpr std::int32_t kMaxInformativeK = 64;
/// Noise has at most this share at an informative k: what a matrix may have above it is then at
/// least 1/0.7 of it.
inline constexpr double kMaxNoiseShare = 0.7;

/// The largest k of kVarAtK that is below `shorter` (p, the shorter side) and at most
/// kMaxInformativeK, and at which `nulls` (var_at_k of noise of that shape) are at most
/// kMaxNoiseShare; 1 where p >= 2 and no k is as good. Nothing where p < 2 or the nulls are NaN.
std::optional<std::int32_t> informative_k(std::int64_t shorter,
                                          const std::array<double, kVarAtK.size()>& nulls);

/// One k for groups that have `each` by themselves, so that their values compare: the smallest of
/// them where it is no less than a quarter of the largest. Nothing where they are further apart, or
/// no group has one.
std::optional<std::int32_t> common_k(std::span<const std::optional<std::int32_t>> each);

}  // namespace vindex::statistics
