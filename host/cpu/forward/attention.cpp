// Owns the blocks of an attention. A thread takes a few consecutive queries of the heads that share
// keys, and goes through what they may see block by block of keys: scores by one product, the
// softmax as far as it is known, outputs by another product, corrected where a larger score comes
// (Dao et al. 2022). So memory does not grow with the prompt, and blocks follow from the shape
// alone: no bit depends on threads.
#include "attention.hpp"

#include "softmax.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "cpu/workspace/workspace.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <vector>

namespace vindex::cpu {

namespace {

/// Rows of a block, queries times heads that share keys: their keys are packed once for all.
constexpr std::int64_t kBlockRows = 128;
constexpr std::int64_t kBlockKeys = 512;
/// Heads of a block at most, so that it does not shrink to a few queries.
constexpr std::int64_t kBlockHeads = 8;
/// Multiplications that are worth a thread's start.
constexpr std::int64_t kAttentionOfThread = std::int64_t{1} << 20U;

struct AttentionShape {
  std::int64_t group = 1;         ///< heads that share keys
  std::int64_t heads = 1;         ///< of a block
  std::int64_t head_blocks = 1;   ///< of a group
  std::int64_t queries = 1;       ///< of a block
  std::int64_t query_blocks = 1;  ///< of the prompt
  std::int64_t rows() const { return heads * queries; }
};

AttentionShape attention_shape(const AttentionCall& call) {
  AttentionShape shape;
  shape.group = call.heads / call.kv_heads;
  shape.heads = std::min(shape.group, kBlockHeads);
  shape.head_blocks = ceil_divide(shape.group, shape.heads);
  shape.queries = std::min(call.tokens, kBlockRows / shape.heads);
  shape.query_blocks = ceil_divide(call.tokens, shape.queries);
  return shape;
}

/// What a thread works in.
struct Room {
  Room(Workspace& workspace, const AttentionCall& call, const AttentionShape& shape)
      : queries(workspace, shape.rows() * call.head_dim, "queries of a block"),
        scores(workspace, shape.rows() * kBlockKeys, "scores of a block"),
        outputs(workspace, shape.rows() * call.value_dim, "outputs of a block"),
        states(as_size(shape.rows())) {}
  WorkArray<float> queries, scores, outputs;
  std::vector<SoftmaxState> states;
};

/// Queries [first, first + count) of `heads` heads from `head` on, which see the keys of `kv_head`.
/// Row h * count + i of a block is query i of head h.
struct AttentionBlock {
  std::int64_t head = 0, heads = 0, kv_head = 0;
  std::int64_t first = 0, count = 0;
  std::int64_t rows() const { return heads * count; }
};

/// First key that the query at `position` sees.
std::int64_t first_seen(const AttentionCall& call, std::int64_t position) {
  return call.window > 0 ? std::max<std::int64_t>(0, position - call.window + 1) : 0;
}

void begin_block(const AttentionCall& call, const AttentionBlock& block, Room& room) {
  const auto factor = static_cast<float>(call.scale);
  for (std::int64_t h = 0; h < block.heads; ++h) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      const float* const from =
          call.q + ((block.first + i) * call.heads + block.head + h) * call.head_dim;
      float* const into = room.queries.data() + (h * block.count + i) * call.head_dim;
      for (std::int64_t d = 0; d < call.head_dim; ++d) {
        into[d] = from[d] * factor;
      }
      // A sink is a score without a value.
      room.states[as_size(h * block.count + i)] =
          call.sinks != nullptr ? SoftmaxState{call.sinks[block.head + h], 1.0} : SoftmaxState{};
    }
  }
  std::fill_n(room.outputs.data(), block.rows() * call.value_dim, 0.0F);
}

/// Keys [first, first + count).
void add_keys(const AttentionCall& call, const AttentionBlock& block, std::int64_t first,
              std::int64_t count, Room& room) {
  const std::int64_t key_stride = call.kv_heads * call.head_dim;
  const std::int64_t value_stride = call.kv_heads * call.value_dim;
  blas::blas().cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_int(block.rows()),
                           as_int(count), as_int(call.head_dim), 1.0F, room.queries.data(),
                           as_int(call.head_dim),
                           call.k + first * key_stride + block.kv_head * call.head_dim,
                           as_int(key_stride), 0.0F, room.scores.data(), as_int(count));
  for (std::int64_t row = 0; row < block.rows(); ++row) {
    const std::int64_t position = block.first + row % block.count;
    const std::int64_t begin =
        std::clamp<std::int64_t>(first_seen(call, position) - first, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(position + 1 - first, begin, count);
    float* const scores = room.scores.data() + row * count;
    std::fill(scores, scores + begin, 0.0F);
    std::fill(scores + end, scores + count, 0.0F);
    if (begin == end) {
      continue;
    }
    const float factor = take_scores(scores + begin, end - begin, static_cast<float>(call.soft_cap),
                                     room.states[as_size(row)]);
    if (factor != 1.0F) {
      scale(room.outputs.data() + row * call.value_dim, call.value_dim, factor);
    }
  }
  blas::blas().cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, as_int(block.rows()),
                           as_int(call.value_dim), as_int(count), 1.0F, room.scores.data(),
                           as_int(count),
                           call.v + first * value_stride + block.kv_head * call.value_dim,
                           as_int(value_stride), 1.0F, room.outputs.data(), as_int(call.value_dim));
}

void end_block(const AttentionCall& call, const AttentionBlock& block, const Room& room) {
  for (std::int64_t h = 0; h < block.heads; ++h) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      const std::int64_t row = h * block.count + i;
      const auto factor = static_cast<float>(1.0 / room.states[as_size(row)].sum);
      const float* const from = room.outputs.data() + row * call.value_dim;
      float* const into =
          call.out + ((block.first + i) * call.heads + block.head + h) * call.value_dim;
      for (std::int64_t d = 0; d < call.value_dim; ++d) {
        into[d] = from[d] * factor;
      }
    }
  }
}

void attend_block(const AttentionCall& call, const AttentionBlock& block, Room& room,
                  const std::stop_token& stop) {
  begin_block(call, block, room);
  const std::int64_t end = block.first + block.count;
  for (std::int64_t key = first_seen(call, block.first); key < end; key += kBlockKeys) {
    throw_if_stopped(stop);
    add_keys(call, block, key, std::min(kBlockKeys, end - key), room);
  }
  end_block(call, block, room);
}

}  // namespace

void attend_causally(const AttentionCall& call, std::int32_t threads, const std::stop_token& stop) {
  expects(call.kv_heads > 0 && call.heads % call.kv_heads == 0,
          "attention: heads in groups of one size");
  if (call.tokens == 0) {
    return;
  }
  throw_if_stopped(stop);
  const AttentionShape shape = attention_shape(call);
  const std::int64_t work =
      call.heads * call.tokens * call.tokens * (call.head_dim + call.value_dim) / 2;
  Workspace workspace(0);
  std::vector<Room> rooms;
  for (std::int64_t i = 0;
       i < std::clamp<std::int64_t>(work / kAttentionOfThread, 1, std::max(threads, 1)); ++i) {
    rooms.emplace_back(workspace, call, shape);
  }
  const std::int64_t across = call.kv_heads * shape.head_blocks;
  for_each_index(as_size(across * shape.query_blocks), rooms.size(),
                 [&](std::size_t worker, std::size_t index) {
                   const auto i = static_cast<std::int64_t>(index);
                   // The last queries see most: they begin, so that no thread ends with them.
                   const std::int64_t first = (shape.query_blocks - 1 - i / across) * shape.queries;
                   const std::int64_t kv_head = i % across / shape.head_blocks;
                   const std::int64_t within = i % shape.head_blocks * shape.heads;
                   attend_block(call,
                                {.head = kv_head * shape.group + within,
                                 .heads = std::min(shape.heads, shape.group - within),
                                 .kv_head = kv_head,
                                 .first = first,
                                 .count = std::min(shape.queries, call.tokens - first)},
                                rooms[worker], stop);
                 });
}

std::uint64_t attention_bytes(const AttentionCall& call, std::int32_t threads) {
  if (call.tokens == 0) {
    return 0;
  }
  const AttentionShape shape = attention_shape(call);
  const std::int64_t rows = shape.rows();
  return static_cast<std::uint64_t>(threads) *
         (array_bytes(rows * call.head_dim, sizeof(float)) +
          array_bytes(rows * kBlockKeys, sizeof(float)) +
          array_bytes(rows * call.value_dim, sizeof(float)) +
          static_cast<std::uint64_t>(rows) * sizeof(SoftmaxState));
}

}  // namespace vindex::cpu
