// Owns the way to LAPACK: the Fortran symbols that OpenBLAS exports, by LAPACKE's declarations
// (integers are 32 bits wide, so one dimension is below 2^31; element offsets are 64-bit inside).
#pragma once

#include <complex>

#define LAPACK_COMPLEX_CPP
#include <lapacke.h>
