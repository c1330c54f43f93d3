# What an installation holds beside the program (apps/) and the CUDA module (kernels/), and the packages made of it:
#   bin/vindex   lib/vindex/libvindex_cuda_module.so   share/doc/vindex   share/vindex/jobs
install(FILES README.md CHANGELOG.md LICENSE NOTICE DESTINATION share/doc/vindex)
install(DIRECTORY docs/ DESTINATION share/doc/vindex/docs)
if(VINDEX_HDF5_ARCHIVE_LINKS)  # then the program holds it
  install(FILES /usr/share/doc/libhdf5-dev/copyright DESTINATION share/doc/vindex RENAME HDF5-licence OPTIONAL)
endif()
# What builds containers needs a checkout.
install(DIRECTORY jobs/ DESTINATION share/vindex/jobs USE_SOURCE_PERMISSIONS PATTERN container EXCLUDE)

# Everything above that is compiled, and nothing else: what scripts/quickstart.sh builds, so that an installation may follow.
add_custom_target(installed)
add_dependencies(installed vindex vindex_library)
if(TARGET vindex_cuda_module)
  add_dependencies(installed vindex_cuda_module)
endif()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME vindex)
set(CPACK_PACKAGE_VENDOR "the vindex authors")
set(CPACK_PACKAGE_CONTACT "the vindex authors <vindex@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "singular-value spectra of every weight matrix of a language model")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Loaded at run time by its name, which no tool sees; of the builds with run-time detection of the processor.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-pthread | libopenblas0")
include(CPack)
