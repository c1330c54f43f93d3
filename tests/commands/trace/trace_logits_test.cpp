// Losses and divergences of final states beside plain loops in float64; the same bits for every
// budget; tiles that make whole rows.
#include "commands/trace/statistics/trace_logits.hpp"

#include "commands/trace/statistics/loss_report.hpp"
#include "cpu/forward/cpu_forward.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

namespace vindex::commands::trace_logits_test {
namespace {

constexpr std::int64_t kHidden = 12;
constexpr std::int64_t kVocabulary = 5000;  // two tiles

std::vector<float> drawn(std::int64_t count, double size, std::uint64_t state) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<float>(size * (static_cast<double>(state >> 33U) * 0x1p-30 - 1.0));
  }
  return out;
}

/// A model that is nothing but a final norm and an output matrix.
class Tail final : public StageWeights {
 public:
  Tail(std::int64_t vocabulary, std::uint64_t seed, std::int64_t hidden = kHidden)
      : output_(drawn(vocabulary * hidden, 1.0, seed)),
        norm_(drawn(hidden, 1.5, seed + 1)),
        input_(make_memory_input(decode::float32_view(output_.data(), vocabulary, hidden))) {
    model.hidden = hidden;
    model.vocabulary = vocabulary;
    model.norm_eps = 1e-6;
    model.output = {.matrix = 0, .rows = {.first = 0, .step = 1, .count = vocabulary}};
    model.final_norm = {.tensor = 0, .first = 0, .step = 1, .count = hidden};
  }
  MatrixInput& matrix(std::int64_t /*index*/) override { return *input_; }
  std::span<const float> vector(const model::VectorRef& ref) override {
    return ref ? std::span<const float>(norm_) : std::span<const float>();
  }
  float& weight(std::int64_t entry, std::int64_t column) {
    return output_[static_cast<std::size_t>(entry * kHidden + column)];
  }

  /// Logits of one final state.
  std::vector<double> logits(const float* x) const {
    double squares = 0.0;
    for (std::int64_t j = 0; j < kHidden; ++j) {
      squares += static_cast<double>(x[j]) * x[j];
    }
    const double scale = 1.0 / std::sqrt(squares / kHidden + model.norm_eps);
    std::vector<double> out;
    for (std::size_t v = 0; v < output_.size() / kHidden; ++v) {
      double sum = 0.0;
      for (std::size_t j = 0; j < kHidden; ++j) {
        sum += static_cast<double>(x[j]) * scale * norm_[j] * output_[v * kHidden + j];
      }
      out.push_back(sum);
    }
    return out;
  }

  model::Transformer model;

 private:
  std::vector<float> output_, norm_;
  std::unique_ptr<MatrixInput> input_;
};

double log_total(const std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  return most +
         std::log(std::accumulate(logits.begin(), logits.end(), 0.0, [&](double sum, double logit) {
           return sum + std::exp(logit - most);
         }));
}

class TraceLogits : public ::testing::Test {
 protected:
  TraceLogits() {
    prompts.lengths = {4, 1, 7, 3};
    for (std::int64_t i = 0; i < 15; ++i) {
      prompts.ids.push_back(static_cast<std::int32_t>((i * 1237) % kVocabulary));
    }
    prompts.ids[5] = 4097;  // of the second tile
    const std::vector<float> x = drawn(15 * kHidden, 3.0, 77);
    states->write(0, 15, x.data());
    const std::vector<float> y = drawn(15 * kHidden, 3.0, 78);
    std::vector<float> near = x;
    for (std::size_t i = 0; i < near.size(); ++i) {
      near[i] += 0.05F * y[i];
    }
    near_states->write(0, 15, near.data());
  }

  LogitsFindings run(Tail& a, Tail* b, const LogitsPlan& plan,
                     std::span<TraceObserver* const> observers = {}) {
    const LayerTools of_a{a.model, a, *backend, {}};
    const LogitsOf first{of_a, *states};
    if (b == nullptr) {
      return trace_logits(first, nullptr, prompts, plan, 2, observers);
    }
    const LayerTools of_b{b->model, *b, *backend, {}};
    const LogitsOf second{of_b, *near_states};
    return trace_logits(first, &second, prompts, plan, 2, observers);
  }
  static std::vector<float> row(const TokenRows& rows, std::int64_t i) {
    std::vector<float> out(kHidden);
    rows.read(i, 1, out.data());
    return out;
  }

  TracePrompts prompts;
  std::unique_ptr<TokenRows> states = make_rows_in_memory(15, kHidden);
  std::unique_ptr<TokenRows> near_states = make_rows_in_memory(15, kHidden);
  std::unique_ptr<ForwardBackend> backend = cpu::make_cpu_forward(1);
};

TEST_F(TraceLogits, LossesAreThoseOfPlainLoops) {
  Tail a(kVocabulary, 5);
  Tail b(kVocabulary, 5);
  b.weight(17, 3) += 2.0F;
  double loss = 0.0;
  double difference = 0.0;
  double divergence = 0.0;
  double agreement = 0.0;
  double entropy = 0.0;
  std::int64_t token = 0;
  for (const std::int64_t length : prompts.lengths) {
    for (std::int64_t i = 0; i < length; ++i, ++token) {
      const std::vector<double> p = a.logits(row(*states, token).data());
      const std::vector<double> q = b.logits(row(*near_states, token).data());
      const double total_p = log_total(p);
      const double total_q = log_total(q);
      double kl = 0.0;
      for (std::size_t v = 0; v < p.size(); ++v) {
        kl += std::exp(p[v] - total_p) * (p[v] - total_p - q[v] + total_q);
        entropy -= std::exp(p[v] - total_p) * (p[v] - total_p);
      }
      if (i + 1 == length) {
        continue;
      }
      const auto next = static_cast<std::size_t>(prompts.ids[static_cast<std::size_t>(token) + 1]);
      loss += total_p - p[next];
      difference += total_q - q[next] - (total_p - p[next]);
      divergence += kl;
      agreement += std::max_element(p.begin(), p.end()) - p.begin() ==
                           std::max_element(q.begin(), q.end()) - q.begin()
                       ? 1.0
                       : 0.0;
    }
  }
  const LogitsPlan plan = plan_logits(15, kHidden, kVocabulary, 2, 1 << 30);
  const LogitsFindings found = run(a, &b, plan);
  EXPECT_EQ(found.losses.tokens(), 11);
  EXPECT_EQ(found.losses.prompts(), 3);  // that of one token predicts nothing
  EXPECT_NEAR(found.losses.summary().loss.mean, loss / 11, 1e-5);
  EXPECT_NEAR(found.entropy.mean().mean, entropy / 15, 1e-5);
  const statistics::LossComparison both = found.comparison.comparison();
  EXPECT_NEAR(both.difference.mean, difference / 11, 1e-5);
  EXPECT_NEAR(both.divergence.mean, divergence / 11, 1e-6);
  EXPECT_NEAR(both.agreement.mean, agreement / 11, 1e-12);
  EXPECT_GT(divergence, 1e-3);
}

TEST_F(TraceLogits, BitsDoNotDependOnTheBudget) {
  Tail a(kVocabulary, 9);
  Tail b(kVocabulary, 10);
  LogitsPlan wide = plan_logits(15, kHidden, kVocabulary, 2, 1 << 30);
  EXPECT_EQ(wide.block, 15);
  wide.rows = 4;
  LogitsPlan narrow = wide;
  narrow.block = 8;
  const auto figures = [](const LogitsFindings& found) {
    Json losses = Json::object();
    add_losses(found, kVocabulary, losses);
    return losses.dump() + std::to_string(found.top8_mass.mean().mean);
  };
  EXPECT_EQ(figures(run(a, &b, wide)), figures(run(a, &b, narrow)));
  EXPECT_EQ(figures(run(a, nullptr, wide)), figures(run(a, nullptr, narrow)));
}

TEST_F(TraceLogits, AModelBesideItselfCostsNothing) {
  Tail a(kVocabulary, 9);
  const std::vector<float> x = [&] {
    std::vector<float> all(15 * kHidden);
    states->read(0, 15, all.data());
    return all;
  }();
  near_states->write(0, 15, x.data());
  const LogitsFindings found = run(a, &a, plan_logits(15, kHidden, kVocabulary, 2, 1 << 30));
  const statistics::LossComparison both = found.comparison.comparison();
  EXPECT_LE(both.divergence_max, 1e-14);
  EXPECT_EQ(both.agreement.mean, 1.0);
  EXPECT_EQ(both.difference.mean, 0.0);
  const std::string text = loss_text(found, kVocabulary, 80);
  EXPECT_NE(text.find("same first choice 100 %"), std::string::npos) << text;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 80U);
    at = end + 1;
  }
}

// A draft model beside the one it drafts for: one vocabulary, two widths.
TEST_F(TraceLogits, ModelsOfOtherWidthsAreCompared) {
  constexpr std::int64_t kWide = 700;
  Tail narrow(kVocabulary, 5);
  Tail wide(kVocabulary, 6, kWide);
  const auto wide_states = make_rows_in_memory(15, kWide);
  wide_states->write(0, 15, drawn(15 * kWide, 3.0, 79).data());
  const LayerTools narrow_tools{narrow.model, narrow, *backend, {}};
  const LayerTools wide_tools{wide.model, wide, *backend, {}};
  const LogitsOf of_narrow{narrow_tools, *states};
  const LogitsOf of_wide{wide_tools, *wide_states};
  const LogitsPlan plan = plan_logits(15, kWide, kVocabulary, 2, 1 << 30);
  const auto figures = [&](const LogitsOf& a, const LogitsOf* b) {
    return trace_logits(a, b, prompts, plan, 2, {});
  };
  const double loss = figures(of_narrow, nullptr).losses.summary().loss.mean;
  const double wide_loss = figures(of_wide, nullptr).losses.summary().loss.mean;
  const auto judged = figures(of_narrow, &of_wide).comparison.comparison();
  EXPECT_EQ(judged.a.loss.mean, loss);
  EXPECT_EQ(judged.b.loss.mean, wide_loss);
  const auto judging = figures(of_wide, &of_narrow).comparison.comparison();
  EXPECT_EQ(judging.a.loss.mean, wide_loss);
  EXPECT_EQ(judging.b.loss.mean, loss);
}

class Collector final : public TraceObserver {
 public:
  bool wants_logits() const override { return true; }
  void logits(const LogitsTile& tile) override {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      for (std::int64_t v = 0; v < tile.entries; ++v) {
        const std::int64_t at = (tile.first + i) * kVocabulary + tile.first_entry + v;
        all.at(static_cast<std::size_t>(at)) += tile.values[i * tile.entries + v];
        ++count;
      }
    }
  }
  std::vector<float> all = std::vector<float>(15 * kVocabulary);
  std::int64_t count = 0;
};

TEST_F(TraceLogits, TilesAreEveryLogitOnce) {
  Tail a(kVocabulary, 31);
  LogitsPlan plan = plan_logits(15, kHidden, kVocabulary, 1, 1 << 30);
  plan.block = 6;
  plan.rows = 4;
  Collector collector;
  TraceObserver* const observer = &collector;
  run(a, nullptr, plan, {&observer, 1});
  EXPECT_EQ(collector.count, 15 * kVocabulary);
  for (std::int64_t token = 0; token < 15; ++token) {
    const std::vector<double> wanted = a.logits(row(*states, token).data());
    for (std::size_t v = 0; v < wanted.size(); ++v) {
      ASSERT_NEAR(collector.all[static_cast<std::size_t>(token) * kVocabulary + v], wanted[v],
                  1e-4);
    }
  }
}

TEST_F(TraceLogits, OtherVocabulariesAreRefused) {
  Tail a(kVocabulary, 1);
  Tail b(kVocabulary - 1, 1);
  try {
    run(a, &b, plan_logits(15, kHidden, kVocabulary, 2, 1 << 30));
    FAIL() << "compared";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.id(), "E-TRACE-VOCABULARY");
  }
}

TEST(LogitsPlan, FitsWhateverCanFit) {
  for (const std::uint64_t budget : {std::uint64_t{64} << 20U, std::uint64_t{1} << 30U}) {
    const LogitsPlan plan = plan_logits(16384, 7168, 163840, 2, budget);
    EXPECT_LE(plan.bytes, budget);
    EXPECT_GE(plan.block, plan.rows);
    EXPECT_GE(plan.rows, 1);
  }
  const LogitsPlan least = plan_logits(16384, 7168, 163840, 2, 0);
  EXPECT_GT(least.bytes, 0U);
  EXPECT_EQ(least.block, least.rows);
  const LogitsPlan all = plan_logits(100, 64, 256, 1, std::uint64_t{1} << 30U);
  EXPECT_EQ(all.block, 100);
  EXPECT_EQ(all.tile, 256);
}

}  // namespace
}  // namespace vindex::commands::trace_logits_test
