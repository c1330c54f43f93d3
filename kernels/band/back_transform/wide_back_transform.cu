// Owns products of Q or Q^T with 32 columns at a time. Per panel, as band_back_transform.cu,
//
//   Z <- Z + V U,   U = -T S or -T^T S,   S = V^T Z
//
// but a pass over the rows does the update by one panel and the sum S for the next one: Z is read
// and written once a panel and not twice, and a panel costs three barriers of the block.
//
// A warp takes every so many tiles of 32 rows, always the same, so that it alone touches its rows
// of Z. It works on Z^T: the lane's values of a tile (rows of the product: columns of Z) are the
// sums of the update and, as they are, the left operand of S^T = Z^T V. V comes by asynchronous
// copies a tile ahead, Z by loads a tile ahead. What binds: reading V and Z from L2, 12 KB a tile,
// and in launches of few blocks the latency of the reductions between panels.
#include "wide_back_transform.hpp"

#include "kernels/band/half_product.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

using Layout = HalfProduct::Layout;

constexpr int kMostWarps = 8;
constexpr int kTileFloats = kBandWidth * kBandWidth;
constexpr int kStageFloats = 2 * kTileFloats;  ///< of the panel that updates, and of the next one
constexpr int kRingFloats = 2 * kStageFloats;
constexpr int kQuads = kBlockValues / 4;
constexpr int kLeftFloats = kTileFloats / 2;  ///< of 16 rows of a left operand, split
static_assert(kWideColumns == kBandWidth, "columns of Z are rows of a block");

static_assert(wide_transform_shared_bytes(kMostWarps) ==
                  (kMostWarps * kRingFloats + 4 * kTileFloats) * sizeof(float) +
                      2 * kWideColumns * sizeof(double),
              "what the kernel lays out");

/// Where an element of a tile is in shared memory: 16 bytes change places within their row, so that
/// neither reads along rows (8 bytes of 8 rows) nor across (4 bytes of every second row) meet in a
/// bank.
__device__ int place_in_tile(int row, int column) {
  const int turn = 2 * ((row & 3) ^ ((row >> 2) & 1));
  return row * kBandWidth + (((column / 4) ^ turn) * 4) + column % 4;
}

/// Asks for a tile whose rows are `stride` apart, by a warp: four rows at a time, every second time
/// with the same places.
__device__ void fetch_tile(float* tile, const float* from, std::int64_t stride, int lane) {
  const int row = lane / 8;
  const int column = lane % 8 * 4;
  float* const even = tile + place_in_tile(row, column);
  float* const odd = tile + place_in_tile(row + 4, column);
  const float* source = from + row * stride + column;
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    device::copy_async_16((i % 2 == 0 ? even : odd) + i / 2 * HalfProduct::kEight * kBandWidth,
                          source);
    source += 4 * stride;
  }
}

/// Where a lane reads in a tile, as few numbers: what is added to them is known to the compiler.
struct LanePlaces {
  int along[4];      ///< row lane / 4, depths 8 k + lane % 4 * 2
  int across[2][4];  ///< rows lane % 4 * 2 and the next, columns 8 j + lane / 4
};
__device__ LanePlaces lane_places(int lane) {
  LanePlaces places;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int eight = HalfProduct::kEight * i;
    places.along[i] = place_in_tile(lane / 4, eight + lane % 4 * 2);
    places.across[0][i] = place_in_tile(lane % 4 * 2, eight + lane / 4);
    places.across[1][i] = place_in_tile(lane % 4 * 2 + 1, eight + lane / 4);
  }
  return places;
}

/// The tile's transpose as the right operand: depth along its rows.
__device__ HalfProduct::Right right_along(const float* tile, const LanePlaces& places) {
  HalfProduct::Right right;
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
#pragma unroll
    for (int j = 0; j < HalfProduct::kColumnTiles; ++j) {
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        const auto two = *reinterpret_cast<const Pack<float, 2>*>(
            tile + places.along[2 * step + word] + HalfProduct::kEight * j * kBandWidth);
        const HalfPair pair = split_pair(two.values[0], two.values[1]);
        right.high[step][j][word] = pair.high;
        right.low[step][j][word] = pair.low;
      }
    }
  }
  return right;
}
/// The tile as the right operand: its rows are the depth.
__device__ HalfProduct::Right right_across(const float* tile, const LanePlaces& places) {
  HalfProduct::Right right;
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
#pragma unroll
    for (int j = 0; j < HalfProduct::kColumnTiles; ++j) {
#pragma unroll
      for (int word = 0; word < 2; ++word) {
        const float* const row = tile + HalfProduct::kEight * (2 * step + word) * kBandWidth;
        const HalfPair pair = split_pair(row[places.across[0][j]], row[places.across[1][j]]);
        right.high[step][j][word] = pair.high;
        right.low[step][j][word] = pair.low;
      }
    }
  }
  return right;
}

/// A lane's values of a block, four side by side for each lane.
__device__ void load_values(float (&values)[kBlockValues], const float* from, int lane) {
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    const auto pack = *reinterpret_cast<const Pack<float, 4>*>(from + (quad * kWarp + lane) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[4 * quad + i] = pack.values[i];
    }
  }
}
__device__ void store_values(float* to, const float (&values)[kBlockValues], int lane) {
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    *reinterpret_cast<Pack<float, 4>*>(to + (quad * kWarp + lane) * 4) = {
        values[4 * quad], values[4 * quad + 1], values[4 * quad + 2], values[4 * quad + 3]};
  }
}

/// 16 rows of a left operand, for each lane 16 bytes at a time.
__device__ void store_left(float* to, const HalfProduct::Left& left, int lane) {
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
    auto* const packs = reinterpret_cast<Pack<std::uint32_t, 4>*>(to) + 2 * step * kWarp + lane;
    packs[0] = {left.high[step][0], left.high[step][1], left.high[step][2], left.high[step][3]};
    packs[kWarp] = {left.low[step][0], left.low[step][1], left.low[step][2], left.low[step][3]};
  }
}
__device__ HalfProduct::Left load_left(const float* from, int lane) {
  HalfProduct::Left left;
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
    const auto* const packs =
        reinterpret_cast<const Pack<std::uint32_t, 4>*>(from) + 2 * step * kWarp + lane;
    const Pack<std::uint32_t, 4> high = packs[0];
    const Pack<std::uint32_t, 4> low = packs[kWarp];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      left.high[step][word] = high.values[word];
      left.low[step][word] = low.values[word];
    }
  }
  return left;
}

/// Half kHalf of U^T = -S^T T^T or, of the transposed factor, -S^T T, as a left operand. By a warp.
template <int kHalf>
__device__ void turn_sums(const float* totals, const float* t, bool transposed, float* turned,
                          const LanePlaces& places, int lane) {
  float sums[kBlockValues];
  load_values(sums, totals, lane);
  const HalfProduct::Left left = HalfProduct::left_of(HalfProduct::block(sums), kHalf);
  const HalfProduct::Right right = transposed ? right_across(t, places) : right_along(t, places);
  HalfProduct::multiply_row<true>(sums, left, right, kHalf);
#pragma unroll
  for (int i = 0; i < kBlockValues; ++i) {
    sums[i] = -sums[i];
  }
  store_left(turned + kHalf * kLeftFloats, HalfProduct::left_of(HalfProduct::block(sums), kHalf),
             lane);
}

/// Powers of two that bring the largest element of a column to [1/2, 1), and back; 1 where there is
/// no such. By a warp.
__device__ void find_scale(const double* column, std::int64_t rows, double* scale, double* back,
                           int lane) {
  double largest = 0.0;
#pragma unroll 8
  for (std::int64_t row = lane; row < rows; row += kWarp) {
    largest = fmax(largest, fabs(column[row]));
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    largest = fmax(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
  }
  if (lane == 0) {
    const bool is_ordinary = largest > 1e-290 && largest < 1e290;
    int exponent = 0;
    (void)frexp(is_ordinary ? largest : 0.0, &exponent);
    *scale = ldexp(1.0, -exponent);
    *back = ldexp(1.0, exponent);
  }
}

/// Panels in the order in which they are applied; none before the first and behind the last.
struct PanelOrder {
  int panels;
  bool ascending;
  /// The panel at `step`, V of which begins in the tile behind it; panels + 1, behind all tiles,
  /// where there is none.
  __device__ int at(int step) const {
    if (step < 0 || step >= panels) {
      return panels + 1;
    }
    return ascending ? step : panels - 1 - step;
  }
};

/// Grid: x blocks of kWideColumns columns, y slots. Block: up to 8 warps. Dynamic shared memory:
/// wide_transform_shared_bytes(), 144.5 KiB for 8 warps and 80.5 for 4: one block per
/// multiprocessor. Bound by: memory, V read twice for every kWideColumns columns.
__global__ void __launch_bounds__(kMostWarps* kWarp)
    wide_back_transform_kernel(BackTransform<float> in) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  const int threads = static_cast<int>(blockDim.x);
  const int warps = threads / kWarp;
  auto* const shared = reinterpret_cast<float*>(device::dynamic_shared());
  float* const ring = shared + warp * kRingFloats;
  float* const triangles = shared + warps * kRingFloats;  // T, of two panels in turn
  float* const totals = triangles + 2 * kTileFloats;
  float* const turned = totals + kTileFloats;  // U^T of the panel that updates
  auto* const scales = reinterpret_cast<double*>(turned + kTileFloats);
  double* const backs = scales + kWideColumns;

  const LanePlaces places = lane_places(lane);

  const std::int64_t slot = blockIdx.y;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWideColumns;
  const int columns = static_cast<int>(min(in.columns - first, kWideColumns));
  const float* const matrix = in.matrices + in.which[slot] * in.order * in.order;
  float* const z =
      in.scratch + (slot * gridDim.x + blockIdx.x) * kWideColumns * in.order;  // by tiles
  const int tiles = static_cast<int>(in.order / kBand);
  const PanelOrder order = {tiles - 1, in.transposed};

  const double* const from = in.from.data + slot * in.from.stride + first * in.from.leading;
  for (int c = warp; c < kBandWidth; c += warps) {
    find_scale(from + min(c, columns - 1) * in.from.leading, in.from.rows, scales + c, backs + c,
               lane);
  }
  __syncthreads();
  for (int tile = warp; tile < tiles; tile += warps) {
    float values[kBlockValues];
#pragma unroll
    for (int i = 0; i < kBlockValues; ++i) {
      const int c = Layout::row(lane, i);
      const std::int64_t row = tile * kBand + Layout::column(lane, i);
      const double value =
          from[min(c, columns - 1) * in.from.leading + min(row, in.from.rows - 1)] * scales[c];
      values[i] = c < columns && row < in.from.rows ? static_cast<float>(value) : 0.0F;
    }
    store_values(z + tile * kTileFloats, values, lane);
  }

  // What a pass needs of a tile: of the panel that updates it, and of the one that is summed.
  const auto fetch = [&](int stage, int tile, int updating, int summing) {
    float* to = ring + stage * kStageFloats;
    if (tile < tiles && tile > updating) {
      fetch_tile(to, matrix + tile * kBand * in.order + updating * kBand, in.order, lane);
    }
    if (tile < tiles && tile > summing) {
      fetch_tile(to + kTileFloats, matrix + tile * kBand * in.order + summing * kBand, in.order,
                 lane);
    }
  };
  const auto first_tile = [&](int updating, int summing) {
    const int begin = min(updating, summing) + 1;
    return begin + ((warp - begin) % warps + warps) % warps;
  };
  // The first tile of a pass, and T of the panel that it sums.
  const auto begin_pass = [&](int step) {
    const int updating = order.at(step - 1);
    const int summing = order.at(step);
    fetch(0, first_tile(updating, summing), updating, summing);
    if (summing < tiles) {
      const float* t = matrix + summing * kBand * (in.order + 1);
      if (warp == warps - 1) {
        fetch_tile(triangles + step % 2 * kTileFloats, t, in.order, lane);
      }
    }
    device::copy_async_commit();
  };

  begin_pass(0);
  for (int step = 0; step <= order.panels; ++step) {
    const int updating = order.at(step - 1);
    const int summing = order.at(step);
    float sums[kBlockValues];
#pragma unroll
    for (int i = 0; i < kBlockValues; ++i) {
      sums[i] = 0.0F;
    }
    int stage = 0;
    int tile = first_tile(updating, summing);
    float values[kBlockValues];
    load_values(values, z + min(tile, tiles - 1) * kTileFloats, lane);
    for (; tile < tiles; tile += warps) {
      fetch(1 - stage, tile + warps, updating, summing);
      device::copy_async_commit();
      float ahead[kBlockValues];
      load_values(ahead, z + min(tile + warps, tiles - 1) * kTileFloats, lane);
      device::copy_async_wait<1>();
      __syncwarp();
      const float* const v = ring + stage * kStageFloats;
      if (tile > updating) {
        const HalfProduct::Right right = right_along(v, places);
#pragma unroll
        for (int i = 0; i < HalfProduct::kRowTiles; ++i) {
          HalfProduct::multiply_row<false>(values, load_left(turned + i * kLeftFloats, lane), right,
                                           i);
        }
        store_values(z + tile * kTileFloats, values, lane);
      }
      if (tile > summing) {
        const HalfProduct::Block left = HalfProduct::block(values);
        const HalfProduct::Right right = right_across(v + kTileFloats, places);
#pragma unroll
        for (int i = 0; i < HalfProduct::kRowTiles; ++i) {
          HalfProduct::multiply_row<false>(sums, HalfProduct::left_of(left, i), right, i);
        }
      }
      __syncwarp();  // before the next copies come here
      stage = 1 - stage;
#pragma unroll
      for (int i = 0; i < kBlockValues; ++i) {
        values[i] = ahead[i];
      }
    }
    if (step == order.panels) {
      break;
    }
    device::copy_async_wait<0>();
    __syncwarp();
    store_values(ring + kStageFloats, sums, lane);
    begin_pass(step + 1);
    __syncthreads();
    for (int quad = static_cast<int>(threadIdx.x); quad < kTileFloats / 4; quad += threads) {
      Pack<float, 4> total = {};
      for (int other = 0; other < warps; ++other) {
        const auto part = *reinterpret_cast<const Pack<float, 4>*>(shared + other * kRingFloats +
                                                                   kStageFloats + quad * 4);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total.values[i] += part.values[i];
        }
      }
      *reinterpret_cast<Pack<float, 4>*>(totals + quad * 4) = total;
    }
    __syncthreads();
    const float* const t = triangles + step % 2 * kTileFloats;
    if (warp == 0) {
      turn_sums<0>(totals, t, in.transposed, turned, places, lane);
    } else if (warp == 1) {
      turn_sums<1>(totals, t, in.transposed, turned, places, lane);
    }
    __syncthreads();
  }

  double* const to = in.to.data + slot * in.to.stride + first * in.to.leading;
  for (int tile = warp; tile < tiles; tile += warps) {
    float values[kBlockValues];
    load_values(values, z + tile * kTileFloats, lane);
#pragma unroll
    for (int i = 0; i < kBlockValues; ++i) {
      const int c = Layout::row(lane, i);
      const std::int64_t row = tile * kBand + Layout::column(lane, i);
      if (c < columns && row < in.to.rows) {
        to[c * in.to.leading + row] = static_cast<double>(values[i]) * backs[c];
      }
    }
  }
}

}  // namespace

void wide_back_transform(const BackTransform<float>& turn, int warps, cudaStream_t stream) {
  expects(turn.columns > 0 && turn.slots > 0 && turn.slots <= 65535 && turn.order > 0 &&
              turn.order % kBand == 0 && turn.from.rows > 0 && turn.from.rows <= turn.order &&
              turn.to.rows <= turn.order && (warps == kMostWarps || warps == kMostWarps / 2),
          "columns to turn by the factor of a reduction");
  launch(wide_back_transform_kernel,
         dim3(static_cast<unsigned>(ceil_divide(turn.columns, kWideColumns)),
              static_cast<unsigned>(turn.slots)),
         dim3(static_cast<unsigned>(warps * kWarp)), wide_transform_shared_bytes(warps), stream,
         turn);
}

}  // namespace vindex::kernels
