// Owns an index of matrices over a file of gate vectors, and reading what is stored of features.
#include "stored_features.hpp"

#include "gate_vector_cells.hpp"
#include "gate_vector_layout.hpp"
#include "verified_source.hpp"

#include "core/files/path_kind.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/run/opening.hpp"
#include "input/local/file_source.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/table_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <string_view>
#include <utility>

namespace vindex::commands {

namespace {

using results::h5::Type;

decode::ElementType element_type(Type type) {
  return type == Type::kFloat16    ? decode::ElementType::kF16
         : type == Type::kBFloat16 ? decode::ElementType::kBF16
                                   : decode::ElementType::kF32;
}

class StoredFeatures final : public FeatureSource {
 public:
  explicit StoredFeatures(const std::string& path)
      : reader_(path, results::FileSchema::kGateVectors) {
    if (reader_.header().part || reader_.header().status != "complete") {
      refuse("/", "no complete file of gate vectors");
    }
    files_.path = path;
    open_vectors();
    add_gates();
    if (file().text_attribute("/", kNoTokensAttribute).empty()) {
      named_ = file().open_dataset("/feature/token").side(1);
    }
  }

  const input::ModelFiles& files() const override { return files_; }
  const model::ModelIndex& index() const override { return index_; }
  std::int64_t embedding() const override { return embedding_; }
  std::int64_t output() const override { return -1; }
  std::int64_t most_tokens() const override { return static_cast<std::int64_t>(named_); }
  std::string made_of() const override { return file().text_attribute("/", "model"); }

  model::EmbeddingScale scale() const override {
    model::EmbeddingScale scale;
    if (embedding_ >= 0) {
      scale.factor = results::read_numbers<double>(file(), "/embedding/scale", {1}).front();
      scale.source = file().text_attribute("/", kScaleSourceAttribute);
      if (!std::isfinite(scale.factor)) {
        refuse("/embedding/scale", "no factor");
      }
    }
    return scale;
  }

  std::optional<model::Vocabulary> vocabulary(const std::string& tokenizer) const override {
    return tokenizer.empty() ? stored_vocabulary(file())
                             : model::read_vocabulary(files_, tokenizer);
  }

  std::vector<model::FeatureMatrix> features(const model::Selection& selection,
                                             model::FeatureRole role) const override {
    const std::string stored = file().text_attribute("/", kFeatureRoleAttribute);
    const char* const wanted = role == model::FeatureRole::kGate ? "gate_proj" : "up_proj";
    if (stored != wanted) {
      throw MissingInputError("E-NOTHING", fmt::format("{}: nothing to search: it holds {}, not {}",
                                                       printable(files_.path), stored, wanted));
    }
    std::vector<model::FeatureMatrix> found;
    for (const std::int64_t i : model::select(index_, selection)) {
      if (i < std::ssize(first_)) {
        found.push_back({.matrix = i,
                         .rows = {0, 1, index_.matrices[static_cast<std::size_t>(i)].rows},
                         .down = -1});
      }
    }
    if (found.empty()) {
      throw UsageError("E-SELECTION", fmt::format("{}: {}", printable(files_.path),
                                                  no_features_text(index_, selection)));
    }
    return found;
  }

  FeatureDescriptions describe(const LookupModel& /*model*/,
                               const std::vector<model::FeatureMatrix>& features,
                               const std::vector<FeatureKey>& keys, std::int64_t most) override {
    FeatureDescriptions found;
    const auto named = std::min(static_cast<std::uint64_t>(most), named_);
    if (most > 0 && named == 0) {
      found.no_tokens = file().text_attribute("/", kNoTokensAttribute);
    }
    const results::h5::Dataset cosines = file().open_dataset("/feature/gate_down_cosine");
    std::vector<std::int32_t> tokens(named_);
    std::vector<double> scores(named_);
    for (const FeatureKey& key : keys) {
      const std::int64_t matrix = features[static_cast<std::size_t>(key.first)].matrix;
      const std::uint64_t row =
          first_[static_cast<std::size_t>(matrix)] + static_cast<std::uint64_t>(key.second);
      FeatureDescriptions::One& one = found.of[key];
      cosines.read<double>(row, 1, std::span(&one.gate_down_cosine, 1));
      if (named > 0) {
        token_dataset().read<std::int32_t>(row, 1, tokens);
        score_dataset().read<double>(row, 1, scores);
        for (std::size_t i = 0; i < named && tokens[i] >= 0; ++i) {
          one.tokens.push_back({tokens[i], scores[i]});
        }
      }
    }
    return found;
  }

 private:
  const results::h5::File& file() const { return reader_.file(); }
  [[noreturn]] void refuse(const std::string& path, const std::string& why) const {
    throw FormatError("E-RESULTS-SCHEMA", printable(file().label() + " " + path), why);
  }
  const results::h5::Dataset& token_dataset() {
    if (!tokens_) {
      tokens_ = file().open_dataset("/feature/token");
    }
    return *tokens_;
  }
  const results::h5::Dataset& score_dataset() {
    if (!scores_) {
      scores_ = file().open_dataset("/feature/token_score");
    }
    return *scores_;
  }

  static VerifiedRange range_of(StoredVectors& vectors) {
    return {.first = vectors.place,
            .bytes = vectors.bytes(),
            .block_bytes =
                static_cast<std::uint64_t>(block_rows(vectors.row_bytes())) * vectors.row_bytes(),
            .digests = std::move(vectors.digests)};
  }

  /// The file as one shard with a tensor of vectors, and the embedding as another.
  void open_vectors() {
    vectors_ = stored_vectors(file(), "/feature", file().size());
    std::vector<VerifiedRange> ranges = {range_of(vectors_)};
    add_tensor("gate vectors", vectors_);
    if (file().exists("/embedding")) {
      StoredVectors embedding = stored_vectors(file(), "/embedding", file().size());
      if (embedding.cols != vectors_.cols) {
        refuse("/embedding/vectors", "other columns than the features have");
      }
      ranges.push_back(range_of(embedding));
      add_tensor("embed_tokens", embedding);
      embedding_rows_ = embedding;
    }
    auto source = input::open_file_source(files_.path);
    input::Shard shard;
    shard.path = files_.path;
    shard.file_name = file_name_of(files_.path);
    shard.identity = source->identity();
    shard.source = make_verified_source(std::move(source), std::move(ranges));
    files_.shards.push_back(std::move(shard));
  }

  void add_tensor(const char* name, const StoredVectors& vectors) {
    files_.tensors.push_back({.name = name,
                              .type = element_type(vectors.type),
                              .shape = {static_cast<std::int64_t>(vectors.rows),
                                        static_cast<std::int64_t>(vectors.cols)},
                              .shard = 0,
                              .offset = vectors.place,
                              .bytes = vectors.bytes()});
  }

  /// `rows` rows of tensor `tensor` from `first` on as a matrix.
  model::MatrixRecord record(std::int32_t tensor, const StoredVectors& vectors, std::uint64_t first,
                             std::int64_t rows) const {
    model::MatrixRecord record;
    record.shard = file_name_of(files_.path);
    record.rows = rows;
    record.cols = static_cast<std::int64_t>(vectors.cols);
    record.encoding = decode::plain_encoding(element_type(vectors.type));
    record.codes = {.tensor = tensor,
                    .offset = vectors.place + first * vectors.row_bytes(),
                    .bytes = static_cast<std::uint64_t>(rows) * vectors.row_bytes(),
                    .rows = record.rows,
                    .cols = record.cols};
    return record;
  }

  void add_gates() {
    std::uint64_t next = 0;
    for (const results::StoredRow& row : reader_.rows(0)) {
      model::MatrixRecord matrix;
      if (row.status == MatrixStatus::kMeasured) {
        const double features = row.cell(gate_vector_cell("features"));
        if (!(features >= 1.0) || features > static_cast<double>(vectors_.rows - next) ||
            row.cell(gate_vector_cell("first")) != static_cast<double>(next)) {
          refuse("/gate", results::row_key(row) + " has features that are not its own");
        }
        matrix = record(0, vectors_, next, static_cast<std::int64_t>(features));
      } else {
        matrix.rows = std::max<std::int64_t>(row.rows, 0);
        matrix.cols = row.cols;
        matrix.unsupported = row.reason.empty() ? "not in the file" : row.reason;
      }
      matrix.tensor = row.tensor;
      matrix.slice = row.slice;
      matrix.layer = row.layer;
      matrix.expert = row.expert;
      matrix.block = row.block;
      matrix.role = row.role;
      first_.push_back(next);
      next += static_cast<std::uint64_t>(matrix.unsupported.empty() ? matrix.rows : 0);
      index_.matrices.push_back(std::move(matrix));
    }
    if (next != vectors_.rows) {
      refuse("/feature/vectors", "other rows than the matrices of /gate have");
    }
    if (embedding_rows_) {
      embedding_ = std::ssize(index_.matrices);
      model::MatrixRecord matrix =
          record(1, *embedding_rows_, 0, static_cast<std::int64_t>(embedding_rows_->rows));
      matrix.tensor = matrix.role = "embed_tokens";
      matrix.block = model::Block::kEmbedding;
      index_.matrices.push_back(std::move(matrix));
    }
  }

  results::ResultsReader reader_;
  input::ModelFiles files_;
  model::ModelIndex index_;
  StoredVectors vectors_;
  std::optional<StoredVectors> embedding_rows_;
  std::vector<std::uint64_t> first_;  ///< row of /feature/ by matrix
  std::int64_t embedding_ = -1;
  std::uint64_t named_ = 0;  ///< entries of the vocabulary for each feature
  std::optional<results::h5::Dataset> tokens_, scores_;
};

}  // namespace

bool is_stored_features(const std::string& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  return path_kind(path) == PathKind::kFile &&
         engine::beginning_of_file(path, kSignature.size()) == kSignature;
}

std::unique_ptr<FeatureSource> open_stored_features(const std::string& path) {
  return std::make_unique<StoredFeatures>(path);
}

}  // namespace vindex::commands
