// Owns whether the rows of two dumps correspond, and what the rows that are compared then are. A
// pure function of what both dumps say of their rows.
#pragma once

#include "commands/token_tables/activation_rows.hpp"
#include "model/dump/dump.hpp"
#include "statistics/cka/cka.hpp"

#include <string>
#include <vector>

namespace vindex::commands {

struct ComparedRows {
  std::int64_t count = 0;
  engine::Pooling pooling = engine::Pooling::kNone;
  /// Prompts of either side as they correspond; where rows are pooled, row i is prompt i of both.
  std::vector<model::PromptRows> prompts_a, prompts_b;
  /// What permutations exchange and the jackknife leaves out: prompts; rows where there are no
  /// prompts or each is a row.
  std::vector<engine::RowRun> groups;
  bool by_prompt = false;  ///< groups are prompts, which the jackknife needs
  /// Groups that permutations exchange with each other: prompts of one length; rows without
  /// prompts: all. Of tokens because a longer prompt would shift all rows behind it, and rows of
  /// different prompts would stand beside each other. Of pooled rows because they depend on the
  /// length of their prompt in any model (a first token weighs 1 / length in a mean, the last one
  /// has a position, means of few tokens scatter more): exchanging unlike lengths takes that
  /// likeness from the null, and leaves it in the estimate. Where the two sides have other lengths
  /// (other tokenizers) equal ones of one side are enough: given its lengths, its rows are
  /// exchangeable whatever the other's are. The side that leaves more orders is taken.
  statistics::Strata strata;
};

/// Why permutations of `rows` are none, and what to do; empty where there are enough orders.
std::string few_orders(const ComparedRows& rows);

/// "", "mean" or "last". Errors: UsageError E-CKA-POOL.
engine::Pooling parse_pooling(const std::string& text);

/// Errors: ConfigurationError E-CKA-ROWS (78) saying what differs and what to do: token ids that
/// are absent or differ, prompts that are cut differently, numbers of prompts (with pooling) that
/// only one dump has, fewer than four rows. Nothing is cut to fit. `same`: both are one dump, whose
/// rows correspond without token ids.
ComparedRows compared_rows(const model::Dump& a, const model::Dump& b, engine::Pooling pooling,
                           bool same);

}  // namespace vindex::commands
