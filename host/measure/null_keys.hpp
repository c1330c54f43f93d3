// Owns what nulls of routing share: keys of their draws, and the summary of values.
#pragma once

#include <vindex/core/philox.hpp>
#include <vindex/measure/routing_nulls.hpp>

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace vindex::measure {

enum class NullPurpose : std::uint64_t { kLoads = 1, kTokens, kPairs, kTransitions };

/// A key of DrawStream that differs with every one of `numbers`, so that errors of nulls of
/// different shapes are independent.
inline std::uint64_t null_key(NullPurpose purpose, std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t key = 0x76696E6465780000 + static_cast<std::uint64_t>(purpose);
  for (const std::uint64_t number : numbers) {
    const PhiloxBlock block = philox_block(key, number, 0);
    key = static_cast<std::uint64_t>(block.word[1]) << 32U | block.word[0];
  }
  return key;
}

inline std::uint64_t null_key(NullPurpose purpose, const ChoiceLaw& law, std::int64_t tokens) {
  return null_key(purpose,
                  {static_cast<std::uint64_t>(law.experts), static_cast<std::uint64_t>(law.top_k),
                   static_cast<std::uint64_t>(law.groups), static_cast<std::uint64_t>(tokens)});
}

/// Mean and deviation (over count - 1) of `values`.
DrawnNull summary_of(const std::vector<double>& values);

}  // namespace vindex::measure
