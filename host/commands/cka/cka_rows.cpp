// Owns the comparison of two dumps' tokens and prompts, and the strata of what may be permuted.
#include "cka_rows.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

namespace vindex::commands {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw ConfigurationError("E-CKA-ROWS", why); }

std::string name_of(const model::Dump& dump) { return printable(dump.files.path); }

constexpr const char* kPoolAdvice =
    "compare one row for each prompt with --pool mean or --pool last (which needs `prompt`)";

void require_equal_tokens(const model::Dump& a, const model::Dump& b) {
  for (const model::Dump* dump : {&a, &b}) {
    if (dump->token_ids.empty()) {
      refuse(
          fmt::format("{}: no token_ids, so that nothing says which row is which token: dump "
                      "them, or {}",
                      name_of(*dump), kPoolAdvice));
    }
  }
  if (a.tokens != b.tokens) {
    refuse(fmt::format("{} has {} tokens, {} has {}: rows do not correspond; {}", name_of(a),
                       a.tokens, name_of(b), b.tokens, kPoolAdvice));
  }
  const auto differs = std::mismatch(a.token_ids.begin(), a.token_ids.end(), b.token_ids.begin());
  if (differs.first != a.token_ids.end()) {
    refuse(
        fmt::format("row {} is token {} in {} and {} in {}: rows do not correspond (other "
                    "prompts, or another tokenizer); {}",
                    differs.first - a.token_ids.begin(), *differs.first, name_of(a),
                    *differs.second, name_of(b), kPoolAdvice));
  }
}

bool cut_alike(const std::vector<model::PromptRows>& a, const std::vector<model::PromptRows>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const model::PromptRows& one, const model::PromptRows& other) {
                      return one.first == other.first && one.count == other.count;
                    });
}

/// Prompts of one length together.
statistics::Strata equal_lengths(const std::vector<std::int64_t>& lengths) {
  std::map<std::int64_t, std::vector<std::int64_t>> by_length;
  for (std::size_t prompt = 0; prompt < lengths.size(); ++prompt) {
    by_length[lengths[prompt]].push_back(static_cast<std::int64_t>(prompt));
  }
  statistics::Strata strata;
  for (auto& [length, members] : by_length) {
    if (members.size() > 1) {
      strata.push_back(std::move(members));
    }
  }
  return strata;
}

std::vector<std::int64_t> lengths_of(const std::vector<model::PromptRows>& prompts) {
  std::vector<std::int64_t> lengths;
  for (const model::PromptRows& prompt : prompts) {
    lengths.push_back(prompt.count);
  }
  return lengths;
}

/// One row for each token.
ComparedRows token_rows(const model::Dump& a, const model::Dump& b, bool same) {
  if (!same) {
    require_equal_tokens(a, b);
  }
  if (!a.prompts.empty() && !b.prompts.empty() && !cut_alike(a.prompts, b.prompts)) {
    refuse(fmt::format("{} and {} cut the same tokens into other prompts", name_of(a), name_of(b)));
  }
  ComparedRows rows;
  rows.count = a.tokens;
  rows.prompts_a = a.prompts.empty() ? b.prompts : a.prompts;
  rows.prompts_b = rows.prompts_a;
  rows.by_prompt = !rows.prompts_a.empty();
  for (const model::PromptRows& prompt : rows.prompts_a) {
    rows.groups.push_back({prompt.first, prompt.count});
  }
  if (rows.by_prompt) {
    rows.strata = equal_lengths(lengths_of(rows.prompts_a));
    return rows;
  }
  std::vector<std::int64_t>& all = rows.strata.emplace_back();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    rows.groups.push_back({i, 1});
    all.push_back(i);
  }
  return rows;
}

/// One row for each prompt, matched by number.
ComparedRows prompt_rows(const model::Dump& a, const model::Dump& b, engine::Pooling pooling) {
  for (const model::Dump* dump : {&a, &b}) {
    if (dump->prompts.empty()) {
      refuse(fmt::format("{}: no `prompt`, so that there is nothing to pool by", name_of(*dump)));
    }
  }
  std::unordered_map<std::int64_t, const model::PromptRows*> of_b;
  for (const model::PromptRows& prompt : b.prompts) {
    of_b.emplace(prompt.prompt, &prompt);
  }
  ComparedRows rows;
  rows.pooling = pooling;
  rows.by_prompt = true;
  for (const model::PromptRows& prompt : a.prompts) {
    const auto found = of_b.find(prompt.prompt);
    if (found == of_b.end()) {
      refuse(fmt::format("prompt {} of {} is not in {}: dump the same prompts with both models",
                         prompt.prompt, name_of(a), name_of(b)));
    }
    rows.groups.push_back({rows.count++, 1});
    rows.prompts_a.push_back(prompt);
    rows.prompts_b.push_back(*found->second);
  }
  if (b.prompts.size() != a.prompts.size()) {
    refuse(fmt::format("{} has {} prompts, {} has {}: dump the same prompts with both models",
                       name_of(a), a.prompts.size(), name_of(b), b.prompts.size()));
  }
  rows.strata = equal_lengths(lengths_of(rows.prompts_a));
  statistics::Strata of_lengths_b = equal_lengths(lengths_of(rows.prompts_b));
  if (statistics::log_orders(of_lengths_b) > statistics::log_orders(rows.strata)) {
    rows.strata = std::move(of_lengths_b);
  }
  return rows;
}

}  // namespace

std::string few_orders(const ComparedRows& rows) {
  const double orders = std::exp(statistics::log_orders(rows.strata));
  if (orders >= statistics::kMinOrders * (1.0 - 1e-9)) {
    return "";
  }
  std::size_t movable = 0;
  for (const std::vector<std::int64_t>& members : rows.strata) {
    movable += members.size();
  }
  return fmt::format(
      "no permutations: prompts change places with prompts of the same length, and {} of {} have "
      "one with others, which leaves {:.0f} orders of {:.0f} needed: dump more prompts, or prompts "
      "that are cut to a few lengths",
      movable, rows.groups.size(), orders, statistics::kMinOrders);
}

engine::Pooling parse_pooling(const std::string& text) {
  if (text.empty()) {
    return engine::Pooling::kNone;
  }
  if (text == "mean") {
    return engine::Pooling::kMean;
  }
  if (text == "last") {
    return engine::Pooling::kLast;
  }
  throw UsageError("E-CKA-POOL", fmt::format("--pool {}: mean or last", printable(text)));
}

ComparedRows compared_rows(const model::Dump& a, const model::Dump& b, engine::Pooling pooling,
                           bool same) {
  ComparedRows rows =
      pooling == engine::Pooling::kNone ? token_rows(a, b, same) : prompt_rows(a, b, pooling);
  if (rows.count < statistics::kMinCkaRows) {
    refuse(fmt::format("{}: {} rows; the unbiased estimator needs {} at least", name_of(a),
                       rows.count, statistics::kMinCkaRows));
  }
  return rows;
}

}  // namespace vindex::commands
