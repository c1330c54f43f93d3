// Owns the process's OpenBLAS: found and loaded when something is first computed. A program that
// only reads a file never maps it.
//
// Which kernels it computes with is the program's choice, and nothing here makes it: OpenBLAS reads
// its environment once, while it is loaded, and an environment belongs to the program. One that
// wants what suits the processor sets, before it has threads, OPENBLAS_CORETYPE to
// preferred_blas_core() where the user has not set it, and OPENBLAS_NUM_THREADS and OMP_NUM_THREADS
// to 1, so that no threads are started (they would spin, until loading ends them) for matrices that
// are measured side by side. What was taken is in BlasInfo either way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vindex::blas {

/// Which OpenBLAS computes.
struct BlasInfo {
  std::string version;  ///< "OpenBLAS 0.3.21"
  std::string kernels;  ///< its core type, "SkylakeX"
  std::string warning;  ///< "W-BLAS-KERNELS: ..." where others would suit better; else empty
  std::string text() const { return version + " " + kernels; }
};

/// What suits this processor, as OPENBLAS_CORETYPE spells it. Empty: OpenBLAS knows better.
std::string preferred_blas_core();

/// Loads OpenBLAS where that has not happened yet, with one thread. `core_wish` is what the user
/// set OPENBLAS_CORETYPE to (empty: nothing), to be refused or warned of; it counts where it comes
/// first.
/// Errors: ConfigurationError (78) E-BLAS-MISSING where no library is found or it lacks a function,
/// E-BLAS-CORETYPE for kernels that this processor cannot run.
const BlasInfo& load_blas(std::string_view core_wish = {});

/// For a library in a program of others, whose environment and whose OpenBLAS are not ours: where
/// it is not loaded yet it will be loaded into a namespace of the loader with a C library and an
/// environment of its own, in which it finds one thread and `core_wish`, or what suits the
/// processor. Nothing that the program has loaded is then found in its place or changed by it.
/// Where there is no such namespace to be had it is loaded as in a program of ours.
void keep_blas_apart(std::string core_wish);

/// Has OpenBLAS map the buffers of `callers` calls at a time (128 MiB of addresses each) before
/// there are any: where it gets none when it needs one it asks again for ever. blas() does so for
/// every thread that calls it, so this is for who knows their number and wants the refusal early.
/// Errors: OutOfMemory.
void reserve_buffers(std::int32_t callers);

/// Lets OpenBLAS itself compute with up to `wanted` threads, its caller's among them, and with
/// fewer where the system has no more threads or memory to give. Returns how many.
std::int32_t set_library_threads(std::int32_t wanted);

/// The fastest OpenBLAS known here, whatever kernels the user forced upon the program: rates are
/// held against it.
struct ReferenceBlas {
  BlasInfo info;
  std::string why_none;  ///< not empty: there is none better than the poor one in use
  const struct BlasFunctions* functions = nullptr;

  /// The upper triangle of A A^T for A of p x p, both column-major.
  void rank_update(std::int64_t p, const float* a, float* c) const;
  void rank_update(std::int64_t p, const double* a, double* c) const;

 private:
  const struct BlasFunctions& entered() const;
};

/// Where load_blas() has fitting kernels it is those. Otherwise a second copy of the library is
/// loaded into a namespace of its own, once.
const ReferenceBlas& reference_blas();

}  // namespace vindex::blas
