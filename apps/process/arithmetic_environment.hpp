// Owns which variables of the environment reach the numerical libraries.
#pragma once

#include <string>
#include <vector>

namespace vindex::apps {

/// Takes out of the process's environment what makes NVIDIA's libraries compute in another
/// arithmetic than they were asked for: they read it when they are first used, and no call
/// overrides it. Returns what was there, "NAME=value". Call it before there are threads. Source:
/// cuBLAS, "Floating Point Emulation" and "cublasMath_t"; CUDA, NVIDIA_TF32_OVERRIDE.
std::vector<std::string> unset_arithmetic_variables();

/// OPENBLAS_CORETYPE as the user has set it, the wish for kernels of OpenBLAS; empty where it is
/// not. The first call gives OpenBLAS, which reads the environment while it is loaded, the kernels
/// that suit the processor where there is no wish, and one thread: call it before there are any.
const std::string& blas_core_wish();

/// VINDEX_MATRIX_UNIT: false for `none`, which turns the processor's matrix unit off, true for
/// `auto` or nothing. Errors: UsageError E-MATRIX-UNIT for anything else.
bool wants_matrix_unit();

}  // namespace vindex::apps
