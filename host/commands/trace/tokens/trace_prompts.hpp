// Owns the prompts of a trace as token numbers: read from JSON lines or an array, checked, and cut
// into blocks of whole prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::commands {

/// Prompts one after the other.
struct TracePrompts {
  std::vector<std::int32_t> ids;      ///< of all tokens
  std::vector<std::int64_t> lengths;  ///< of each prompt, 1 or more

  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t longest() const;
  /// SHA-256 of lengths and ids, lower-case hex: what two runs must have in common.
  std::string digest() const;
};

/// Prompts of `path`: JSON lines `{"ids": [1, 5, 9]}` or `[1, 5, 9]` (other members are passed
/// over, as empty lines are), or one prompt as .npy integers [tokens]. Every id is checked against
/// `vocabulary` (0: any). Errors: FormatError E-IDS (65) naming file and line for what is not that,
/// an empty prompt or file, an id outside the vocabulary; ConfigurationError E-BUDGET (78) for more
/// than `most` tokens; those of open_input() and JsonScanner.
TracePrompts read_prompts(const std::string& path, std::int64_t vocabulary,
                          const std::stop_token& stop = {},
                          std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Prompts [first_prompt, first_prompt + prompts), which are tokens [first, first + tokens).
struct PromptBlock {
  std::size_t first_prompt = 0, prompts = 0;
  std::int64_t first = 0, tokens = 0;
};
/// All prompts in blocks of at most `tokens` tokens, or of one prompt.
std::vector<PromptBlock> prompt_blocks(std::span<const std::int64_t> lengths, std::int64_t tokens);

}  // namespace vindex::commands
