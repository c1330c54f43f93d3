// A library that has every name of the OpenBLAS which the program looks for and says of itself that
// its integers are 64 bits wide, as builds with INTERFACE64 do. Loading it must end there: nothing
// in it computes.
#include "blas/blas.hpp"

#define VINDEX_STUB(name)                          \
  extern "C" const char* stub_##name() asm(#name); \
  extern "C" const char* stub_##name() { return "OpenBLAS 0.3.21  USE64BITINT NO_LAPACKE"; }
VINDEX_BLAS_FUNCTIONS(VINDEX_STUB)
