// Owns the sentences and the members.
#include "loss_report.hpp"

#include "core/text/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::commands {

namespace {

/// As many digits as the error leaves, two of it; four where there is none.
std::string known_text(double value, double error, bool with_sign = false) {
  int digits = 4;
  if (std::isfinite(error) && error > 0.0) {
    digits = std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 9);
  }
  return with_sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
}

std::string mean_text(const statistics::MeanByPrompt& mean, bool with_sign = false) {
  const std::string value = known_text(mean.mean, mean.error, with_sign);
  return std::isnan(mean.error)
             ? value
             : fmt::format("{} +- {}", value, known_text(mean.error, mean.error));
}

std::string of_tokens(std::int64_t tokens, std::int64_t prompts, std::int64_t left_out) {
  return fmt::format("{} token{} of {} prompt{}{}", tokens, tokens == 1 ? "" : "s", prompts,
                     prompts == 1 ? "" : "s",
                     left_out > 0 ? fmt::format(", {} left out: logits not finite", left_out) : "");
}

std::string one_text(const LogitsFindings& findings, std::int64_t vocabulary) {
  const statistics::LossTally& losses = findings.losses;
  const statistics::LossSummary summary = losses.summary();
  std::string text = fmt::format("loss {} nats a token ", mean_text(summary.loss));
  text += std::isnan(summary.loss.error) ? "(one prompt: no error)" : "(by prompt)";
  text += fmt::format(", perplexity {:.4g}", summary.perplexity);
  if (!std::isnan(summary.perplexity_low)) {
    text +=
        fmt::format(" ({:.4g} to {:.4g}, 95 %)", summary.perplexity_low, summary.perplexity_high);
  }
  return text + fmt::format("; the uniform law: {:.4f}; {}",
                            std::log(static_cast<double>(vocabulary)),
                            of_tokens(losses.tokens(), losses.prompts(), losses.left_out()));
}

std::string both_text(const LogitsFindings& findings) {
  const statistics::LossComparison both = findings.comparison.comparison();
  return fmt::format(
      "loss {} -> {} nats a token: {}{}, KL {:.3g}, same first choice {:.4g} % (of {})",
      mean_text(both.a.loss), mean_text(both.b.loss), mean_text(both.difference, true),
      std::isnan(both.difference.error) ? " (one prompt: no error)" : " (by prompt)",
      both.divergence.mean, 100.0 * both.agreement.mean,
      of_tokens(findings.comparison.tokens(), findings.comparison.prompts(),
                findings.comparison.left_out()));
}

std::string spread_text(const LogitsFindings& findings, std::int64_t vocabulary) {
  const statistics::LossComparison both = findings.comparison.comparison();
  return fmt::format(
      "perplexity {:.4g} -> {:.4g}; KL of a token: median {:.3g}, 90 % {:.3g}, 99 % {:.3g}, most "
      "{:.3g}; p of the token that came: root mean square change {:.3g} %; the uniform law: {:.4f}",
      both.a.perplexity, both.b.perplexity, both.divergence_median, both.divergence_q90,
      both.divergence_q99, both.divergence_max, 100.0 * both.probability_change_rms,
      std::log(static_cast<double>(vocabulary)));
}

void add_mean(Json& object, const char* name, const statistics::MeanByPrompt& mean) {
  object[name] = mean.mean;
  object[std::string(name) + "_se"] = mean.error;
}

void add_summary(Json& object, const statistics::LossSummary& summary) {
  add_mean(object, "loss", summary.loss);
  object["perplexity"] = summary.perplexity;
  object["perplexity_low"] = summary.perplexity_low;
  object["perplexity_high"] = summary.perplexity_high;
  add_mean(object, "entropy", summary.entropy);
}

}  // namespace

std::string loss_text(const LogitsFindings& findings, std::int64_t vocabulary,
                      std::size_t columns) {
  if (findings.losses.tokens() == 0 && findings.losses.left_out() == 0) {
    return "loss: none: no prompt has a second token, and the first has nothing before it\n";
  }
  if (findings.comparison.tokens() == 0 && findings.comparison.left_out() == 0) {
    return wrapped_text(one_text(findings, vocabulary), columns, 2) + "\n";
  }
  return wrapped_text(both_text(findings), columns, 2) + "\n" +
         wrapped_text(spread_text(findings, vocabulary), columns, 2) + "\n";
}

void add_losses(const LogitsFindings& findings, std::int64_t vocabulary, Json& out) {
  const statistics::LossTally& losses = findings.losses;
  Json own = {{"tokens", losses.tokens()},
              {"prompts", losses.prompts()},
              {"left_out", losses.left_out()},
              {"loss_null", std::log(static_cast<double>(vocabulary))}};
  add_summary(own, losses.summary());
  out["loss"] = std::move(own);
  const statistics::ComparisonTally& tally = findings.comparison;
  if (tally.tokens() == 0 && tally.left_out() == 0) {
    out["against"] = nullptr;
    return;
  }
  const statistics::LossComparison both = tally.comparison();
  Json against = {
      {"tokens", tally.tokens()}, {"prompts", tally.prompts()}, {"left_out", tally.left_out()}};
  add_summary(against, both.b);
  add_mean(against, "difference", both.difference);
  add_mean(against, "kl", both.divergence);
  against["kl_median"] = both.divergence_median;
  against["kl_q90"] = both.divergence_q90;
  against["kl_q99"] = both.divergence_q99;
  against["kl_max"] = both.divergence_max;
  add_mean(against, "same_first_choice", both.agreement);
  add_mean(against, "probability_change", both.probability_change);
  against["probability_change_rms"] = both.probability_change_rms;
  out["against"] = std::move(against);
}

}  // namespace vindex::commands
