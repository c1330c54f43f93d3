// Owns the tile product on Intel AMX: the template of tile_product.hpp with the unit's own
// instructions, and AVX-512 for what is done with its sums.
#include "simd_gram_amx.hpp"

#include "amx_tiles.hpp"
#include "tile_product.hpp"

#include <vindex/error.hpp>

namespace vindex::cpu {
namespace {

#if defined(__x86_64__)
// Without a preference g++ makes 32-byte vectors of loops for this target; clang has none to state.
#if defined(__clang__)
#define VINDEX_TARGET_AMX \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")))
#else
#define VINDEX_TARGET_AMX \
  __attribute__((         \
      target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16,prefer-vector-width=512")))
#endif

VINDEX_TARGET_AMX void multiply_on_amx(const TileOperands& operands, float* gram, std::int64_t n,
                                       const std::stop_token& stop) {
  multiply_tiles<AmxTiles>(operands, gram, n, stop);
}
#endif

}  // namespace

TileProduct amx_tile_product() {
#if defined(__x86_64__)
  return multiply_on_amx;
#else
  expects(false, "AMX is a unit of x86-64");
  return nullptr;
#endif
}

}  // namespace vindex::cpu
