# The kernel sources, listed once: nvcc builds them for the CUDA module, tests/emulated_cuda builds the same files with
# the host's compiler.
set(VINDEX_KERNEL_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/band_chase.cu
  ${CMAKE_CURRENT_LIST_DIR}/band_factors.cu
  ${CMAKE_CURRENT_LIST_DIR}/band_panel.cu
  ${CMAKE_CURRENT_LIST_DIR}/band_reduction.cu
  ${CMAKE_CURRENT_LIST_DIR}/band_scale.cu
  ${CMAKE_CURRENT_LIST_DIR}/band_update.cu
  ${CMAKE_CURRENT_LIST_DIR}/bound_proof.cu
  ${CMAKE_CURRENT_LIST_DIR}/cholesky.cu
  ${CMAKE_CURRENT_LIST_DIR}/decode_matrix.cu
  ${CMAKE_CURRENT_LIST_DIR}/dense_batch.cu
  ${CMAKE_CURRENT_LIST_DIR}/gram_batch.cu
  ${CMAKE_CURRENT_LIST_DIR}/gram_operands.cu
  ${CMAKE_CURRENT_LIST_DIR}/gram_plan.cpp
  ${CMAKE_CURRENT_LIST_DIR}/gram_products.cu
  ${CMAKE_CURRENT_LIST_DIR}/gram_products_sm90.cu
  ${CMAKE_CURRENT_LIST_DIR}/moments.cu
  ${CMAKE_CURRENT_LIST_DIR}/singular_values.cu
  ${CMAKE_CURRENT_LIST_DIR}/top_solvers.cpp
  ${CMAKE_CURRENT_LIST_DIR}/top_subspace.cu
  ${CMAKE_CURRENT_LIST_DIR}/tridiagonal_values.cu
  ${CMAKE_CURRENT_LIST_DIR}/weight_projection.cu)
set(VINDEX_CUDA_BACKEND_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/cuda_backend.cu)
