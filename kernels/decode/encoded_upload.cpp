// Owns the layout of a matrix on the device, the copies of its slabs, and the events after which
// host memory is released.
#include "encoded_upload.hpp"

#include "core/integers.hpp"
#include "decode/bind_view.hpp"
#include "decode/encoding/code_layout.hpp"
#include "kernels/device/range.hpp"

#include <algorithm>
#include <numeric>

namespace vindex::kernels {

namespace {

constexpr std::size_t kSlotAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return ceil_divide(bytes, kSlotAlignment) * kSlotAlignment;
}

}  // namespace

std::int64_t slab_rows(const decode::Encoding& encoding, std::int64_t row_bytes,
                       std::uint64_t bytes) {
  const std::int64_t unit = std::lcm(8, std::max<std::int64_t>(1, encoding.block_rows));
  return std::max(
      unit, static_cast<std::int64_t>(bytes) / std::max<std::int64_t>(1, row_bytes) / unit * unit);
}

SlotLayout slot_layout(const decode::EncodedMatrix& slab, std::int64_t rows) {
  const auto cols = static_cast<std::uint64_t>(slab.cols);
  const auto whole = static_cast<std::uint64_t>(rows);
  const auto stride = decode::code_stride(*slab.encoding, whole, cols);
  const auto bytes = decode::code_bytes(*slab.encoding, whole, cols);
  expects(stride && bytes, "a matrix whose shape does not fit its encoding");
  SlotLayout layout;
  layout.row_bytes = static_cast<std::size_t>(*stride);
  layout.code_bytes = static_cast<std::size_t>(*bytes);
  layout.total_bytes = aligned(layout.code_bytes);
  for (std::int32_t i = 0; i < slab.companion_count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    layout.companion_bytes[index] = slab.companions[index].bytes.size();
    layout.companion_offset[index] = layout.total_bytes;
    layout.total_bytes += aligned(layout.companion_bytes[index]);
  }
  return layout;
}

Uploader::~Uploader() {
  (void)cudaStreamSynchronize(copies_);  // nothing may still read host memory that is given away
  for (const Held& held : held_) {
    held.input->release();
  }
}

// The bytes that `slab` needs, to where they lie in the whole matrix: rows, or columns of bytes
// where codes lie transposed, or a part of one run.
void Uploader::copy_rows(const decode::EncodedMatrix& slab, const SlotLayout& layout,
                         std::int64_t rows, std::uint8_t* slot) {
  decode::EncodedMatrix whole = slab;
  whole.rows = rows;
  whole.first_row = 0;
  whole.row_stride_bytes = static_cast<std::int64_t>(layout.row_bytes);
  whole.code_origin = 0;
  const decode::Cut place = decode::cut_rows(whole, slab.first_row, slab.rows);
  const decode::CodeWindow to = decode::code_window(place.view);
  const decode::CodeWindow from = decode::code_window(slab);
  const auto width = static_cast<std::size_t>(from.width);
  const auto height = static_cast<std::size_t>(from.height);
  std::uint8_t* into = slot + place.offset + to.offset;
  if (from.stride == from.width && to.stride == to.width) {
    check(cudaMemcpyAsync(into, slab.codes + from.offset, width * height, cudaMemcpyHostToDevice,
                          copies_));
  } else {
    check(cudaMemcpy2DAsync(into, static_cast<std::size_t>(to.stride), slab.codes + from.offset,
                            static_cast<std::size_t>(from.stride), width, height,
                            cudaMemcpyHostToDevice, copies_));
  }
}

void Uploader::copy_companions(const decode::EncodedMatrix& slab, const SlotLayout& layout,
                               std::uint8_t* slot, decode::DecodeView& view) {
  for (std::int32_t i = 0; i < slab.companion_count; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const auto& bytes = slab.companions[index].bytes;
    expects(bytes.size() == layout.companion_bytes[index],
            "matrices of a batch with companions of one size");
    if (bytes.empty()) {
      continue;
    }
    const std::size_t role = decode::role_index(slab.companions[index].role);
    if (view.companions[role] != nullptr) {
      view.companions[role] = slot + layout.companion_offset[index];
    }
    check(cudaMemcpyAsync(slot + layout.companion_offset[index], bytes.data(), bytes.size(),
                          cudaMemcpyHostToDevice, copies_));
  }
}

DeviceMatrix Uploader::upload(MatrixInput& input, const SlotLayout& layout, std::uint8_t* slot) {
  const Range range("host to device");
  release_copied();
  while (static_cast<std::int64_t>(held_.size()) >= kHeldInputs) {
    release_oldest();
  }
  const std::int64_t rows = input.rows();
  const auto row_bytes =
      static_cast<std::int64_t>(layout.code_bytes) / std::max<std::int64_t>(rows, 1);
  const std::int64_t step =
      input.in_memory() ? rows : slab_rows(input.encoding(), row_bytes, slab_bytes_);
  DeviceMatrix out;
  out.sign_flip_key = input.sign_flip_key();
  out.transposed = input.transposed();
  for (std::int64_t first = 0; first < rows; first += step) {
    const decode::EncodedMatrix slab = input.row_slab(first, std::min(step, rows - first));
    copy_rows(slab, layout, rows, slot);
    if (first == 0) {
      out.view = decode::decode_view(slab);
      copy_companions(slab, layout, slot, out.view);
      if (slab.encoding->scheme == decode::Scheme::kFp8Block) {
        out.scales = judge_scales(slab.companions[0].type, slab.companions[0].bytes);
      }
    }
    if (!input.in_memory()) {
      check(cudaStreamSynchronize(copies_));  // the next slab takes this one's memory
    }
  }
  out.view.codes = slot;
  out.view.row_stride_bytes = static_cast<std::int64_t>(layout.row_bytes);
  out.view.code_origin = 0;
  out.view.rows = rows;
  Event copied = spare_.empty() ? make_event(false) : std::move(spare_.back());
  if (!spare_.empty()) {
    spare_.pop_back();
  }
  check(cudaEventRecord(copied.get(), copies_));
  held_.push_back({&input, std::move(copied)});
  return out;
}

void Uploader::release_oldest() {
  Held held = std::move(held_.front());
  held_.pop_front();
  check(cudaEventSynchronize(held.copied.get()));
  held.input->release();
  spare_.push_back(std::move(held.copied));
}

void Uploader::release_copied() {
  while (!held_.empty()) {
    const cudaError_t status = cudaEventQuery(held_.front().copied.get());
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return;
    }
    check(status);
    release_oldest();
  }
}

void Uploader::order_before(cudaStream_t stream) {
  if (!held_.empty()) {
    check(cudaStreamWaitEvent(stream, held_.back().copied.get(), 0));
  }
}

void Uploader::finish() {
  while (!held_.empty()) {
    release_oldest();
  }
}

decode::DecodeView rows_of(const decode::Encoding& encoding, const decode::DecodeView& view,
                           std::int64_t first, std::int64_t count) {
  decode::EncodedMatrix whole;
  whole.encoding = &encoding;
  whole.rows = view.rows;
  whole.cols = view.cols;
  whole.row_stride_bytes = view.row_stride_bytes;
  decode::DecodeView rows = view;
  rows.codes += decode::cut_rows(whole, first, count).offset;
  rows.rows = count;
  rows.first_row += first;
  return rows;
}

}  // namespace vindex::kernels
