// Owns the way to BLAS and LAPACK: `blas().cblas_dgemm(...)`, `blas().LAPACK_dsyev(...)`, with the
// declarations of cblas.h and lapacke.h. The library is loaded on first use (blas_library.cpp), so
// nothing here may be called by its bare name: that would need it at link time. Integers are 32
// bits wide, so one dimension is below 2^31; element offsets are 64-bit inside.
#pragma once

#include <complex>
#include <cstddef>

#define LAPACK_COMPLEX_CPP
#include <cblas.h>
#include <lapacke.h>

// Panels of xSYTRD, which lapacke.h leaves out. Source: LAPACK SRC/dlatrd.f.
extern "C" {
void dlatrd_(const char* triangle, const lapack_int* n, const lapack_int* block, double* a,
             const lapack_int* lda, double* e, double* tau, double* w, const lapack_int* ldw,
             std::size_t triangle_length);
void slatrd_(const char* triangle, const lapack_int* n, const lapack_int* block, float* a,
             const lapack_int* lda, float* e, float* tau, float* w, const lapack_int* ldw,
             std::size_t triangle_length);
}

namespace vindex::blas {

// lapacke.h makes LAPACK_dsyev(...) a call of dsyev_, the lengths of its character arguments added:
// with a member of that name the macro works behind a dot too.
#define VINDEX_BLAS_FUNCTIONS(X) \
  X(openblas_get_config)         \
  X(openblas_get_corename)       \
  X(openblas_set_num_threads)    \
  X(cblas_daxpy)                 \
  X(cblas_dgemm)                 \
  X(cblas_dgemv)                 \
  X(cblas_dnrm2)                 \
  X(cblas_dscal)                 \
  X(cblas_dsyr2k)                \
  X(cblas_dsyrk)                 \
  X(cblas_dtrmm)                 \
  X(cblas_dtrsm)                 \
  X(cblas_sgemm)                 \
  X(cblas_strsm)                 \
  X(cblas_ssymm)                 \
  X(cblas_ssyr2k)                \
  X(cblas_ssyrk)                 \
  X(dbdsqr_)                     \
  X(dgebrd_)                     \
  X(dgelqf_)                     \
  X(dgeqrf_)                     \
  X(dgesvd_)                     \
  X(dlarfb_)                     \
  X(dlarfg_)                     \
  X(dlarft_)                     \
  X(dlatrd_)                     \
  X(dorgqr_)                     \
  X(dpocon_)                     \
  X(dpotrf_)                     \
  X(dstemr_)                     \
  X(dsterf_)                     \
  X(dsyev_)                      \
  X(dsyevr_)                     \
  X(dsytrd_)                     \
  X(dtpqrt_)                     \
  X(dtprfb_)                     \
  X(slatrd_)                     \
  X(spotrf_)                     \
  X(ssytrd_)

struct BlasFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name takes none
#define VINDEX_BLAS_MEMBER(name) decltype(&::name) name = nullptr;
  VINDEX_BLAS_FUNCTIONS(VINDEX_BLAS_MEMBER)
#undef VINDEX_BLAS_MEMBER
};

/// The process's library; loads it where load_blas() has not (with its errors). The first time in a
/// thread it sees to a buffer for it (reserve_buffers(), with its errors): every call goes through
/// here, none can forget to.
const BlasFunctions& blas();

}  // namespace vindex::blas
