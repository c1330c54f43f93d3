// Owns the process's OpenBLAS: found and loaded when something is first computed, with one thread
// and with the kernels that this processor deserves. A program that only reads a file never maps
// it.
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

/// Loads OpenBLAS where that has not happened yet. `core_wish` is the user's OPENBLAS_CORETYPE
/// (empty: the processor's best); it counts where it comes first. The library hears of kernels and
/// threads by environment variables alone, which are set here: call it before other threads read
/// the environment.
/// Errors: ConfigurationError (78) E-BLAS-MISSING where no library is found or it lacks a function,
/// E-BLAS-CORETYPE for kernels that this processor cannot run.
const BlasInfo& load_blas(std::string_view core_wish = {});

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
