// Owns the checks in front of the decoders: which companions a scheme needs, how many elements of
// them, and that group indices name groups; and the view that decoders then read.
#pragma once

#include "decode/encoding/encoded_matrix.hpp"
#include "decode/formats/decode_view.hpp"

#include <string>

namespace vindex::decode {

/// The flat view of `matrix`. Errors: expects() where a companion is missing or too small for the
/// view, or the encoding is not decodable (is_decodable()).
DecodeView decode_view(const EncodedMatrix& matrix);

/// What is wrong with the values of the whole `matrix`'s group indices (decode_view() checks sizes
/// alone); empty where nothing is, or there are none. To be asked once, before decoding.
std::string companion_problem(const EncodedMatrix& matrix);

}  // namespace vindex::decode
