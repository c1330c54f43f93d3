// Owns how many bytes of codes and companions a slab needs on the device, and their copies.
#include "device_slab.hpp"

#include "core/integers.hpp"
#include "decode/bind_view.hpp"
#include "decode/encoding/code_layout.hpp"

namespace vindex::kernels {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return ceil_divide(bytes, kAlignment) * kAlignment; }

}  // namespace

std::size_t code_copy_bytes(const decode::EncodedMatrix& slab) {
  const decode::CodeWindow window = decode::code_window(slab);
  return aligned(static_cast<std::size_t>(window.width * window.height));
}

decode::EncodedMatrix copy_codes(const decode::EncodedMatrix& slab, std::uint8_t* to,
                                 cudaStream_t stream) {
  const decode::CodeWindow window = decode::code_window(slab);
  const auto width = static_cast<std::size_t>(window.width);
  const auto height = static_cast<std::size_t>(window.height);
  const std::byte* const from = slab.codes + window.offset;
  if (width * height == 0) {
    return slab;
  }
  if (window.stride == window.width) {
    check(cudaMemcpyAsync(to, from, width * height, cudaMemcpyHostToDevice, stream));
  } else {
    check(cudaMemcpy2DAsync(to, width, from, static_cast<std::size_t>(window.stride), width, height,
                            cudaMemcpyHostToDevice, stream));
  }
  return decode::with_codes(slab, reinterpret_cast<const std::byte*>(to));
}

std::size_t companion_copy_bytes(const decode::EncodedMatrix& matrix) {
  std::size_t bytes = 0;
  for (std::int32_t i = 0; i < matrix.companion_count; ++i) {
    bytes += aligned(matrix.companions[static_cast<std::size_t>(i)].bytes.size());
  }
  return bytes;
}

CompanionCopies copy_companions(const decode::EncodedMatrix& matrix, std::uint8_t* to,
                                cudaStream_t stream) {
  CompanionCopies copies{};
  for (std::int32_t i = 0; i < matrix.companion_count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const auto& bytes = matrix.companions[index].bytes;
    copies[index] = to;
    if (!bytes.empty()) {
      check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream));
      to += aligned(bytes.size());
    }
  }
  return copies;
}

decode::DecodeView device_view(const decode::EncodedMatrix& copied,
                               const CompanionCopies& companions) {
  decode::DecodeView view = decode::decode_view(copied);
  for (std::int32_t i = 0; i < copied.companion_count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::size_t role = decode::role_index(copied.companions[index].role);
    if (view.companions[role] != nullptr) {
      view.companions[role] = companions[index];
    }
  }
  return view;
}

}  // namespace vindex::kernels
