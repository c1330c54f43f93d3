// Owns how blocks of kBand columns get from a band in global memory into the ring of a chase and
// back. Device code of band_chase.cu and shared_chase.cu.
#pragma once

#include "chase_window.hpp"

#include "kernels/band/band_layout.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <intrinsics.hpp>
#include <type_traits>

namespace vindex::kernels::device::chase {

/// Moves blocks of kBand columns between a band and the ring, `Threads` threads together, each of
/// them its share in `Rounds` rounds, of which it holds one in registers.
template <typename Stored, typename Real, int Threads, int Rounds>
class ColumnMover {
 public:
  /// What one thread moves at once: 16 bytes of the ring, so that a warp's lie side by side there.
  struct alignas(16 / sizeof(Real) * sizeof(Stored)) Piece {
    static constexpr int kCount = static_cast<int>(16 / sizeof(Real));
    Stored values[kCount];
  };
  static constexpr int kPieces = kSize * kColumn / Piece::kCount;
  static constexpr int kColumnPieces = kColumn / Piece::kCount;
  static constexpr int kOwnPieces = kPieces / Threads;
  static constexpr int kAtOnce = kOwnPieces / Rounds;
  static_assert(kAtOnce * Rounds * Threads == kPieces);

  __device__ ColumnMover(Stored* band, std::int64_t n, Real* ring, int thread)
      : band_(band), n_(n), ring_(ring), thread_(thread) {}

  /// Starts reading a round of the columns from `first` on; in the first pass from the layout of
  /// the stage before. Columns and rows beyond n are zero.
  __device__ void fetch(int round, std::int64_t first, bool first_pass) {
    if (first_pass) {
      fetch_from_stage_before(round, first);
      return;
    }
    const Piece* const pieces = reinterpret_cast<const Piece*>(band_ + first * kColumn);
    const int count = pieces_from(first);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int index = thread_ + (round * kAtOnce + i) * Threads;
      fetched_[i] = index < count ? pieces[index] : Piece{};
    }
  }

  /// Both at once without registers, behind the first pass and where nothing is rounded: there for
  /// this thread once copy_async_wait() says so.
  __device__ void copy(std::int64_t first, int slot) {
    static_assert(std::is_same_v<Stored, Real>);
    const Piece* const pieces = reinterpret_cast<const Piece*>(band_ + first * kColumn);
    Piece* const block =
        reinterpret_cast<Piece*>(ring_ + static_cast<std::int64_t>(slot) * kSize * kColumn);
    const int count = pieces_from(first);
#pragma unroll
    for (int i = 0; i < kOwnPieces; ++i) {
      const int index = thread_ + i * Threads;
      const bool is_there = index < count;
      copy_async_16_or_zero(block + index,
                            is_there ? pieces + index : reinterpret_cast<const Piece*>(band_),
                            is_there);
    }
    copy_async_commit();
  }

  /// Puts what fetch() got to place `slot` of the ring.
  __device__ void deposit(int round, int slot) {
    Real* block = ring_ + static_cast<std::int64_t>(slot) * kSize * kColumn;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int index = thread_ + (round * kAtOnce + i) * Threads;
#pragma unroll
      for (int j = 0; j < Piece::kCount; ++j) {
        block[index * Piece::kCount + j] = static_cast<Real>(fetched_[i].values[j]);
      }
    }
  }

  /// Writes place `slot` back as the columns from `first` on.
  __device__ void write_back(std::int64_t first, int slot) {
    const Real* block = ring_ + static_cast<std::int64_t>(slot) * kSize * kColumn;
    Piece* const pieces = reinterpret_cast<Piece*>(band_ + first * kColumn);
    const int count = pieces_from(first);
#pragma unroll
    for (int i = 0; i < kOwnPieces; ++i) {
      const int index = thread_ + i * Threads;
      if (index < count) {
        Piece piece;
#pragma unroll
        for (int j = 0; j < Piece::kCount; ++j) {
          piece.values[j] = static_cast<Stored>(block[index * Piece::kCount + j]);
        }
        pieces[index] = piece;
      }
    }
  }

 private:
  /// Pieces of the block of columns from `first` on that the band has.
  __device__ int pieces_from(std::int64_t first) const {
    const std::int64_t columns = n_ - first;
    return columns >= kSize ? kPieces : columns > 0 ? static_cast<int>(columns) * kColumnPieces : 0;
  }

  __device__ void fetch_from_stage_before(int round, std::int64_t first) {
    constexpr int kApart = Threads / kColumnPieces;  // columns between two pieces of a thread
    static_assert(Threads % kColumnPieces == 0);
    const int below = thread_ % kColumnPieces * Piece::kCount;
    const std::int64_t column = first + thread_ / kColumnPieces + round * kAtOnce * kApart;
    const Stored* const from = band_ + band_index(column + below, column);
    constexpr std::int64_t kEnough = kSize + kColumn;
    const auto rows = static_cast<int>(min(n_ - column - below, kEnough));
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
      for (int j = 0; j < Piece::kCount; ++j) {
        const bool inside = below + j <= kSize && j < rows - i * kApart;
        fetched_[i].values[j] =
            inside ? from[i * kApart * static_cast<int>(kBandStride + 1) + j] : Stored{0};
      }
    }
  }

  Stored* band_;
  std::int64_t n_;
  Real* ring_;
  int thread_;
  Piece fetched_[kAtOnce];
};

}  // namespace vindex::kernels::device::chase
