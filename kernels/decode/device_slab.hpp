// Owns the copy of one slab of an encoded matrix on a device: the bytes that its weights need,
// without what lies between, its companions, and the view that decoders there read. Copies are
// ordered on a stream and do not synchronise; host bytes stay until it was waited for.
#pragma once
#include "decode/formats/decode_view.hpp"
#include "kernels/device/handles.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// Bytes that copy_codes() writes.
std::size_t code_copy_bytes(const decode::EncodedMatrix& slab);
/// The slab over its copy at `to` on the device: what row_slab() and column_slab() cut further, and
/// what device_view() takes. Its address is only reckoned with, never followed.
decode::EncodedMatrix copy_codes(const decode::EncodedMatrix& slab, std::uint8_t* to,
                                 cudaStream_t stream);

/// Where the companions of a matrix lie on the device, by number in EncodedMatrix::companions.
using CompanionCopies = std::array<const std::uint8_t*, decode::kMaxCompanions>;
/// Bytes that copy_companions() may write.
std::size_t companion_copy_bytes(const decode::EncodedMatrix& matrix);
/// All of them, behind each other from `to`.
CompanionCopies copy_companions(const decode::EncodedMatrix& matrix, std::uint8_t* to,
                                cudaStream_t stream);

/// `copied`: of copy_codes(), or a part of it. Errors: as decode_view().
decode::DecodeView device_view(const decode::EncodedMatrix& copied,
                               const CompanionCopies& companions);

}  // namespace vindex::kernels
