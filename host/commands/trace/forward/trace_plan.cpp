// Owns listing stages, and sharing the budget.
#include "trace_plan.hpp"

#include "layer_blocks.hpp"

#include "core/integers.hpp"
#include "engine/plan/memory_budget.hpp"
#include "input/bulk/read_extent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::commands {

namespace {

/// Encoded rows of the embedding that are read at once.
constexpr std::uint64_t kEmbeddingBytes = 4U << 20U;

std::uint64_t bytes_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * sizeof(float);
}

/// Matrices of a stage, each once.
class MatrixList {
 public:
  void add(std::int64_t matrix) {
    if (matrix >= 0 && std::find(list_.begin(), list_.end(), matrix) == list_.end()) {
      list_.push_back(matrix);
    }
  }
  void add(const model::Linear& linear) { add(linear.weight.matrix); }
  void add(const model::FeedForward& ffn) {
    add(ffn.gate);
    add(ffn.up);
    add(ffn.down);
  }
  void add(const model::Attention& attention) {
    for (const model::Linear* linear :
         {&attention.q_a, &attention.q_b, &attention.q, &attention.kv_a, &attention.kv_b,
          &attention.k, &attention.v}) {
      add(*linear);
    }
    for (std::size_t head = 0; head < attention.k_b_heads.size(); ++head) {
      add(attention.k_b_heads[head]);
    }
    for (std::size_t head = 0; head < attention.v_b_heads.size(); ++head) {
      add(attention.v_b_heads[head]);
    }
    add(attention.o);
  }
  std::vector<std::int64_t> take() { return std::move(list_); }

 private:
  std::vector<std::int64_t> list_;
};

const model::MatrixRecord& record(const model::ModelIndex& index, std::int64_t matrix) {
  return index.matrices[as_size(matrix)];
}

double weights_of(const std::vector<std::int64_t>& matrices, const model::ModelIndex& index) {
  double weights = 0.0;
  for (const std::int64_t matrix : matrices) {
    weights += static_cast<double>(record(index, matrix).rows) *
               static_cast<double>(record(index, matrix).cols);
  }
  return weights;
}

class StageList {
 public:
  StageList(const model::Transformer& transformer, const model::ModelIndex& index,
            const TracePrompts& prompts)
      : transformer_(transformer), index_(index), tokens_(static_cast<double>(prompts.tokens())) {
    for (const std::int64_t length : prompts.lengths) {
      pairs_ += 0.5 * static_cast<double>(length) * static_cast<double>(length);
    }
  }

  void add_embedding() {
    TraceStage stage;
    stage.kind = StageKind::kEmbedding;
    stage.matrices = {transformer_.embedding};
    stage.name = "embedding";
    stage.cost = tokens_ * static_cast<double>(transformer_.hidden);
    stages_.push_back(std::move(stage));
  }

  void add_layer(std::size_t number) {
    const model::TransformerLayer& layer = transformer_.layers[number];
    const model::Attention& attention = layer.attention;
    MatrixList list;
    list.add(attention);
    TraceStage& first = add(StageKind::kAttention, number, "attention", list.take(), tokens_);
    first.cost += 2.0 * pairs_ * static_cast<double>(attention.heads) *
                  static_cast<double>(attention.head_dim + attention.value_dim);
    if (layer.dense) {
      list.add(*layer.dense);
      add(StageKind::kDense, number, "feed-forward", list.take(), tokens_);
    } else {
      add_mixture(number, *layer.mixture);
    }
    stages_.back().ends_layer = true;
  }

  std::vector<TraceStage> take() { return std::move(stages_); }

 private:
  TraceStage& add(StageKind kind, std::size_t layer, const std::string& what,
                  std::vector<std::int64_t> matrices, double tokens) {
    TraceStage stage;
    stage.kind = kind;
    stage.layer = layer;
    stage.name = fmt::format("layer {}, {}", transformer_.layers[layer].number, what);
    // Decoding a weight takes about as long as multiplying it with a few tokens.
    constexpr double kDecoding = 8.0;
    stage.cost = 2.0 * (tokens + kDecoding) * weights_of(matrices, index_);
    stage.matrices = std::move(matrices);
    stages_.push_back(std::move(stage));
    return stages_.back();
  }

  void add_mixture(std::size_t number, const model::Mixture& mixture) {
    MatrixList list;
    list.add(mixture.router);
    if (mixture.shared) {
      list.add(*mixture.shared);
    }
    add(StageKind::kRouter, number, "router", list.take(), tokens_);
    const double each = tokens_ * static_cast<double>(mixture.rule.top_k) /
                        static_cast<double>(mixture.experts.size());
    for (std::size_t expert = 0; expert < mixture.experts.size(); ++expert) {
      list.add(mixture.experts[expert]);
      add(StageKind::kExpert, number, fmt::format("expert {}", expert), list.take(), each).expert =
          expert;
    }
    add(StageKind::kSum, number, "sum of experts", {}, tokens_);
  }

  const model::Transformer& transformer_;
  const model::ModelIndex& index_;
  double tokens_;
  double pairs_ = 0.0;  ///< of a token and one that it sees
  std::vector<TraceStage> stages_;
};

/// Memory of blocks: the most that a stage takes.
class BlockMemory {
 public:
  BlockMemory(const model::Transformer& transformer, const TracePrompts& prompts,
              const ForwardBackend& backend, const model::ModelIndex& index)
      : transformer_(transformer), backend_(backend), longest_(prompts.longest()) {
    for (const model::MatrixRecord& matrix : index.matrices) {
      linear_ = std::max(linear_, backend.linear_bytes(matrix.stored_rows(), matrix.stored_cols()));
    }
  }

  std::uint64_t attention(std::int64_t tokens) const {
    std::uint64_t most = 0;
    for (const model::TransformerLayer& layer : transformer_.layers) {
      const model::Attention& attention = layer.attention;
      const AttentionCall call = {.tokens = std::min(tokens, longest_),
                                  .heads = attention.heads,
                                  .kv_heads = attention.kv_heads,
                                  .head_dim = attention.head_dim,
                                  .value_dim = attention.value_dim,
                                  .window = attention.window};
      most = std::max(most, attend_bytes(transformer_, layer, tokens, longest_) +
                                backend_.attention_bytes(call));
    }
    return most + bytes_of(tokens, transformer_.hidden) + linear_;
  }

  std::uint64_t feed_forward(std::int64_t tokens) const {
    std::uint64_t most = 0;
    for (const model::TransformerLayer& layer : transformer_.layers) {
      if (layer.dense) {
        most = std::max(most, of(*layer.dense, tokens));
      } else {
        // Logits, and what becomes of them.
        constexpr std::uint64_t kRoutedToken = 128, kChoice = 16;
        const model::Mixture& mixture = *layer.mixture;
        std::uint64_t router =
            bytes_of(tokens, std::ssize(mixture.experts)) +
            static_cast<std::uint64_t>(tokens) *
                (kRoutedToken + kChoice * static_cast<std::uint64_t>(mixture.rule.top_k));
        if (mixture.shared) {
          router += of(*mixture.shared, tokens);
        }
        most = std::max(most, router);
        for (const model::FeedForward& expert : mixture.experts) {
          most = std::max(most, of(expert, tokens));
        }
      }
    }
    return most + 3 * bytes_of(tokens, transformer_.hidden) + linear_;
  }

  std::int64_t longest() const { return longest_; }

 private:
  static std::uint64_t of(const model::FeedForward& ffn, std::int64_t tokens) {
    return feed_forward_bytes(ffn, tokens) + bytes_of(tokens, ffn.neurons);
  }

  const model::Transformer& transformer_;
  const ForwardBackend& backend_;
  std::int64_t longest_;
  std::uint64_t linear_ = 0;
};

}  // namespace

std::vector<TraceStage> plan_stages(const model::Transformer& transformer,
                                    const model::ModelIndex& index, const TracePrompts& prompts,
                                    std::int32_t first_layer) {
  StageList list(transformer, index, prompts);
  if (first_layer == 0) {
    list.add_embedding();
  }
  for (auto layer = static_cast<std::size_t>(first_layer); layer < transformer.layers.size();
       ++layer) {
    list.add_layer(layer);
  }
  return list.take();
}

std::vector<engine::RowWork> stage_works(const std::vector<TraceStage>& stages,
                                         const model::ModelIndex& index,
                                         const ForwardBackend& backend) {
  std::vector<engine::RowWork> works;
  works.reserve(stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    engine::RowWork& work = works.emplace_back();
    work.row = static_cast<std::int64_t>(i);
    work.name = stages[i].name;
    work.cost = stages[i].cost;
    for (const std::int64_t number : stages[i].matrices) {
      const model::MatrixRecord& matrix = record(index, number);
      const std::uint64_t companions = engine::stored_bytes(matrix) - matrix.codes.bytes;
      const std::uint64_t staged = engine::staged_bytes(matrix).slot;
      work.matrices.push_back({0, number});
      work.read_bytes += engine::stored_bytes(matrix);
      work.slot = std::max(work.slot, staged);
      work.packed += staged;
      // Each keeps the slab that it was asked for last.
      work.streamed +=
          companions + std::min(matrix.codes.bytes,
                                backend.linear_bytes(matrix.stored_rows(), matrix.stored_cols()));
      if (stages[i].kind == StageKind::kEmbedding) {
        work.reading = engine::Reading::kPieces;
        work.pieces = companions + kEmbeddingBytes;
      }
    }
  }
  return works;
}

TraceMemory plan_memory(const model::Transformer& transformer, const TracePrompts& prompts,
                        const std::vector<engine::RowWork>& works, const ForwardBackend& backend,
                        const model::ModelIndex& index, std::uint64_t ram_budget,
                        std::uint64_t reserved_bytes) {
  const BlockMemory blocks(transformer, prompts, backend, index);
  const std::int64_t tokens = prompts.tokens();
  const std::int64_t longest = blocks.longest();

  bool has_mixture = false;
  std::uint64_t choices = 0;
  for (const model::TransformerLayer& layer : transformer.layers) {
    if (layer.mixture) {
      has_mixture = true;
      choices = std::max(choices, static_cast<std::uint64_t>(layer.mixture->rule.top_k));
    }
  }
  // Which tokens an expert has, and their weights, in lists that grow by doubling.
  constexpr std::uint64_t kChoice = 2 * (sizeof(std::int64_t) + sizeof(float));
  const std::uint64_t fixed =
      reserved_bytes + kTraceBeside +
      prompts.ids.size() * (sizeof(std::int32_t) + sizeof(std::int64_t) + choices * kChoice) +
      prompts.lengths.size() * sizeof(std::int64_t);

  std::uint64_t whole = 0, least_weights = 0;
  for (const engine::RowWork& work : works) {
    const std::uint64_t all = work.packed + input::kDirectAlignment;
    const bool pieces = work.reading == engine::Reading::kPieces;
    whole = std::max(whole, pieces ? work.pieces : all);
    least_weights = std::max(least_weights, pieces ? work.pieces : std::min(all, work.streamed));
  }
  const std::uint64_t block =
      std::max(blocks.attention(std::max(longest, std::min(tokens, kTraceBlock))),
               blocks.feed_forward(std::min(tokens, kTraceBlock)));

  TraceMemory memory;
  memory.least = fixed + least_weights + block;
  engine::require_budget(
      ram_budget,
      fmt::format("a forward pass of {} tokens, the longest prompt of {},", tokens, longest),
      memory.least);
  // Weights that are read slab by slab are read again for every block: they come first.
  std::uint64_t left = ram_budget - fixed - block;
  left -= left >= whole ? whole : least_weights;
  const std::uint64_t rows = bytes_of(tokens, transformer.hidden) * (has_mixture ? 2 : 1);
  memory.rows_in_file = rows > left;
  memory.reserved_bytes = fixed + block + (memory.rows_in_file ? 0 : rows);
  return memory;
}

}  // namespace vindex::commands
