// Owns finding those matrices by role, and cutting the fused ones.
#include "features.hpp"

#include "transformer_families.hpp"

#include "decode/encoding/code_layout.hpp"
#include "model/config/model_config.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>

namespace vindex::model {

namespace {

bool is_feed_forward(Block block) {
  return block == Block::kDenseMlp || block == Block::kRoutedExpert ||
         block == Block::kSharedExpert;
}

/// Where a feed-forward is; of unknown families its name without the part that the role has.
using FeaturePlace = std::tuple<std::int32_t, Block, std::int32_t, std::string>;

FeaturePlace feature_place(const MatrixRecord& matrix) {
  std::string name;
  if (!is_feed_forward(matrix.block)) {
    name = matrix.tensor;
    if (const std::size_t at = name.rfind(matrix.role); at != std::string::npos) {
      name.erase(at, matrix.role.size());
    }
  }
  return {matrix.layer, matrix.block, matrix.expert, name};
}

bool is_gpt_oss(const input::ModelFiles& files) {
  std::vector<Warning> unused;
  const Claims claims(files, unused);
  return claims.architecture() == "gpt_oss" || claims.inner_architecture() == "gpt_oss";
}

FeatureRows rows_of(const MatrixRecord& matrix, FeatureRole role, bool interleaved) {
  if (matrix.role != "gate_up_proj") {
    return {0, 1, matrix.rows};
  }
  const std::int64_t half = matrix.rows / 2;
  const bool second = role == FeatureRole::kUp;
  return interleaved ? FeatureRows{second ? 1 : 0, 2, half}
                     : FeatureRows{second ? half : 0, 1, half};
}

}  // namespace

std::vector<FeatureMatrix> feature_matrices(const input::ModelFiles& files, const ModelIndex& index,
                                            const Selection& selection, FeatureRole role) {
  const std::string wanted = role == FeatureRole::kGate ? "gate_proj" : "up_proj";
  const auto has_features = [&](const MatrixRecord& matrix) {
    return matrix.table == ResultTable::kMatrix &&
           (matrix.role == wanted || matrix.role == "gate_up_proj");
  };
  const bool is_known =
      std::any_of(index.matrices.begin(), index.matrices.end(), [&](const MatrixRecord& matrix) {
        return has_features(matrix) && is_feed_forward(matrix.block);
      });
  const auto is_candidate = [&](const MatrixRecord& matrix) {
    return is_known ? is_feed_forward(matrix.block) : matrix.block == Block::kOther;
  };
  // A place with two down_proj has none that is known to be the one.
  std::map<FeaturePlace, std::vector<std::int64_t>> downs;
  for (std::size_t i = 0; i < index.matrices.size(); ++i) {
    const MatrixRecord& matrix = index.matrices[i];
    if (matrix.table == ResultTable::kMatrix && matrix.role == "down_proj" &&
        is_candidate(matrix)) {
      downs[feature_place(matrix)].push_back(static_cast<std::int64_t>(i));
    }
  }
  const bool interleaved = is_gpt_oss(files);
  std::vector<FeatureMatrix> found;
  for (const std::int64_t i : select(index, selection)) {
    const MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(i)];
    if (!has_features(matrix) || !is_candidate(matrix)) {
      continue;
    }
    FeatureMatrix one{.matrix = i, .rows = rows_of(matrix, role, interleaved)};
    const auto down = downs.find(feature_place(matrix));
    if (down != downs.end() && down->second.size() == 1 &&
        index.matrices[static_cast<std::size_t>(down->second.front())].cols == one.rows.count) {
      one.down = down->second.front();
    }
    found.push_back(one);
  }
  return found;
}

std::optional<MatrixRecord> cut_record(const MatrixRecord& matrix, std::int64_t first,
                                       std::int64_t count) {
  if (matrix.transposed || matrix.encoding.scheme != decode::Scheme::kPlain ||
      !matrix.companions.empty()) {
    return std::nullopt;
  }
  const auto stride = decode::row_bytes(matrix.encoding, static_cast<std::uint64_t>(matrix.cols));
  if (!stride) {
    return std::nullopt;
  }
  expects(first >= 0 && count >= 0 && first + count <= matrix.rows, "cut_record: rows of it");
  MatrixRecord part = matrix;
  part.rows = count;
  part.codes.offset += *stride * static_cast<std::uint64_t>(first);
  part.codes.bytes = *stride * static_cast<std::uint64_t>(count);
  part.codes.rows = count;
  return part;
}

SearchedPart searched_part(const MatrixRecord& matrix, const FeatureRows& rows) {
  if (rows.step == 1 && rows.count < matrix.rows) {
    if (auto half = cut_record(matrix, rows.first, rows.count)) {
      return {std::move(*half), {0, 1, rows.count}};
    }
  }
  return {matrix, rows};
}

VocabularyMatrices vocabulary_matrices(const input::ModelFiles& files, const ModelIndex& index) {
  // Of a model of an unknown family every block is `other`, and roles are names.
  const auto find = [&](Block block, std::string_view role) {
    std::int64_t other = -1;
    for (std::size_t i = 0; i < index.matrices.size(); ++i) {
      const MatrixRecord& matrix = index.matrices[i];
      if (matrix.table != ResultTable::kMatrix || matrix.layer >= 0 || matrix.role != role) {
        continue;
      }
      if (matrix.block == block) {
        return static_cast<std::int64_t>(i);
      }
      if (matrix.block == Block::kOther && other < 0) {
        other = static_cast<std::int64_t>(i);
      }
    }
    return other;
  };
  VocabularyMatrices found{.input = find(Block::kEmbedding, "embed_tokens"),
                           .output = find(Block::kOutput, "lm_head")};
  std::vector<Warning> unused;
  const Claims claims(files, unused);
  if (found.output < 0 && claims.boolean({"tie_word_embeddings"}, {}).value_or(true)) {
    found.output = found.input;
    found.tied = found.input >= 0;
  }
  return found;
}

namespace {

/// Architectures (how their names begin) that multiply by the root of the hidden size unasked.
constexpr std::array<std::string_view, 4> kRootOfHidden = {"gemma", "recurrent_gemma", "t5gemma",
                                                           "vaultgemma"};
/// What llama.cpp takes for GGUF files whose keys do not say it.
struct Default {
  std::string_view architecture;
  double factor;
};
constexpr std::array<Default, 3> kGgufDefaults = {
    {{"minicpm", 12.0}, {"minicpm3", 12.0}, {"grok", 78.38367176906169}}};

}  // namespace

EmbeddingScale embedding_scale(const input::ModelFiles& files, std::int64_t hidden) {
  std::vector<Warning> unused;
  const Claims claims(files, unused);
  const bool is_gguf = files.format == input::ContainerFormat::kGguf;
  const std::string& architecture =
      claims.inner_architecture().empty() ? claims.architecture() : claims.inner_architecture();
  // Of families whose layers are known it is known too whether they have such a key.
  const TransformerFamily* family =
      transformer_family(is_gguf ? Dialect::kGguf : Dialect::kHuggingFace, architecture);
  if (family == nullptr || family->scale == ScoreScale::kMultiplier) {
    if (const auto said = claims.real(
            {"embedding_multiplier", "scale_emb", "embedding_multiplier_scale", "embedding_scale"},
            {"embedding_scale"});
        said && said->second != 0.0) {
      return {said->second, fmt::format("{}: {}", architecture, said->first)};
    }
  }
  const bool takes_root =
      std::any_of(kRootOfHidden.begin(), kRootOfHidden.end(),
                  [&](std::string_view name) { return architecture.starts_with(name); });
  const bool asks_for_root = family == nullptr && claims.flag("scale_embedding");
  const bool afmoe = architecture == "afmoe" && (is_gguf || claims.flag("mup_enabled"));
  if (takes_root || asks_for_root || afmoe) {
    return {std::sqrt(static_cast<double>(hidden)),
            fmt::format("{}: sqrt(hidden size)", architecture)};
  }
  const auto* found =
      std::find_if(kGgufDefaults.begin(), kGgufDefaults.end(),
                   [&](const Default& one) { return one.architecture == architecture; });
  if (is_gguf && found != kGgufDefaults.end()) {
    return {found->factor,
            fmt::format("{}: the factor of llama.cpp, the keys say none", architecture)};
  }
  return {};
}

}  // namespace vindex::model
