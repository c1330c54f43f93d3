// Owns the way of encoded bytes to the device: copies on a stream of their own, host memory given
// back as soon as its copy is over, and views that decoders on the device read.
#pragma once

#include "backend/backend.hpp"
#include "decode/formats/decode_view.hpp"
#include "kernels/device/handles.hpp"
#include "kernels/gram/codes/code_scales.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace vindex::kernels {

/// Encoded bytes asked of an input that is not in memory at a time, where nothing limits them.
inline constexpr std::uint64_t kSlabBytes = 32ULL << 20U;
/// Rows in a slab of at most `bytes`: whole blocks of scales, whole words of codes that lie
/// transposed, and one unit of both at least.
std::int64_t slab_rows(const decode::Encoding& encoding, std::int64_t row_bytes,
                       std::uint64_t bytes);

/// Inputs that a batch holds unreleased at most while it asks for the next (BackendLimits).
inline constexpr std::int64_t kHeldInputs = 8;

/// Where the parts of one encoded matrix lie in its slot of device memory.
struct SlotLayout {
  std::size_t row_bytes = 0;  ///< between stored rows of codes
  std::size_t code_bytes = 0;
  std::size_t companion_bytes[decode::kMaxCompanions] = {};  ///< as in EncodedMatrix::companions
  std::size_t companion_offset[decode::kMaxCompanions] = {};
  std::size_t total_bytes = 0;  ///< a multiple of 256
};
/// For a matrix of `rows` rows of which `slab` holds whole ones.
SlotLayout slot_layout(const decode::EncodedMatrix& slab, std::int64_t rows);

/// A matrix on the device.
struct DeviceMatrix {
  decode::DecodeView view;  ///< the whole matrix, pointers on the device
  std::uint64_t sign_flip_key = 0;
  bool transposed = false;
  CodeScales scales = CodeScales::kUnfit;  ///< judge_scales() of a matrix of 8-bit floats
};

/// Copies matrices of one batch, in its order, on one stream.
class Uploader {
 public:
  /// `slab_bytes`: of an input that is not in memory, asked for at a time.
  explicit Uploader(cudaStream_t copies, std::uint64_t slab_bytes = kSlabBytes)
      : copies_(copies), slab_bytes_(slab_bytes) {}
  /// Releases what it still holds, as far as its copies are over.
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Begins to copy `input` to `slot` (slot_bytes). Waits where the host bytes are not to stay, or
  /// where kHeldInputs are under way. Errors: those of the input; expects() where companions differ
  /// in size from the layout's.
  DeviceMatrix upload(MatrixInput& input, const SlotLayout& layout, std::uint8_t* slot);
  /// What `stream` does from here on comes after the copies begun so far.
  void order_before(cudaStream_t stream);
  /// Waits for every copy and releases every input.
  void finish();

 private:
  struct Held {
    MatrixInput* input;
    Event copied;
  };
  void copy_rows(const decode::EncodedMatrix& slab, const SlotLayout& layout, std::int64_t rows,
                 std::uint8_t* slot);
  /// Also turns the pointers of `view` to the copies.
  void copy_companions(const decode::EncodedMatrix& slab, const SlotLayout& layout,
                       std::uint8_t* slot, decode::DecodeView& view);
  void release_oldest();
  void release_copied();

  cudaStream_t copies_;
  std::uint64_t slab_bytes_;
  std::deque<Held> held_;
  std::vector<Event> spare_;
};

/// Rows [first, first + count) of a view of a whole matrix.
decode::DecodeView rows_of(const decode::Encoding& encoding, const decode::DecodeView& view,
                           std::int64_t first, std::int64_t count);

}  // namespace vindex::kernels
