// Owns what is known of a matrix's route before it is read: orientation, tile sizes, precision and
// the memory it takes.
#pragma once

#include "cpu/simd/matrix_unit.hpp"

#include <cstdint>

namespace vindex::cpu {

/// How singular values are looked for first; what follows is statistics/judgement/judgement.hpp's
/// to say.
enum class SvdRoute : std::uint8_t {
  kGram32,     ///< float32 Gram, float32 tridiagonal form, float64 eigenvalues of it
  kGram64,     ///< the same in float64
  kQr,         ///< float64 QR by row blocks and bidiagonalisation at once
  kChebyshev,  ///< float32 Gram, filtered block iteration for the top 64 and a proof of bounds
};

/// Everything is cut along the long side: tiles are short_side x chunk (or chunk x short_side)
/// floats, and the Gram is taken over the short side. `chunk` depends on the encoding and shape
/// alone, never on memory, so that sums run in the same order whatever the limit is.
struct SvdPlan {
  SvdRoute route = SvdRoute::kGram32;
  bool row_slabs = true;  ///< long side = rows as stored; false: column slabs
  std::int64_t short_side = 0;
  std::int64_t long_side = 0;
  std::int64_t chunk = 0;  ///< of the long side: decoded, scaled and multiplied at a time
  std::int64_t slab = 0;   ///< of the long side: asked of the input at a time, a multiple of chunk
  bool keep_decoded = false;              ///< float32 weights stay for a second pass
  bool may_escalate = false;              ///< memory is there for what may follow kGram32
  bool may_group_sums = false;            ///< sums and reduction of kGram32 may go to float64
  bool library_only = false;              ///< OpenBLAS and LAPACK alone, none of our kernels
  TileProduct tiles = nullptr;            ///< multiplies what it is faster for; null: nothing
  bool takes_bf16 = false;                ///< weights exact in bfloat16 go to gram_bf16()
  std::uint64_t workspace_bytes = 0;      ///< upper bound, streamed slabs and library included
  std::uint64_t min_workspace_bytes = 0;  ///< the same with nothing kept and the least slabs
  std::uint64_t library_bytes = 0;        ///< of these: packing buffers inside OpenBLAS
};

/// Columns per block reflector in LAPACK's QR and back-transformation (ILAENV gives 32 for both): a
/// workspace of this many rows or columns lets xGEQRF, xORGQR and xORMTR run blocked.
inline constexpr std::int64_t kLapackBlock = 32;

}  // namespace vindex::cpu
