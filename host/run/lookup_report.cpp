#include <vindex/core/error.hpp>
#include <vindex/core/excerpt.hpp>
#include <vindex/core/text_table.hpp>
#include <vindex/run/lookup_run.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::run {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

const model::MatrixRecord& record_of(const LookupResult& result, const FoundFeature& feature) {
  return result.matrices[static_cast<std::size_t>(feature.matrix)];
}

/// What entry `token` stands for, or null.
Json text_json(const LookupResult& result, std::int64_t token) {
  return result.vocabulary == nullptr || !result.vocabulary->entry(token)
             ? Json(nullptr)
             : Json(result.vocabulary->text(token));
}

Json feature_json(const LookupResult& result, const FoundFeature& feature) {
  const model::MatrixRecord& record = record_of(result, feature);
  Json tokens = Json::array();
  for (const TokenScore& token : feature.tokens) {
    tokens.push_back({{"token", token.token},
                      {"text", text_json(result, token.token)},
                      {"score", number(token.score)}});
  }
  const std::string_view circuit = circuit_type(feature.gate_down_cosine);
  return {{"layer", record.layer},
          {"block", model::block_name(record.block)},
          {"expert", record.expert},
          {"feature", feature.feature},
          {"tensor", printable(record.tensor)},
          {"slice", record.slice},
          {"cosine", number(feature.cosine)},
          {"score", number(feature.score)},
          {"norm", number(feature.norm)},
          {"gate_down_cosine", number(feature.gate_down_cosine)},
          {"circuit", circuit.empty() ? Json(nullptr) : Json(circuit)},
          {"tokens", std::move(tokens)}};
}

std::string order_name(LookupOrder order) {
  return order == LookupOrder::kScore ? "score" : "cosine";
}

/// "`word`" for tables: bytes that are no characters as \xNN.
std::string token_text(const LookupResult& result, std::int64_t token) {
  return result.vocabulary == nullptr || !result.vocabulary->entry(token)
             ? fmt::format("#{}", token)
             : fmt::format("`{}`", excerpt(result.vocabulary->text(token)));
}

std::string features_table(const LookupResult& result, const QueryResult& query,
                           std::size_t width) {
  const bool has_experts = std::any_of(
      query.features.begin(), query.features.end(),
      [&](const FoundFeature& feature) { return record_of(result, feature).expert >= 0; });
  const bool has_tokens =
      std::any_of(query.features.begin(), query.features.end(),
                  [](const FoundFeature& feature) { return !feature.tokens.empty(); });
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows(query.features.size() + 1);
  const auto add = [&](const char* heading, const TextColumn& column, const auto& cell) {
    columns.push_back(column);
    rows.front().emplace_back(heading);
    for (std::size_t i = 0; i < query.features.size(); ++i) {
      rows[i + 1].push_back(cell(query.features[i]));
    }
  };
  const TextColumn right = {.right = true};
  add("layer", right, [&](const FoundFeature& feature) {
    return std::to_string(record_of(result, feature).layer);
  });
  add("block", {.is_close = true, .given_up_as = 1}, [&](const FoundFeature& feature) {
    return std::string(model::block_name(record_of(result, feature).block));
  });
  if (has_experts) {
    add("expert", right, [&](const FoundFeature& feature) {
      const std::int32_t expert = record_of(result, feature).expert;
      return expert < 0 ? std::string("-") : std::to_string(expert);
    });
  }
  add("feature", right,
      [](const FoundFeature& feature) { return std::to_string(feature.feature); });
  add("cosine", right,
      [](const FoundFeature& feature) { return fmt::format("{:+.4f}", feature.cosine); });
  add("score", right,
      [](const FoundFeature& feature) { return fmt::format("{:+.4g}", feature.score); });
  add("circuit", {}, [](const FoundFeature& feature) {
    const std::string_view circuit = circuit_type(feature.gate_down_cosine);
    return std::string(circuit.empty() ? "-" : circuit);
  });
  if (has_tokens) {
    add("raises", {.least = 16, .keep = Keep::kStart}, [&](const FoundFeature& feature) {
      std::string list;
      for (const TokenScore& token : feature.tokens) {
        list += (list.empty() ? "" : " ") + token_text(result, token.token);
      }
      return list.empty() ? std::string("-") : list;
    });
  }
  return table_text(rows, columns, width);
}

std::string head_of(const LookupResult& result, const QueryResult& query, std::size_t width) {
  std::string head = query.query.name;
  if (query.query.token) {
    head += fmt::format(" (token {})", *query.query.token);
  }
  if (!query.features.empty()) {
    double best = 0.0;
    for (const FoundFeature& feature : query.features) {
      best = std::max(best, std::abs(feature.cosine));
    }
    head += fmt::format(
        ": largest cosine {:.4f}{}; of random rows expected {:.4f}, median {:.4f}, "
        "chance of as much {:.2g}",
        best, result.order == LookupOrder::kScore ? " of those listed" : "", result.expected_max,
        result.null_median, query.chance);
  }
  return wrapped_text(head, width, 2) + "\n";
}

}  // namespace

std::string lookup_json(const LookupResult& result) {
  Json queries = Json::array();
  for (const QueryResult& query : result.queries) {
    Json features = Json::array();
    for (const FoundFeature& feature : query.features) {
      features.push_back(feature_json(result, feature));
    }
    queries.push_back(
        {{"name", query.query.name},
         {"token", query.query.token ? Json(*query.query.token) : Json(nullptr)},
         {"text", query.query.token ? text_json(result, *query.query.token) : Json(nullptr)},
         {"norm", number(query.query.norm)},
         {"chance", number(query.chance)},
         {"features", std::move(features)}});
  }
  Json skipped = Json::array();
  for (const SkippedMatrix& matrix : result.skipped) {
    skipped.push_back({{"tensor", matrix.name}, {"reason", printable(matrix.reason)}});
  }
  const Json vocabulary = result.vocabulary == nullptr
                              ? Json(nullptr)
                              : Json{{"source", printable(result.vocabulary->source())},
                                     {"entries", result.vocabulary->count()}};
  return Json{{"schema", "vindex-lookup/1"},
              {"model", printable(result.model)},
              {"backend", "cpu"},
              {"by", order_name(result.order)},
              {"embedding_scale", number(result.scale.factor)},
              {"embedding_scale_source", printable(result.scale.source)},
              {"vocabulary", vocabulary},
              {"width", result.width},
              {"matrices", result.matrices.size()},
              {"bytes", result.searched_bytes},
              {"features", result.features},
              {"zero_features", result.zero},
              {"not_finite_features", result.not_finite},
              {"expected_max", number(result.expected_max)},
              {"null_median", number(result.null_median)},
              {"null_q95", number(result.null_q95)},
              {"tokens_reason", printable(result.no_tokens)},
              {"skipped", std::move(skipped)},
              {"queries", std::move(queries)}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::string lookup_text(const LookupResult& result, std::size_t width) {
  std::string text = wrapped_text(
      fmt::format("{}: {} features of {} matrices, {} inputs each{}", printable(result.model),
                  result.features, result.matrices.size(), result.width,
                  result.scale.source.empty()
                      ? std::string()
                      : fmt::format("; embedding times {:.6g} ({})", result.scale.factor,
                                    printable(result.scale.source))),
      width, 2);
  text += "\n";
  for (const QueryResult& query : result.queries) {
    text += "\n" + head_of(result, query, width);
    if (!query.features.empty()) {
      text += features_table(result, query, width);
    }
  }
  const auto add_note = [&](const std::string& note) {
    text += wrapped_text(note, width, 2) + "\n";
  };
  if (!result.no_tokens.empty()) {
    add_note("no tokens: " + printable(result.no_tokens));
  }
  if (result.zero + result.not_finite > 0) {
    add_note(fmt::format("left out: {} rows of zeros, {} with weights that are not finite",
                         result.zero, result.not_finite));
  }
  return text;
}

}  // namespace vindex::run
