// Owns the choice among OpenBLAS's kernels (its "core types"). Its own choice goes by tables of
// models: a processor younger than the library gets kernels of 2004. Ours goes by instructions.
// Pure.
#pragma once

#include "processor.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vindex::blas {

/// Names of the core types that suit a processor, as OpenBLAS spells them (it ignores case): the
/// first is asked for, the others are as good where a version prefers them. Empty: the library
/// knows this processor better (everything older than AVX, AMD without AVX2).
/// The first is one that 0.3.21 (Debian 12) and every later version knows: asked for a name it does
/// not have, it takes its oldest kernels on ARM.
/// Source of the names: OpenBLAS driver/others/dynamic.c, dynamic_arm64.c.
std::vector<std::string_view> fitting_blas_cores(const Processor& processor);

/// What `core` needs and `processor` lacks ("AVX-512"), empty where nothing is known to be missing:
/// OpenBLAS believes whoever names a core type and dies of an illegal instruction.
std::string_view lacking_for_blas_core(std::string_view core, const Processor& processor);

/// True for two spellings of one name.
bool is_same_core(std::string_view a, std::string_view b);

/// A warning "W-BLAS-KERNELS: ..." where `version` ("OpenBLAS 0.3.21") computes with kernels
/// `taken` that are not among the fitting ones, or that are not what the user wished for; else
/// empty.
std::string blas_core_warning(const std::string& version, std::string_view taken,
                              std::string_view wish, const std::vector<std::string_view>& fitting);

}  // namespace vindex::blas
