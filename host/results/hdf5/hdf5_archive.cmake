# vindex_hdf5: libhdf5 as what links it asks for. A program whose property VINDEX_HDF5_ARCHIVE is set takes it from its
# archive where there is one that links with nothing but compression: Debian's shared library reads from S3, and so brings
# libcurl and thirty other libraries along, which took half of the 13 ms of `vindex --version`.
get_filename_component(folder "${HDF5_C_LIBRARY_hdf5}" DIRECTORY)
find_library(VINDEX_HDF5_ARCHIVE NAMES libhdf5.a HINTS "${folder}" NO_DEFAULT_PATH)
find_library(VINDEX_HDF5_HL_ARCHIVE NAMES libhdf5_hl.a HINTS "${folder}" NO_DEFAULT_PATH)
find_library(VINDEX_SZIP NAMES sz)
set(archive ${VINDEX_HDF5_HL_ARCHIVE} ${VINDEX_HDF5_ARCHIVE} ${VINDEX_SZIP} ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS} m)

if(VINDEX_HDF5_ARCHIVE AND VINDEX_HDF5_HL_ARCHIVE AND VINDEX_SZIP)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES ${archive})
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
  check_cxx_source_compiles("
    #include <hdf5.h>
    #include <hdf5_hl.h>
    int main() { return H5open() < 0 || H5Fopen(\"file\", H5F_ACC_RDONLY, H5P_DEFAULT) < 0 || H5DSset_scale(0, \"name\") < 0; }"
    VINDEX_HDF5_ARCHIVE_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_INCLUDES)
endif()

add_library(vindex_hdf5 INTERFACE)
target_include_directories(vindex_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
if(VINDEX_HDF5_ARCHIVE_LINKS)
  set(asked $<BOOL:$<TARGET_PROPERTY:VINDEX_HDF5_ARCHIVE>>)
  target_link_libraries(vindex_hdf5 INTERFACE
    "$<${asked}:${archive}>" "$<$<NOT:${asked}>:hdf5::hdf5;hdf5::hdf5_hl>")
else()
  target_link_libraries(vindex_hdf5 INTERFACE hdf5::hdf5 hdf5::hdf5_hl)
endif()
