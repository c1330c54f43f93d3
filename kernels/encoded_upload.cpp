#include "encoded_upload.hpp"

#include "range.hpp"

#include <algorithm>

namespace vindex::kernels {

namespace {

constexpr std::size_t kSlotAlignment = 256;
/// Encoded bytes asked of an input that is not in memory at a time.
constexpr std::int64_t kStreamedBytes = 32LL << 20U;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

}  // namespace

SlotLayout slot_layout(const decode::EncodedMatrix& slab, std::int64_t rows) {
  const auto width = decode::row_bytes(*slab.encoding, static_cast<std::uint64_t>(slab.cols));
  expects(width.has_value(), "a slab whose row does not fit its encoding");
  SlotLayout layout;
  layout.row_bytes = static_cast<std::size_t>(*width);
  layout.code_bytes = layout.row_bytes * static_cast<std::size_t>(rows);
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

void Uploader::copy_rows(const decode::EncodedMatrix& slab, const SlotLayout& layout,
                         std::uint8_t* to) {
  const auto rows = static_cast<std::size_t>(slab.rows);
  const auto stride = static_cast<std::size_t>(slab.row_stride_bytes);
  if (stride == layout.row_bytes) {
    check(
        cudaMemcpyAsync(to, slab.codes, rows * layout.row_bytes, cudaMemcpyHostToDevice, copies_));
  } else {
    check(cudaMemcpy2DAsync(to, layout.row_bytes, slab.codes, stride, layout.row_bytes, rows,
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
    if (view.scales == reinterpret_cast<const std::uint8_t*>(bytes.data())) {
      view.scales = slot + layout.companion_offset[index];
    }
    check(cudaMemcpyAsync(slot + layout.companion_offset[index], bytes.data(), bytes.size(),
                          cudaMemcpyHostToDevice, copies_));
  }
}

DeviceMatrix Uploader::upload(measure::MatrixInput& input, const SlotLayout& layout,
                              std::uint8_t* slot) {
  const Range range("host to device");
  release_copied();
  while (static_cast<std::int64_t>(held_.size()) >= kHeldInputs) {
    release_oldest();
  }
  const std::int64_t rows = input.rows();
  const std::int64_t unit = std::max<std::int64_t>(1, input.encoding().block_rows);
  const std::int64_t step =
      input.in_memory()
          ? rows
          : std::max(unit,
                     kStreamedBytes /
                         static_cast<std::int64_t>(std::max<std::size_t>(1, layout.row_bytes)) /
                         unit * unit);
  DeviceMatrix out;
  out.sign_flip_key = input.sign_flip_key();
  out.transposed = input.transposed();
  for (std::int64_t first = 0; first < rows; first += step) {
    const decode::EncodedMatrix slab = input.row_slab(first, std::min(step, rows - first));
    copy_rows(slab, layout, slot + static_cast<std::size_t>(first) * layout.row_bytes);
    if (first == 0) {
      out.view = decode::decode_view(slab);
      copy_companions(slab, layout, slot, out.view);
    }
    if (!input.in_memory()) {
      check(cudaStreamSynchronize(copies_));  // the next slab takes this one's memory
    }
  }
  out.view.codes = slot;
  out.view.row_stride_bytes = static_cast<std::int64_t>(layout.row_bytes);
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

decode::DecodeView rows_of(const decode::DecodeView& view, std::int64_t first, std::int64_t count) {
  decode::DecodeView rows = view;
  rows.codes += first * view.row_stride_bytes;
  rows.rows = count;
  rows.first_row += first;
  return rows;
}

}  // namespace vindex::kernels
