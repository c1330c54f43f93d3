// Owns the walk over blocks of tokens and tiles of the vocabulary.
#include "trace_logits.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace vindex::commands {

namespace {

/// Sums run over tiles: one size for every budget keeps their bits.
constexpr std::int64_t kTile = 4096;
/// Below as many rows a product spends its time on reading weights.
constexpr std::int64_t kUsefulRows = 512;

/// What is summed at one position.
struct Position {
  statistics::LogitSums a;  ///< of one model
  statistics::LogitPair pair;
  statistics::LikeliestEntries likeliest = {};
};

/// The token that comes behind each row in its prompt; -1 behind the last.
std::vector<std::int64_t> next_tokens(const TracePrompts& prompts) {
  std::vector<std::int64_t> next(prompts.ids.size(), -1);
  std::size_t first = 0;
  for (const std::int64_t length : prompts.lengths) {
    for (std::int64_t i = 0; i + 1 < length; ++i, ++first) {
      next[first] = prompts.ids[first + 1];
    }
    first += length > 0 ? 1 : 0;
  }
  return next;
}

/// Final states of a block behind the final norm: [tokens, hidden].
void read_normalised(const LogitsOf& of, std::int64_t first, std::int64_t count, std::int64_t rows,
                     std::vector<float>& out) {
  const std::int64_t hidden = of.states.width();
  expects(std::ssize(out) >= count * hidden, "room for the states of a block");
  std::vector<float> raw(static_cast<std::size_t>(std::min(rows, count) * hidden));
  for (std::int64_t done = 0; done < count; done += rows) {
    const std::int64_t some = std::min(rows, count - done);
    of.states.read(first + done, some, raw.data());
    normalise_for_output(of.tools, some, raw.data(), out.data() + done * hidden);
  }
}

class LogitsPass {
 public:
  LogitsPass(const LogitsOf& a, const LogitsOf* b, const TracePrompts& prompts,
             const LogitsPlan& plan, std::int32_t threads,
             std::span<TraceObserver* const> observers)
      : a_(a), b_(b), next_(next_tokens(prompts)), plan_(plan), threads_(threads) {
    for (TraceObserver* const observer : observers) {
      if (observer->wants_logits()) {
        observers_.push_back(observer);
      }
    }
    std::int64_t prompt = 0;
    for (const std::int64_t length : prompts.lengths) {
      prompts_.insert(prompts_.end(), static_cast<std::size_t>(length), prompt++);
    }
    const auto held = [&](const LogitsOf& of) {
      return static_cast<std::size_t>(plan_.block * of.states.width());
    };
    const auto piece = static_cast<std::size_t>(plan_.rows * plan_.tile);
    states_a_.resize(held(a_));
    logits_a_.resize(piece);
    if (b_ != nullptr) {
      states_b_.resize(held(*b_));
      logits_b_.resize(piece);
    }
  }

  LogitsFindings run() {
    const std::int64_t tokens = a_.states.tokens();
    const std::int64_t vocabulary = a_.tools.model.vocabulary;
    for (std::int64_t first = 0; first < tokens; first += plan_.block) {
      const std::int64_t count = std::min(plan_.block, tokens - first);
      begin_block(first, count);
      for (std::int64_t entry = 0; entry < vocabulary; entry += plan_.tile) {
        const std::int64_t entries = std::min(plan_.tile, vocabulary - entry);
        for (std::int64_t done = 0; done < count; done += plan_.rows) {
          throw_if_stopped(a_.tools.stop);
          take_tile(first, done, std::min(plan_.rows, count - done), entry, entries);
        }
      }
      end_block(first, count);
    }
    return std::move(findings_);
  }

 private:
  void begin_block(std::int64_t first, std::int64_t count) {
    read_normalised(a_, first, count, plan_.rows, states_a_);
    if (b_ != nullptr) {
      read_normalised(*b_, first, count, plan_.rows, states_b_);
    }
    positions_.clear();
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::int64_t next = next_[static_cast<std::size_t>(i)];
      positions_.push_back({.a = statistics::LogitSums(next), .pair = statistics::LogitPair(next)});
    }
  }

  /// Rows [done, done + rows) of the block that begins with token `first`.
  void take_tile(std::int64_t first, std::int64_t done, std::int64_t rows, std::int64_t entry,
                 std::int64_t entries) {
    output_logits(a_.tools, rows, states_a_.data() + done * a_.states.width(), entry, entries,
                  logits_a_.data());
    for (TraceObserver* const observer : observers_) {
      observer->logits({.first = first + done,
                        .rows = rows,
                        .first_entry = entry,
                        .entries = entries,
                        .values = logits_a_.data()});
    }
    if (b_ != nullptr) {
      output_logits(b_->tools, rows, states_b_.data() + done * b_->states.width(), entry, entries,
                    logits_b_.data());
    }
    const auto width = static_cast<std::size_t>(entries);
    for_each_index(
        static_cast<std::size_t>(rows), static_cast<std::size_t>(threads_),
        [&](std::size_t /*worker*/, std::size_t row) {
          Position& position = positions_[static_cast<std::size_t>(done) + row];
          const auto of_a = std::span<const float>(logits_a_).subspan(row * width, width);
          position.likeliest.add(of_a);
          if (b_ == nullptr) {
            position.a.add(of_a, entry);
          } else {
            position.pair.add(of_a, std::span<const float>(logits_b_).subspan(row * width, width),
                              entry);
          }
        });
  }

  void end_block(std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Position& position = positions_[static_cast<std::size_t>(i)];
      const statistics::LogitSums& sums = b_ == nullptr ? position.a : position.pair.a();
      const auto row = static_cast<std::size_t>(first + i);
      const std::int64_t prompt = prompts_[row];
      if (sums.is_distribution()) {
        findings_.entropy.add(prompt, sums.entropy());
        findings_.top8_mass.add(prompt, position.likeliest.mass(sums));
      } else {
        ++findings_.left_out;
      }
      if (next_[row] < 0) {
        continue;
      }
      findings_.losses.add(prompt, sums);
      if (b_ != nullptr) {
        findings_.comparison.add(prompt, position.pair);
      }
    }
  }

  const LogitsOf& a_;
  const LogitsOf* b_;
  std::vector<std::int64_t> next_, prompts_;  ///< of every token
  LogitsPlan plan_;
  std::int32_t threads_;
  std::vector<TraceObserver*> observers_;
  std::vector<float> states_a_, states_b_;  ///< [block, hidden of each model]
  std::vector<float> logits_a_, logits_b_;  ///< [rows, tile]
  std::vector<Position> positions_;         ///< of the block
  LogitsFindings findings_;
};

}  // namespace

LogitsPlan plan_logits(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary,
                       std::int64_t models, std::uint64_t budget) {
  expects(tokens > 0 && hidden > 0 && vocabulary > 0 && models > 0, "plan_logits: something");
  const auto unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  LogitsPlan plan;
  plan.tile = std::min(vocabulary, kTile);
  const std::uint64_t of_prediction = 2 * (sizeof(double) + sizeof(std::int64_t));
  const std::uint64_t fixed = unsigned_of(tokens) * of_prediction;
  const std::uint64_t of_row =
      sizeof(float) * (unsigned_of(plan.tile) * unsigned_of(models) + unsigned_of(hidden));
  const std::uint64_t of_token =
      sizeof(float) * unsigned_of(hidden) * unsigned_of(models) + sizeof(Position);
  const auto bytes_of = [&](std::int64_t block, std::int64_t rows) {
    return fixed + of_token * unsigned_of(block) + of_row * unsigned_of(rows);
  };
  // Rows of one number for every budget, or products would have other bits; then as many tokens as
  // fit, since weights are read once for each block.
  plan.rows = std::min(tokens, kUsefulRows);
  const std::uint64_t beside = bytes_of(0, plan.rows);
  const std::uint64_t fitting = budget > beside ? (budget - beside) / of_token : 0;
  const auto most =
      static_cast<std::int64_t>(std::min<std::uint64_t>(fitting, unsigned_of(tokens)));
  plan.block =
      std::clamp(most == tokens ? tokens : most / plan.rows * plan.rows, plan.rows, tokens);
  plan.bytes = bytes_of(plan.block, plan.rows);
  return plan;
}

LogitsFindings trace_logits(const LogitsOf& a, const LogitsOf* b, const TracePrompts& prompts,
                            const LogitsPlan& plan, std::int32_t threads,
                            std::span<TraceObserver* const> observers) {
  const std::int64_t count = prompts.tokens();
  expects(
      std::accumulate(prompts.lengths.begin(), prompts.lengths.end(), std::int64_t{0}) == count &&
          a.states.tokens() == count && (b == nullptr || b->states.tokens() == count),
      "trace_logits: states of the tokens");
  if (b != nullptr && a.tools.model.vocabulary != b->tools.model.vocabulary) {
    throw ConfigurationError(
        "E-TRACE-VOCABULARY",
        fmt::format("vocabularies of {} and {} entries: losses and divergences are of the same "
                    "entries. Compare models with one tokenizer",
                    a.tools.model.vocabulary, b->tools.model.vocabulary));
  }
  return LogitsPass(a, b, prompts, plan, threads, observers).run();
}

}  // namespace vindex::commands
