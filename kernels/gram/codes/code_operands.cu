// Owns the pass over E4M3 codes that makes the operands of code_slices.hpp and the sums of the
// weights. What a code becomes depends on its tile's scale alone, so a block makes a table of 256
// codes first; a thread then looks up sixteen steps of a line at a time. Weights are counted by
// code (gram_sums.hpp).
#include "code_operands.hpp"

#include "core/philox.hpp"
#include "kernels/device/launch.hpp"
#include "kernels/gram/gram_sums.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using device::CodeCounts;
using device::kRun;

constexpr int kThreads = device::kSumThreads;
constexpr int kTile = device::kTileSide;
constexpr int kRunsPerLine = kTile / kRun;
constexpr int kHalfSteps = static_cast<int>(kSliceDepth);

struct CodeViews {
  decode::DecodeView views[kCodeMatricesAtOnce];
  std::uint64_t keys[kCodeMatricesAtOnce];
};

struct CodePass {
  CodeArguments arguments;
  bool contracts_rows, flip, transposed;
  std::uint64_t draw;
};

/// The scale about which roundings are taken off. Under one scale every code of a significand is
/// rounded by the same share of itself, so sums of what rounding took would be of one sign; the
/// mean share of the eight significands, weighted as squares are, goes into the scale, to a
/// sixteenth of its last place. By whole warps.
__device__ inline double centre_of(float scale, double last) {
  const auto significand = 8U + threadIdx.x % 8;
  const float value = static_cast<float>(significand) * 0.25F;  // the code 0x38 + significand
  const double took =
      static_cast<double>(value) * static_cast<double>(scale) - static_cast<double>(value * scale);
  float sum = static_cast<float>(significand) * static_cast<float>(4.0 * took / last);
#pragma unroll
  for (int other = 1; other < 8; other *= 2) {
    sum += __shfl_xor_sync(device::kAllLanes, sum, other);
  }
  constexpr float kSquares = 1100.0F;  // of 8 to 15
  const float share = rintf(sum * (16.0F / kSquares)) / 16.0F;
  const bool is_number = isfinite(share);  // 0 / 0 under a scale of 0
  return static_cast<double>(scale) - (is_number ? static_cast<double>(share) * last : 0.0);
}

/// What a code becomes: digits in the lower three bytes of `x`; in `y` the code as binary16 and, in
/// the upper half, what rounding took of its weight.
__device__ inline uint2 entry_of(std::uint32_t code, float scale, double centre, double last) {
  const float value = decode::e4m3_to_float(static_cast<std::uint8_t>(code));
  const float weight = value * scale;
  if (!isfinite(weight)) {
    return make_uint2(0, 0);
  }
  const auto digit = [](int of) { return ((of + 32) & 63) - 32; };
  const int units = static_cast<int>(value * 512.0F);
  const int low = digit(units);
  const int middle = digit((units - low) / 64);
  const int high = ((units - low) / 64 - middle) / 64;
  const auto byte = [](int of, int at) { return static_cast<std::uint32_t>(of & 0xFF) << 8 * at; };
  const double took = static_cast<double>(value) * centre - static_cast<double>(weight);
  const float in_units = last > 0.0 ? static_cast<float>(took / last) : 0.0F;
  return make_uint2(byte(low, 0) | byte(middle, 1) | byte(high, 2),
                    device::to_half_pair(value, in_units));
}

/// philox_bit() without an array that is indexed when it runs, which would lie in memory.
__device__ inline std::uint32_t sign_of(std::uint64_t key, std::uint64_t number,
                                        std::uint64_t draw) {
  const PhiloxBlock block = philox_block(key, number / 128, draw);
  const auto which = static_cast<std::uint32_t>(number % 128 / 32);
  const std::uint32_t low = which == 0 ? block.word[0] : block.word[1];
  const std::uint32_t high = which == 2 ? block.word[2] : block.word[3];
  return (which < 2 ? low : high) >> (number % 32) & 1U;
}

/// Steps [first, first + kRun) of a line; codes outside of the matrix are those of 0.
struct Run {
  std::uint32_t codes[kRun];
  int valid;
  std::int64_t element, stride;  ///< numbers of the first weight and of the next for signs

  __device__ Run(const decode::DecodeView& view, const CodePass& pass, std::int64_t line,
                 std::int64_t first) {
    const std::int64_t row = pass.contracts_rows ? first : line;
    const std::int64_t col = pass.contracts_rows ? line : first;
    const std::int64_t left = row >= view.rows || col >= view.cols ? 0
                              : pass.contracts_rows                ? view.rows - row
                                                                   : view.cols - col;
    valid = static_cast<int>(left < kRun ? left : kRun);
    element = pass.transposed ? col * view.rows + row : row * view.cols + col;
    stride = pass.contracts_rows == pass.transposed ? 1 : pass.transposed ? view.rows : view.cols;
    if (!pass.contracts_rows && valid == kRun) {
      std::uint32_t words[kRun / 4];
      device::load_codes(view.codes + row * view.row_stride_bytes + col, words);
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        codes[i] = words[i / 4] >> (8 * (i % 4)) & 0xFFU;
      }
      return;
    }
    const std::int64_t step_bytes = pass.contracts_rows ? view.row_stride_bytes : 1;
    const std::uint8_t* const from =
        view.codes + min(row, view.rows - 1) * view.row_stride_bytes + min(col, view.cols - 1);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const std::uint32_t code = from[min(i, max(valid - 1, 0)) * step_bytes];
      codes[i] = i < valid ? code : 0;
    }
  }
  __device__ void flip_signs(std::uint64_t key, std::uint64_t draw) {
    std::uint32_t flips = 0;
#pragma unroll 1
    for (int i = 0; i < valid; ++i) {
      flips |= sign_of(key, static_cast<std::uint64_t>(element + i * stride), draw) << i;
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      codes[i] ^= (flips >> i & 1U) << 7U;
    }
  }
};

/// Writes the digits of a run, one piece of 16 bytes for each part.
__device__ inline void store_digits(unsigned char* operand, int row, int run,
                                    const uint2 (&entries)[kRun]) {
#pragma unroll
  for (int part = 0; part < kExactParts; ++part) {
    std::uint32_t words[kRun / 4] = {};
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      words[i / 4] |= (entries[i].x >> (8 * part) & 0xFFU) << (8 * (i % 4));
    }
    *reinterpret_cast<uint4*>(operand + part * kOperandTileBytes + operand_piece(row, run)) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// The same of a half of `y`, two pieces.
template <bool kUpper>
__device__ inline void store_halves(unsigned char* operand, int row, int run,
                                    const uint2 (&entries)[kRun]) {
  constexpr int kRunsPerPart = kHalfSteps / kRun;
  unsigned char* const to =
      operand + ((kUpper ? kRoundingHalves : kCodeHalves) + run / kRunsPerPart) * kOperandTileBytes;
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t first = entries[8 * piece + 2 * i].y;
      const std::uint32_t second = entries[8 * piece + 2 * i + 1].y;
      words[i] = kUpper ? first >> 16U | (second & 0xFFFF0000U) : (first & 0xFFFFU) | second << 16U;
    }
    *reinterpret_cast<uint4*>(to + operand_piece(row, run % kRunsPerPart * 2 + piece)) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// The number about which moments are taken, as take_moments() has it: the first weight.
__device__ inline float shift_of(const decode::DecodeView& view, const CodePass& pass,
                                 std::uint64_t key) {
  const float first = device::weight_at<OperandSource::kScaledE4M3>(view, 0, 0);
  const bool is_turned = pass.flip && sign_of(key, 0, pass.draw) != 0;
  return !isfinite(first) ? 0.0F : is_turned ? -first : first;
}

/// Shared memory: sums of warps, counts of codes, the table.
constexpr int kSumsBytes = device::kSumWarps * static_cast<int>(sizeof(WeightSums));
constexpr int kCountBytes =
    device::kSumWarps * CodeCounts::kBins * static_cast<int>(sizeof(std::uint32_t));
constexpr int kSharedBytes =
    kSumsBytes + kCountBytes + CodeCounts::kBins * static_cast<int>(sizeof(uint2));

/// Grid    x: tiles of the short side, then chunks; z: matrices. Block 256 threads, 10.8 KB of
/// shared memory. Bound by issue (some 30 instructions
/// a weight, modelled) and, where scales are rounded, by what it writes.
template <bool kRounded>
__global__ void __launch_bounds__(kThreads, 3) slice_codes_kernel(CodeViews batch, CodePass pass) {
  const CodeArguments& arguments = pass.arguments;
  const std::int64_t matrix = blockIdx.z;
  const decode::DecodeView& view = batch.views[matrix];
  const std::uint64_t key = batch.keys[matrix];
  const std::int64_t chunk = static_cast<std::int64_t>(blockIdx.x) / arguments.tiles;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) - chunk * arguments.tiles;
  unsigned char* const shared = device::dynamic_shared();
  auto* const sums = reinterpret_cast<WeightSums*>(shared);
  const CodeCounts counts{reinterpret_cast<std::uint32_t*>(shared + kSumsBytes)};
  auto* const table = reinterpret_cast<uint2*>(shared + kSumsBytes + kCountBytes);

  const float scale = pass.contracts_rows ? device::scale_at(view, chunk * kTile, tile * kTile)
                                          : device::scale_at(view, tile * kTile, chunk * kTile);
  const float power = bits_as<float>(bits_as<std::uint32_t>(scale) & 0x7F800000U);
  const double last = static_cast<double>(power) * 0x1p-23;
  const double centre = centre_of(scale, last);
  table[threadIdx.x] = entry_of(threadIdx.x, scale, centre, last);
  counts.clear();

  unsigned char* const operand = arguments.operands + code_operand(arguments, matrix, tile, chunk);
  for (int index = static_cast<int>(threadIdx.x); index < kTile * kRunsPerLine; index += kThreads) {
    const int row = pass.contracts_rows ? index % kTile : index / kRunsPerLine;
    const int run_in_line = pass.contracts_rows ? index / kTile : index % kRunsPerLine;
    Run run(view, pass, tile * kTile + row, chunk * kTile + run_in_line * kRun);
    if (pass.flip) {
      run.flip_signs(key, pass.draw);
    }
    uint2 entries[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      entries[i] = table[run.codes[i]];
      if (i < run.valid) {
        counts.count(run.codes[i]);
      }
    }
    store_digits(operand, row, run_in_line, entries);
    if constexpr (kRounded) {
      store_halves<false>(operand, row, run_in_line, entries);
      store_halves<true>(operand, row, run_in_line, entries);
    }
  }
  __syncthreads();
  const double shift = static_cast<double>(shift_of(view, pass, key));
  const float weight = decode::e4m3_to_float(static_cast<std::uint8_t>(threadIdx.x)) * scale;
  const WeightSums total =
      device::block_sum(device::sums_of_bin(weight, counts.of_thread(), shift), sums);
  if (threadIdx.x == 0) {
    const std::int64_t field = (matrix * arguments.chunks + chunk) * arguments.tiles + tile;
    static_cast<WeightSums*>(arguments.sums)[field] = total;
    const bool is_number = total.nonfinite == 0;
    const bool is_used = is_number && scale != 0.0F && isfinite(scale);
    const float mantissa = is_used ? static_cast<float>(centre / last) : 1.0F;
    arguments.scales[field] = {.scale = !is_number ? static_cast<double>(NAN)
                                        : is_used  ? centre
                                                   : 0.0,
                               .last = is_used ? last : 0.0,
                               .mantissa = mantissa,
                               .inverse = 1.0F / mantissa};
  }
}

/// Grid: a block per matrix. Block: kThreads, 256. Shared: 576 bytes. Bound by: latency.
__global__ void __launch_bounds__(kThreads)
    code_moments_kernel(CodeViews batch, CodePass pass, RawMoments* moments, std::int64_t each) {
  const CodeArguments& arguments = pass.arguments;
  const std::int64_t matrix = blockIdx.x;
  const std::int64_t fields = arguments.tiles * arguments.chunks;
  const WeightSums* const partial =
      static_cast<const WeightSums*>(arguments.sums) + matrix * fields;
  WeightSums sums = device::no_sums();
  for (std::int64_t i = threadIdx.x; i < fields; i += kThreads) {
    device::add(sums, partial[i]);
  }
  sums = device::block_sum(sums, reinterpret_cast<WeightSums*>(device::dynamic_shared()));
  for (std::int64_t i = threadIdx.x; i < each; i += kThreads) {
    const WeightSums& own = i == 0 ? sums : device::no_sums();
    moments[matrix * each + i] = {
        own.count,
        own.zeros,
        own.nonfinite,
        own.power[0],
        own.power[1],
        own.power[2],
        own.power[3],
        own.squares,
        static_cast<double>(own.min),
        static_cast<double>(own.max),
        i == 0 ? shift_of(batch.views[matrix], pass, batch.keys[matrix]) : 0.0F};
  }
}

}  // namespace

void slice_codes(const CodeGramBatch& batch, std::int64_t first, std::int64_t count,
                 const CodeArguments& arguments, cudaStream_t stream) {
  CodeViews views = {};
  const auto from = static_cast<std::size_t>(first);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    views.views[i] = batch.views[from + i];
    views.keys[i] = batch.sign_flip_keys.empty() ? 0 : batch.sign_flip_keys[from + i];
  }
  const CodePass pass{.arguments = arguments,
                      .contracts_rows = views.views[0].rows >= views.views[0].cols,
                      .flip = !batch.sign_flip_keys.empty(),
                      .transposed = batch.transposed,
                      .draw = batch.sign_flip_draw};
  const dim3 grid(static_cast<unsigned>(arguments.tiles * arguments.chunks), 1,
                  static_cast<unsigned>(count));
  if (arguments.parts == kRoundedParts) {
    launch(slice_codes_kernel<true>, grid, dim3(kThreads), kSharedBytes, stream, views, pass);
  } else {
    launch(slice_codes_kernel<false>, grid, dim3(kThreads), kSharedBytes, stream, views, pass);
  }
  launch(code_moments_kernel, dim3(static_cast<unsigned>(count)), dim3(kThreads), kSumsBytes,
         stream, views, pass, batch.moments + first * batch.moments_each, batch.moments_each);
}

}  // namespace vindex::kernels
