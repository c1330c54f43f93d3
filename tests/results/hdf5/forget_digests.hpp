// Owns what makes a file look written by a program that knew no digests, or changed values or
// text and removed them: tests that rewrite any go through it.
#pragma once

#include "results/hdf5/text_digest.hpp"

#include <hdf5.h>

namespace vindex::results::testing {

/// Removes every digest in an open file.
inline void forget_digests(hid_t file) {
  const auto forget = [](hid_t object, const char* name, const H5O_info_t* /*info*/,
                         void* /*data*/) -> herr_t {
    const hid_t one = H5Oopen(object, name, H5P_DEFAULT);
    for (const char* attribute : {kTextDigest, kAttributesDigest}) {
      if (H5Aexists(one, attribute) > 0) {
        H5Adelete(one, attribute);
      }
    }
    H5Oclose(one);
    return 0;
  };
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, forget, nullptr);
}

}  // namespace vindex::results::testing
