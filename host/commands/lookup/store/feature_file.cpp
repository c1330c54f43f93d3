// Owns batches of features: their parts on several threads, and the lists beside the vectors.
#include "feature_file.hpp"

#include "decoded_part.hpp"
#include "feature_sums.hpp"
#include "gate_vector_layout.hpp"
#include "store_embedding.hpp"
#include "vector_writer.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/source_watch.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

namespace vindex::commands {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Features that are worked on together, of one matrix.
struct FeaturePart {
  std::size_t matrix = 0;  ///< of the plan
  std::int64_t first = 0;  ///< feature of that matrix
  std::int64_t count = 0;
};

/// Writes everything but the tables of a file of gate vectors.
class FeatureFile {
 public:
  FeatureFile(const StoreSettings& settings, const FeatureSource& source, StorePlan& plan,
              const engine::RunHooks& hooks)
      : settings_(settings),
        source_(source),
        plan_(plan),
        hooks_(hooks),
        threads_(settings.run.threads > 0 ? settings.run.threads : usable_cores()),
        started_(std::chrono::steady_clock::now()) {
    silent_.stop = hooks.stop;
    const std::uint64_t row = static_cast<std::uint64_t>(plan.width) * sizeof(float);
    part_rows_ =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(kPartBytes / row), 1, kGateChunkRows);
    // The part of gate_proj, and what is decoded of down_proj as stored and as rows.
    working_ =
        static_cast<std::uint64_t>(threads_) * static_cast<std::uint64_t>(part_rows_) * row * 4;
    batch_ = batch_size();
    engine::require_budget(settings.run.ram_budget,
                           fmt::format("{} features at a time", std::min(batch_, plan.features)),
                           2 * memory(batch_));
  }

  void write(results::h5::File& file) {
    file_ = &file;
    file.make_group("/feature");
    VectorWriter vectors(file, "/feature", "feature", plan_.type, plan_.features, plan_.width);
    make_datasets();
    sums_.assign(plan_.matrices.size(), {});
    for (std::int64_t first = 0; first < plan_.features; first += batch_) {
      write_batch(vectors, first, std::min(plan_.features, first + batch_));
      tell(std::min(plan_.features, first + batch_));
    }
    vectors.finish();
    fill_rows();
    if (plan_.embedding >= 0) {
      constexpr std::int64_t kHalf = 2;  // beside what is held no more
      write_embedding(file, source_, plan_,
                      {.threads = static_cast<std::size_t>(threads_),
                       .part_rows = part_rows_,
                       .batch_rows = std::max<std::int64_t>(1, batch_ / kGateChunkRows / kHalf) *
                                     kGateChunkRows,
                       .stop = hooks_.stop});
    }
  }

 private:
  static constexpr std::uint64_t kPartBytes = 8U << 20U;

  /// A batch of features.
  struct Batch {
    std::int64_t first = 0, count = 0;
    std::vector<std::byte> encoded;
    std::vector<EncodedRow> rows;
    std::vector<double> norms, cosines;
    std::vector<float> columns;           ///< of down_proj, where entries are named
    std::vector<std::int8_t> has_column;  ///< per feature
  };

  const model::MatrixRecord& matrix(std::int64_t i) const {
    return source_.index().matrices[static_cast<std::size_t>(i)];
  }
  std::int64_t output_width() const { return matrix(source_.output()).cols; }

  /// Of a batch of `count` features, with what works on them.
  std::uint64_t memory(std::int64_t count) const {
    const auto named = static_cast<std::uint64_t>(plan_.named);
    std::uint64_t one = static_cast<std::uint64_t>(plan_.width) * 4 + sizeof(EncodedRow) + 32;
    if (named > 0) {
      // Columns, and again as queries of the output embedding; lists of every worker.
      one +=
          2 * sizeof(float) * static_cast<std::uint64_t>(output_width() + 16) +
          (static_cast<std::uint64_t>(threads_) + 1) * (named * sizeof(TopK::Item) + sizeof(TopK)) +
          named * (sizeof(TokenScore) + 12) + 64;
    }
    return static_cast<std::uint64_t>(std::min(count, plan_.features)) * one + working_;
  }

  /// As many features as half of the budget holds, whole chunks of them.
  std::int64_t batch_size() const {
    const std::uint64_t budget = settings_.run.ram_budget;
    const auto fits = [&](std::int64_t count) {
      const std::uint64_t search =
          plan_.named > 0 ? search_workspace(matrix(source_.output()), count) : 0;
      return memory(count) <= budget / 2 &&
             static_cast<std::uint64_t>(threads_) * search <= budget / 4;
    };
    std::int64_t chunks = (plan_.features + kGateChunkRows - 1) / kGateChunkRows;
    while (chunks > 1 && !fits(chunks * kGateChunkRows)) {
      chunks = (chunks + 1) / 2;
    }
    return chunks * kGateChunkRows;
  }

  results::h5::Dataset make(const char* name, results::h5::Type type, std::int64_t second,
                            const std::string& long_name, const std::string& second_scale = "") {
    results::h5::Shape shape = {static_cast<std::uint64_t>(plan_.features)};
    results::h5::Layout layout;
    layout.chunk = {static_cast<std::uint64_t>(std::min(plan_.features, kGateChunkRows))};
    layout.deflate = 1;
    std::vector<std::string> scales = {"/feature/feature"};
    if (second > 0) {
      shape.push_back(static_cast<std::uint64_t>(second));
      layout.chunk.push_back(static_cast<std::uint64_t>(second));
      scales.push_back(second_scale);
    }
    results::h5::Dataset dataset =
        file_->make_dataset(std::string("/feature/") + name, type, shape, layout);
    dataset.set_attribute("long_name", long_name);
    dataset.set_attribute("units", "1");
    file_->attach_scales(dataset, scales);
    return dataset;
  }

  void make_datasets() {
    using results::h5::Type;
    norms_ = make("norm", Type::kFloat64, 0, "norm of the decoded row; NaN: not finite");
    cosines_ = make("gate_down_cosine", Type::kFloat64, 0,
                    "cosine of the feature with the column of down_proj that it writes");
    if (plan_.named > 0) {
      const auto count = static_cast<std::uint64_t>(plan_.named);
      results::h5::Dataset ranks = file_->make_dataset("/feature/rank", Type::kInt32, {count}, {});
      std::vector<std::int32_t> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<std::int32_t>(i);
      }
      ranks.write<std::int32_t>(0, count, values);
      ranks.set_attribute("long_name", "the entry raised most is 0");
      ranks.make_scale("rank");
      tokens_ = make("token", Type::kInt32, plan_.named,
                     "entries of the vocabulary that the column of down_proj raises; -1: none",
                     "/feature/rank");
      scores_ = make("token_score", Type::kFloat64, plan_.named,
                     "E_out down[:, feature] of these entries", "/feature/rank");
    }
  }

  std::vector<FeaturePart> parts_of(std::int64_t first, std::int64_t end) const {
    std::vector<FeaturePart> parts;
    for (std::size_t i = 0; i < plan_.matrices.size(); ++i) {
      const StoredMatrix& one = plan_.matrices[i];
      const std::int64_t from = std::max(first, one.first) - one.first;
      const std::int64_t to = std::min(end, one.first + one.features.rows.count) - one.first;
      for (std::int64_t at = from; at < to; at += part_rows_) {
        parts.push_back({i, at, std::min(part_rows_, to - at)});
      }
    }
    return parts;
  }

  void write_batch(VectorWriter& vectors, std::int64_t first, std::int64_t end) {
    Batch batch;
    batch.first = first;
    batch.count = end - first;
    const auto count = static_cast<std::size_t>(batch.count);
    batch.encoded.resize(count * vectors.row_bytes());
    batch.rows.resize(count);
    batch.norms.assign(count, kNaN);
    batch.cosines.assign(count, kNaN);
    if (plan_.named > 0) {
      batch.columns.resize(count * static_cast<std::size_t>(output_width()));
      batch.has_column.assign(count, 0);
    }
    const std::vector<FeaturePart> parts = parts_of(first, end);
    engine::SourceWatch watch(source_.files());
    for_each_index(
        parts.size(), static_cast<std::size_t>(threads_),
        [&](std::size_t /*worker*/, std::size_t i) { decode_part(watch, parts[i], batch); });
    watch.require_unchanged();
    vectors.write(batch.encoded, static_cast<std::size_t>(threads_));
    batch.encoded = {};
    write_numbers(batch);
    if (plan_.named > 0) {
      write_tokens(batch);
    }
    add_sums(batch);
    file_->check_storage();
  }

  void decode_part(engine::SourceWatch& watch, const FeaturePart& part, Batch& batch) {
    throw_if_stopped(hooks_.stop);
    const StoredMatrix& of = plan_.matrices[part.matrix];
    const model::MatrixRecord& record = matrix(of.features.matrix);
    const auto gate = engine::make_streamed_input(watch, record, hooks_.stop);
    const model::FeatureRows& rows = of.features.rows;
    const std::vector<float> weights =
        decoded_rows(*gate, rows.row(part.first), rows.step, part.count);
    std::vector<float> written;
    std::size_t written_width = 0;
    if (const std::int64_t down = of.features.down;
        down >= 0 && model::undecodable_text(matrix(down)).empty()) {
      const auto input = engine::make_streamed_input(watch, matrix(down), hooks_.stop);
      written = decoded_columns(*input, part.first, part.count);
      written_width = static_cast<std::size_t>(matrix(down).rows);
    }
    const auto width = static_cast<std::size_t>(plan_.width);
    const std::size_t row_bytes = batch.encoded.size() / static_cast<std::size_t>(batch.count);
    const std::string name = model::matrix_name(record);
    for (std::int64_t i = 0; i < part.count; ++i) {
      const auto at = static_cast<std::size_t>(of.first + part.first + i - batch.first);
      const auto row = std::span(weights).subspan(static_cast<std::size_t>(i) * width, width);
      const EncodedRow encoded = encode_row(
          row, plan_.type, std::span(batch.encoded).subspan(at * row_bytes, row_bytes), name);
      batch.rows[at] = encoded;
      batch.norms[at] = std::isfinite(encoded.squares) ? std::sqrt(encoded.squares) : kNaN;
      if (written_width == 0) {
        continue;
      }
      const auto column =
          std::span(written).subspan(static_cast<std::size_t>(i) * written_width, written_width);
      batch.cosines[at] = cosine_of(row, column);
      if (plan_.named > 0 && is_writable(column, output_width())) {
        std::copy(column.begin(), column.end(),
                  batch.columns.begin() + static_cast<std::ptrdiff_t>(at * written_width));
        batch.has_column[at] = 1;
      }
    }
  }

  void write_numbers(const Batch& batch) {
    const auto first = static_cast<std::uint64_t>(batch.first);
    const auto count = static_cast<std::uint64_t>(batch.count);
    norms_.write<double>(first, count, batch.norms);
    cosines_.write<double>(first, count, batch.cosines);
  }

  void write_tokens(Batch& batch) {
    const auto width = static_cast<std::size_t>(output_width());
    const auto count = static_cast<std::size_t>(batch.count);
    // Columns that can be multiplied, one after the other.
    std::vector<std::size_t> features;
    for (std::size_t i = 0; i < count; ++i) {
      if (batch.has_column[i] != 0) {
        if (features.size() != i) {
          std::copy_n(batch.columns.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                      batch.columns.begin() + static_cast<std::ptrdiff_t>(features.size() * width));
        }
        features.push_back(i);
      }
    }
    const auto named = static_cast<std::size_t>(plan_.named);
    std::vector<std::int32_t> tokens(count * named, -1);
    std::vector<double> scores(count * named, kNaN);
    if (!features.empty()) {
      const statistics::QueryVectors columns(
          std::span(batch.columns).first(features.size() * width),
          static_cast<std::int64_t>(features.size()), static_cast<std::int64_t>(width));
      batch.columns = {};
      const auto found =
          find_tokens(view(memory(batch.count)), source_.output(), columns, plan_.named);
      if (found.empty()) {
        throw Stopped();
      }
      for (std::size_t i = 0; i < features.size(); ++i) {
        for (std::size_t k = 0; k < found[i].size(); ++k) {
          tokens[features[i] * named + k] = static_cast<std::int32_t>(found[i][k].token);
          scores[features[i] * named + k] = found[i][k].score;
        }
      }
    }
    tokens_.write<std::int32_t>(static_cast<std::uint64_t>(batch.first), count, tokens);
    scores_.write<double>(static_cast<std::uint64_t>(batch.first), count, scores);
  }

  LookupModel view(std::uint64_t reserved_bytes) const {
    return {.files = &source_.files(),
            .index = &source_.index(),
            .hooks = &silent_,
            .options = {.threads = threads_,
                        .ram_budget = settings_.run.ram_budget,
                        .reserved_bytes = reserved_bytes,
                        .reading = settings_.run.reading}};
  }

  void add_sums(const Batch& batch) {
    for (std::size_t i = 0; i < plan_.matrices.size(); ++i) {
      const StoredMatrix& one = plan_.matrices[i];
      const std::int64_t from = std::max(batch.first, one.first);
      const std::int64_t to =
          std::min(batch.first + batch.count, one.first + one.features.rows.count);
      for (std::int64_t feature = from; feature < to; ++feature) {
        const auto at = static_cast<std::size_t>(feature - batch.first);
        sums_[i].add(batch.rows[at], batch.norms[at], batch.cosines[at]);
      }
    }
  }

  void fill_rows() {
    for (std::size_t i = 0; i < plan_.matrices.size(); ++i) {
      const StoredMatrix& one = plan_.matrices[i];
      sums_[i].fill(one.first, one.features.rows.count, plan_.width, plan_.rows[one.row].cells);
    }
  }

  void tell(std::int64_t done) const {
    if (!hooks_.progress) {
      return;
    }
    engine::ProgressSnapshot snapshot;
    snapshot.noun = "features";
    snapshot.total.matrices = plan_.features;
    snapshot.total.cost = static_cast<double>(plan_.features);
    snapshot.done.matrices = done;
    const auto row =
        static_cast<std::uint64_t>(plan_.width) * results::h5::type_bytes(stored_type(plan_.type));
    snapshot.total.bytes = static_cast<std::uint64_t>(plan_.features) * row;
    snapshot.done.bytes = static_cast<std::uint64_t>(done) * row;
    snapshot.done.cost = static_cast<double>(done);
    snapshot.elapsed_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    hooks_.progress(snapshot);
  }

  const StoreSettings& settings_;
  const FeatureSource& source_;
  StorePlan& plan_;
  const engine::RunHooks& hooks_;
  engine::RunHooks silent_;  ///< of passes over the output embedding, one a batch
  std::int32_t threads_;
  std::chrono::steady_clock::time_point started_;
  std::int64_t part_rows_ = 1;
  std::uint64_t working_ = 0;  ///< bytes that the workers take together
  std::int64_t batch_ = kGateChunkRows;
  results::h5::File* file_ = nullptr;
  results::h5::Dataset norms_, cosines_, tokens_, scores_;
  std::vector<FeatureSums> sums_;
};

}  // namespace

results::WriteAhead feature_writer(const StoreSettings& settings, const FeatureSource& source,
                                   StorePlan& plan, const engine::RunHooks& hooks) {
  const auto file = std::make_shared<FeatureFile>(settings, source, plan, hooks);
  return [file](results::h5::File& hdf5) { file->write(hdf5); };
}

}  // namespace vindex::commands
