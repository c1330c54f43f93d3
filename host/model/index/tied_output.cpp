// Owns comparing the two.
#include "tied_output.hpp"

#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace vindex::model {

namespace {

using input::StoredTensor;

/// Heads of their own differ from the embedding in their first bytes.
constexpr std::uint64_t kProbe = 64U << 10U;
/// Places that are looked at where a whole comparison is not asked for; what is no longer than
/// these together is compared whole.
constexpr std::uint64_t kProbes = 16;
/// One task; same_bytes() holds a mebibyte of each.
constexpr std::uint64_t kPiece = 8U << 20U;
constexpr std::uint64_t kTaskMemory = 2U << 20U;

class StoredPair {
 public:
  StoredPair(const input::ModelFiles& files, const StoredTensor& a, const StoredTensor& b)
      : a_(a), b_(b), source_a_(source_of(files, a)), source_b_(source_of(files, b)) {}

  /// Whether both are of one type and shape and can be read.
  bool is_alike() const {
    return a_.type == b_.type && a_.shape == b_.shape && a_.bytes == b_.bytes &&
           source_a_ != nullptr && source_b_ != nullptr;
  }

  /// Equal at places spread evenly over the whole.
  bool probes_agree() const {
    const std::uint64_t last = a_.bytes < kProbe ? 0 : a_.bytes - kProbe;
    for (std::uint64_t i = 0; i < kProbes; ++i) {
      const std::uint64_t at = last / (kProbes - 1) * i + last % (kProbes - 1) * i / (kProbes - 1);
      if (!agree(at, std::min(kProbe, a_.bytes))) {
        return false;
      }
    }
    return true;
  }

  bool all_agree(std::int32_t threads) const {
    if (!agree(0, std::min(kProbe, a_.bytes))) {
      return false;
    }
    std::atomic<bool> same = true;
    for_each_index(ceil_divide(a_.bytes, kPiece), thread_count(kTaskMemory, threads),
                   [&](std::size_t /*worker*/, std::size_t piece) {
                     const std::uint64_t at = piece * kPiece;
                     if (same && !agree(at, std::min(kPiece, a_.bytes - at))) {
                       same = false;
                     }
                   });
    return same;
  }

 private:
  static ByteSource* source_of(const input::ModelFiles& files, const StoredTensor& tensor) {
    return files.shards[static_cast<std::size_t>(tensor.shard)].source.get();
  }

  bool agree(std::uint64_t at, std::uint64_t bytes) const {
    return same_bytes(*source_a_, a_.offset + at, *source_b_, b_.offset + at, bytes);
  }

  const StoredTensor& a_;
  const StoredTensor& b_;
  ByteSource* source_a_;
  ByteSource* source_b_;
};

enum class ByteComparison : std::uint8_t { kSame, kSameProbes, kDifferent };

/// Codes with codes, every companion with its counterpart.
ByteComparison compare(const input::ModelFiles& files, const TensorRecord& embedding,
                       const TensorRecord& output, TiedOutput extent, std::int32_t threads) {
  if (embedding.stored.size() != output.stored.size() || embedding.encoding != output.encoding ||
      embedding.shape != output.shape) {
    return ByteComparison::kDifferent;
  }
  std::vector<StoredPair> comparisons;
  for (std::size_t i = 0; i < output.stored.size(); ++i) {
    const auto stored = [&](const TensorRecord& record) -> const StoredTensor& {
      return files.tensors[static_cast<std::size_t>(record.stored[i])];
    };
    comparisons.emplace_back(files, stored(embedding), stored(output));
    if (!comparisons.back().is_alike()) {
      return ByteComparison::kDifferent;
    }
  }
  ByteComparison comparison = ByteComparison::kSame;
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const std::uint64_t bytes = files.tensors[static_cast<std::size_t>(output.stored[i])].bytes;
    const bool whole = extent == TiedOutput::kCompareAll || bytes <= kProbes * kProbe;
    if (!(whole ? comparisons[i].all_agree(threads) : comparisons[i].probes_agree())) {
      return ByteComparison::kDifferent;
    }
    comparison = whole ? comparison : ByteComparison::kSameProbes;
  }
  return comparison;
}

std::string comparison_text(ByteComparison comparison, const std::string& output,
                            const std::string& embedding) {
  const std::string both = fmt::format("{} is stored although the configuration ties it to {}",
                                       printable(output), printable(embedding));
  switch (comparison) {
    case ByteComparison::kSame:
      return both + "; their bytes are the same, and it counts once";
    case ByteComparison::kSameProbes:
      return fmt::format(
          "{}; their bytes are the same at {} places, and it counts once (a measurement compares "
          "all of them)",
          both, kProbes);
    case ByteComparison::kDifferent:
      break;
  }
  return both + ", and differs from it: both count, and logits are made by the stored one";
}

}  // namespace

void judge_tied_output(const input::ModelFiles& files, TiedOutput extent, std::int32_t threads,
                       ModelIndex& index) {
  const auto find = [&](Block block, std::string_view role) {
    return std::find_if(index.matrices.begin(), index.matrices.end(), [&](const MatrixRecord& m) {
      return m.layer == -1 && m.block == block && m.role == role;
    });
  };
  const auto embedding = find(Block::kEmbedding, "embed_tokens");
  const auto output = find(Block::kOutput, "lm_head");
  if (embedding == index.matrices.end() || output == index.matrices.end()) {
    return;
  }
  const auto record_of = [&](const MatrixRecord& matrix) -> TensorRecord& {
    return index.tensors[static_cast<std::size_t>(matrix.tensor_record)];
  };
  TensorRecord& record = record_of(*output);
  const ByteComparison comparison = compare(files, record_of(*embedding), record, extent, threads);
  index.warnings.push_back(
      {"W-TIED", comparison_text(comparison, output->tensor, embedding->tensor)});
  if (comparison != ByteComparison::kDifferent) {
    record.in_matrix = false;
    record.reason = "tied to " + embedding->tensor;
    index.matrices.erase(output);
  }
}

}  // namespace vindex::model
