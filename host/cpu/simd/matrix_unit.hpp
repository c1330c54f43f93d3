// Owns whether the processor's matrix unit (Intel AMX: tiles of 16 x 16 sums) multiplies Gram
// matrices: what the processor and the kernel say, the decision as a pure function of that, and
// the one place that asks the kernel for the tile registers.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

namespace vindex::cpu {

/// What the user wants.
enum class MatrixUnitPreference {
  kBest,  ///< the unit where there is one
  kNone   ///< vector instructions and OpenBLAS alone
};

/// What is known of the matrix unit.
struct MatrixUnitFacts {
  bool has_tiles = false;     ///< CPUID.7.0:EDX[24], AMX-TILE
  bool has_bfloat16 = false;  ///< CPUID.7.0:EDX[22], AMX-BF16
  bool has_avx512 = false;    ///< F, BW, DQ and VL: what is done with the sums of a tile
  bool saves_tiles = false;   ///< XCR0[18:17]: the system saves tile registers
  bool is_permitted = false;  ///< the kernel has given them to this process
  std::string refusal = {};   ///< its reason otherwise
};

struct MatrixUnitChoice {
  bool is_used = false;
  std::string note = {};  ///< why one that is there and wanted is not used; empty otherwise
};

/// The decision. Pure.
MatrixUnitChoice choose_matrix_unit(const MatrixUnitFacts& facts, MatrixUnitPreference wish);

/// Facts of this machine, found once. Where the processor has tiles, the first call asks the kernel
/// for them on behalf of the whole process, threads to come included (Linux:
/// arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)): a process that has not asked is ended by its first
/// tile instruction.
const MatrixUnitFacts& matrix_unit_facts();

struct TileOperands;
/// The product of a matrix unit (gram/tile_product.hpp).
using TileProduct = void (*)(const TileOperands& operands, float* gram, std::int64_t n,
                             const std::stop_token& stop);

}  // namespace vindex::cpu
