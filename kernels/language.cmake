# CUDA as a language, for every folder that has .cu files; included by the top level.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  message(FATAL_ERROR "set CMAKE_CUDA_ARCHITECTURES, or use the preset `cuda`")
endif()
enable_language(CUDA)
# 12.6 update 2 (nvcc 12.6.77, cuSOLVER 11.7.1) is the first with cusolverDnXsyevBatched.
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.6.77)
  message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.6.77 (CUDA 12.6 update 2)")
endif()
find_package(CUDAToolkit REQUIRED GLOBAL)
if(CMAKE_VERSION VERSION_LESS 3.25.2)
  # CMake 3.25.1 does not know C++20 for nvcc (fixed in 3.25.2): it is told the flag.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
