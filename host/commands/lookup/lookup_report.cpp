// Owns the report of a lookup as JSON and as text, written query by query.
#include "lookup_report.hpp"

#include "commands/lookup/features/lookup_features.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::commands {

namespace {

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
  const auto token_json = [&](const TokenScore& token) {
    return Json{
        {"token", token.token}, {"text", text_json(result, token.token)}, {"score", token.score}};
  };
  const std::string_view circuit = circuit_type(feature.gate_down_cosine);
  return {{"layer", record.layer},
          {"block", model::block_name(record.block)},
          {"expert", record.expert},
          {"feature", feature.feature},
          {"tensor", printable(record.tensor)},
          {"slice", record.slice},
          {"cosine", feature.cosine},
          {"score", feature.score},
          {"norm", feature.norm},
          {"gate_down_cosine", feature.gate_down_cosine},
          {"circuit", circuit.empty() ? Json(nullptr) : Json(circuit)},
          {"tokens", Json::list(feature.tokens, token_json)}};
}

std::string_view order_name(LookupOrder order) {
  return order == LookupOrder::kApart ? "apart" : list_name(order, 0);
}

/// "`word`" for tables: bytes that are no characters as \xNN.
std::string token_text(const LookupResult& result, std::int64_t token) {
  return result.vocabulary == nullptr || !result.vocabulary->entry(token)
             ? fmt::format("#{}", token)
             : fmt::format("`{}`", excerpt(result.vocabulary->text(token)));
}

std::string features_table(const LookupResult& result, const std::vector<FoundFeature>& features,
                           std::size_t width) {
  const bool has_experts = std::any_of(
      features.begin(), features.end(),
      [&](const FoundFeature& feature) { return record_of(result, feature).expert >= 0; });
  const bool has_tokens =
      std::any_of(features.begin(), features.end(),
                  [](const FoundFeature& feature) { return !feature.tokens.empty(); });
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows(features.size() + 1);
  const auto add = [&](const char* heading, const TextColumn& column, const auto& cell) {
    columns.push_back(column);
    rows.front().emplace_back(heading);
    for (std::size_t i = 0; i < features.size(); ++i) {
      rows[i + 1].push_back(cell(features[i]));
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
    add("raises", {.min_width = 16, .keep = Keep::kStart}, [&](const FoundFeature& feature) {
      std::string list;
      for (const TokenScore& token : feature.tokens) {
        list += (list.empty() ? "" : " ") + token_text(result, token.token);
      }
      return list.empty() ? std::string("-") : list;
    });
  }
  return table_text(rows, columns, width);
}

/// `text`, wrapped, and `piece` behind it in one piece.
std::string wrapped_with(const std::string& text, const std::string& piece, std::size_t width) {
  std::string out = wrapped_text(text + ",", width, 2);
  const std::size_t used = display_width(std::string_view(out).substr(out.rfind('\n') + 1));
  out += used + 1 + display_width(piece) > width ? "\n  " : " ";
  return out + piece;
}

/// "NAME: largest positive cosine 0.4233, p = 0.17 (random rows)", and what chance gives.
std::string list_text(const LookupResult& result, const FeatureList& list, const std::string& name,
                      std::size_t width) {
  const std::string_view sign = list.by == "positive" || list.by == "negative" ? list.by : "";
  const std::string what =
      fmt::format("{}: largest {}{}cosine", name, sign, sign.empty() ? "" : " ");
  if (list.features.empty()) {
    return wrapped_text(what + ": no row has one", width, 2);
  }
  const double side = sign == "negative" ? -1.0 : 1.0;
  return wrapped_with(
             fmt::format("{} {:.4f}{}", what, sign.empty() ? std::abs(list.best) : list.best,
                         list.by == "score" ? " of those listed" : ""),
             fmt::format("p = {:.2g} (random rows)", list.p), width) +
         "\n" +
         wrapped_text(
             fmt::format("  the largest of {} random rows: median {:.4f}, 95 % point {:.4f}",
                         result.features, std::copysign(result.null_median, side),
                         std::copysign(result.null_q95, side)),
             width, 2);
}

std::string query_text(const LookupResult& result, const QueryResult& query, std::size_t width) {
  std::string name = query.query.name;
  if (query.query.token) {
    // Without a text of its own its number is its name already.
    const std::string number = fmt::format("token {}", *query.query.token);
    name += name == number ? "" : fmt::format(" ({})", number);
  }
  std::string text;
  for (const FeatureList& list : query.lists) {
    text += "\n" + list_text(result, list, name, width) + "\n";
    if (!list.features.empty()) {
      text += features_table(result, list.features, width);
    }
  }
  return text;
}

Json query_json(const LookupResult& result, const QueryResult& query) {
  const auto of_feature = [&](const FoundFeature& feature) {
    return feature_json(result, feature);
  };
  const auto of_list = [&](const FeatureList& list) {
    return Json{{"by", list.by},
                {"best", list.best},
                {"p", list.p},
                {"features", Json::list(list.features, of_feature)}};
  };
  return {{"name", query.query.name},
          {"token", Json::given(query.query.token)},
          {"text", query.query.token ? text_json(result, *query.query.token) : Json(nullptr)},
          {"token_ids", query.query.tokens.empty() ? Json(nullptr) : Json(query.query.tokens)},
          {"pool", query.query.tokens.empty() ? Json(nullptr) : Json(pooling_name(result.pooling))},
          {"norm", query.query.norm},
          {"lists", Json::list(query.lists, of_list)}};
}

/// What all queries share.
Json head_json(const LookupResult& result) {
  const auto skipped = [](const SkippedMatrix& matrix) {
    return Json{{"tensor", matrix.name}, {"reason", printable(matrix.reason)}};
  };
  const Json vocabulary = result.vocabulary == nullptr
                              ? Json(nullptr)
                              : Json{{"source", printable(result.vocabulary->source())},
                                     {"entries", result.vocabulary->count()}};
  return {{"schema", "vindex-lookup/2"},
          {"model", printable(result.model)},
          {"made_of", Json::given(printable(result.made_of))},
          {"backend", "cpu"},
          {"by", order_name(result.order)},
          {"embedding_scale", result.scale.factor},
          {"embedding_scale_source", printable(result.scale.source)},
          {"vocabulary", vocabulary},
          {"width", result.width},
          {"matrices", result.matrices.size()},
          {"features", result.features},
          {"zero_features", result.zero},
          {"not_finite_features", result.not_finite},
          {"expected_max", result.expected_max},
          {"null_median", result.null_median},
          {"null_q95", result.null_q95},
          {"tokens_reason", printable(result.no_tokens)},
          {"skipped", Json::list(result.skipped, skipped)}};
}

std::string head_text(const LookupResult& result, std::size_t width) {
  return wrapped_text(
             fmt::format("{}{}: {} features of {} {}, {} inputs each{}", printable(result.model),
                         result.made_of.empty()
                             ? std::string()
                             : fmt::format(" (gate vectors of {})", printable(result.made_of)),
                         result.features, result.matrices.size(),
                         result.matrices.size() == 1 ? "matrix" : "matrices", result.width,
                         result.scale.source.empty()
                             ? std::string()
                             : fmt::format("; embedding times {:.6g} ({})", result.scale.factor,
                                           printable(result.scale.source))),
             width, 2) +
         "\n";
}

std::string notes_text(const LookupResult& result, std::size_t width) {
  std::string text;
  if (!result.no_tokens.empty()) {
    text += wrapped_text("no tokens: " + printable(result.no_tokens), width, 2) + "\n";
  }
  if (result.zero + result.not_finite > 0) {
    text +=
        wrapped_text(fmt::format("left out: {} rows of zeros, {} with weights that are not finite",
                                 result.zero, result.not_finite),
                     width, 2) +
        "\n";
  }
  return text;
}

std::string dumped(const Json& json) { return json.dump(); }

}  // namespace

LookupWriter::LookupWriter(bool json, std::size_t width, Write write)
    : json_(json), width_(width), write_(std::move(write)) {}

void LookupWriter::add(const LookupResult& result, const QueryResult& query) {
  if (!json_) {
    write_((has_begun_ ? "" : head_text(result, width_)) + query_text(result, query, width_));
  } else if (has_begun_) {
    write_("," + dumped(query_json(result, query)));
  } else {
    std::string head = dumped(head_json(result));
    head.pop_back();  // the brace: queries follow
    write_(head + ",\"queries\":[" + dumped(query_json(result, query)));
  }
  has_begun_ = true;
}

void LookupWriter::finish(const LookupResult& result) {
  if (!json_) {
    write_(notes_text(result, width_));
    return;
  }
  write_(fmt::format("],\"bytes\":{},\"passes\":{}}}\n", result.searched_bytes, result.passes));
}

}  // namespace vindex::commands
