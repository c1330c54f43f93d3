// Owns reading rows of a dumped matrix in any order: runs of rows one after the other, as stored or
// pooled by prompt. What a prompt's permutation or a layer larger than memory needs.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/units/source_watch.hpp"
#include "model/dump/dump.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::engine {

/// How rows of prompts become one.
enum class Pooling : std::uint8_t {
  kNone,  ///< rows are tokens
  kMean,
  kLast,  ///< the last token's
};

/// Rows [first, first + count).
struct RowRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Rows [first, first + count) of the sequence that `runs` make one after the other.
std::vector<RowRun> cut_runs(std::span<const RowRun> runs, std::int64_t first, std::int64_t count);

/// One layer's rows. `prompts` (of `matrix`'s dump, in the order in which pooled rows are counted)
/// are used where it pools; everything given must outlive it. Its functions may be called from one
/// thread at a time.
class ActivationRows {
 public:
  ActivationRows(SourceWatch& watch, const model::MatrixRecord& matrix,
                 std::span<const model::PromptRows> prompts, Pooling pooling);
  std::int64_t rows() const;
  std::int64_t cols() const { return matrix_.cols; }
  /// Of what read() gives: of the file, F32 where it pools.
  const decode::Encoding& encoding() const;

  /// The rows of `runs`, one after the other, counted from row 0; valid until the next call.
  /// Errors: those of ByteSource::read_many().
  decode::EncodedMatrix read(std::span<const RowRun> runs);
  /// The same, decoded to row-major float32.
  void decode(std::span<const RowRun> runs, std::vector<float>& out);
  /// Gives back the memory of what was read last.
  void drop_buffers();

 private:
  /// Into stored_.
  decode::EncodedMatrix read_stored(std::span<const RowRun> runs);
  void pool(std::span<const RowRun> prompts);

  SourceWatch& watch_;
  const model::MatrixRecord& matrix_;
  std::span<const model::PromptRows> prompts_;
  Pooling pooling_;
  std::size_t row_bytes_;
  std::vector<std::byte> stored_;
  std::vector<float> pooled_;
};

}  // namespace vindex::engine
