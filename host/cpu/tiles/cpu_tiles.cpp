// Owns the cutting of slabs into chunks, their decoding, and the flips of signs, bit by bit of the
// random words.
#include "cpu_tiles.hpp"

#include "backend/backend.hpp"
#include "core/philox.hpp"
#include "core/process/stop.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/moments.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::cpu {

namespace {

constexpr std::uint64_t kBitsPerBlock = 128;

/// Signs of logical elements first, first + 1, ... first + count - 1, applied to values[0],
/// values[step], ...
void flip_run(float* values, std::int64_t count, std::int64_t step, std::uint64_t first,
              const SignFlipPlace& place) {
  std::int64_t done = 0;
  while (done < count) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(done);
    const PhiloxBlock bits = philox_block(place.key, element / kBitsPerBlock, place.draw);
    auto bit = static_cast<std::uint32_t>(element % kBitsPerBlock);
    while (bit < kBitsPerBlock && done < count) {
      // What is left of one word, in a loop that a compiler turns into vectors.
      const std::uint32_t word = bits.word[bit / 32U] >> (bit % 32U);
      const auto run = static_cast<std::uint32_t>(
          std::min<std::int64_t>(count - done, 32 - static_cast<std::int64_t>(bit % 32U)));
      float* const from = values + done * step;
      for (std::uint32_t i = 0; i < run; ++i) {
        float& value = from[static_cast<std::int64_t>(i) * step];
        value = bits_as<float>(bits_as<std::uint32_t>(value) ^ (word >> i & 1U) << 31U);
      }
      bit += run;
      done += run;
    }
  }
}

}  // namespace

void flip_signs(float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                const SignFlipPlace& place) {
  if (!place.transposed) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto first =
          static_cast<std::uint64_t>((place.first_row + r) * place.whole_cols + place.first_col);
      flip_run(values + r * stride, cols, 1, first, place);
    }
    return;
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    const auto first =
        static_cast<std::uint64_t>((place.first_col + c) * place.whole_rows + place.first_row);
    flip_run(values + c, rows, stride, first, place);
  }
}

TileReader::TileReader(MatrixInput& input, const SvdPlan& plan, Workspace& workspace)
    : input_(input),
      plan_(plan),
      stop_(workspace.stop()),
      scratch_(workspace, plan.chunk * plan.short_side, "decoded weights"),
      kept_(workspace, plan.keep_decoded ? plan.long_side * plan.short_side : 0,
            "all decoded weights") {}

void TileReader::pass(const TileChange& change, const UseTile& use, const UseSlab& use_slab) {
  const bool changes = change.sign_flip_draw.has_value() || change.scale_exponent != 0;
  const bool from_kept = plan_.keep_decoded && first_pass_done_;
  for (std::int64_t first = 0; first < plan_.long_side; first += plan_.slab) {
    const std::int64_t count = std::min(plan_.slab, plan_.long_side - first);
    decode::EncodedMatrix slab;
    if (!from_kept) {
      const Stopwatch watch(seconds_);
      slab = plan_.row_slabs ? input_.row_slab(first, count) : input_.column_slab(first, count);
    }
    for (std::int64_t start = 0; start < count; start += plan_.chunk) {
      const std::int64_t length = std::min(plan_.chunk, count - start);
      if (from_kept) {
        use_chunk(nullptr, first + start, length, change, use);
        continue;
      }
      const decode::EncodedMatrix view = plan_.row_slabs ? decode::row_slab(slab, start, length)
                                                         : decode::column_slab(slab, start, length);
      use_chunk(&view, first + start, length, change, use);
    }
    if (use_slab && !from_kept && !changes && finite()) {
      use_slab(slab);
    }
  }
  first_pass_done_ = true;
}

void TileReader::use_chunk(const decode::EncodedMatrix* encoded, std::int64_t first,
                           std::int64_t count, const TileChange& change, const UseTile& use) {
  throw_if_stopped(stop_);
  const std::int64_t rows = plan_.row_slabs ? count : plan_.short_side;
  const std::int64_t cols = plan_.row_slabs ? plan_.short_side : count;
  float* const kept = plan_.keep_decoded ? kept_.data() + first * plan_.short_side : nullptr;
  float* values = kept != nullptr ? kept : scratch_.data();
  {
    const Stopwatch watch(seconds_);
    if (encoded != nullptr) {
      decode::decode_matrix(*encoded, values, cols);
    }
    if (!first_pass_done_) {
      moments_ = decode::merge(moments_, decode::moments_of(values, rows, cols, cols));
      if (!finite()) {
        return;
      }
    }
    const bool changes = change.sign_flip_draw.has_value() || change.scale_exponent != 0;
    if (changes && kept != nullptr) {
      std::copy(kept, kept + rows * cols, scratch_.data());
      values = scratch_.data();
    }
    if (change.sign_flip_draw) {
      flip_signs(values, rows, cols, cols,
                 {.key = input_.sign_flip_key(),
                  .draw = *change.sign_flip_draw,
                  .transposed = input_.transposed(),
                  .whole_rows = input_.rows(),
                  .whole_cols = input_.cols(),
                  .first_row = plan_.row_slabs ? first : 0,
                  .first_col = plan_.row_slabs ? 0 : first});
    }
    if (change.scale_exponent != 0) {
      const auto factor = static_cast<float>(std::ldexp(1.0, change.scale_exponent));
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        values[i] *= factor;
      }
    }
  }
  use({.values = values, .rows = rows, .cols = cols, .encoded = encoded, .first = first});
}

}  // namespace vindex::cpu
