// Owns an input that passes every call on and takes its sample from what passes.
#include "sampled_input.hpp"

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

namespace vindex::commands {

std::uint64_t sample_bytes(std::int64_t weights) {
  return sizeof(float) * static_cast<std::uint64_t>(statistics::sample_size(weights));
}

std::uint64_t scale_bytes_in_memory(std::int64_t weights) {
  return kDecodedBytes + 2 * statistics::HaarPyramid::bytes_in_order(weights) +
         statistics::PermutedScales::bytes_of(weights);
}

std::uint64_t scale_bytes(std::int64_t rows, std::int64_t cols) {
  return kDecodedBytes + statistics::PermutedScales::bytes_of(rows * cols) +
         2 * (rows >= cols ? statistics::HaarPyramid::bytes_in_order(rows * cols)
                           : statistics::HaarPyramid::bytes_by_columns(rows, cols));
}

SampledInput::SampledInput(MatrixInput& inner, bool with_signs, ScaleThreads* threads)
    : ForwardingInput(inner),
      stride_(statistics::sample_stride(inner.rows() * inner.cols())),
      sample_(static_cast<std::size_t>(statistics::sample_size(inner.rows() * inner.cols()))),
      missing_(static_cast<std::int64_t>(sample_.size())),
      threads_(threads) {
  if (with_signs) {
    sign_key_ = inner.sign_flip_key();
  }
}

SampledInput::~SampledInput() { wait(); }

void SampledInput::wait() const {
  if (looked_ != nullptr) {
    looked_->done.wait(false);
  }
}

decode::EncodedMatrix SampledInput::row_slab(std::int64_t first, std::int64_t count) {
  wait();
  return seen(inner().row_slab(first, count));
}

decode::EncodedMatrix SampledInput::column_slab(std::int64_t first, std::int64_t count) {
  wait();
  return seen(inner().column_slab(first, count));
}

decode::EncodedMatrix SampledInput::seen(decode::EncodedMatrix slab) {
  if (inner().in_memory()) {
    was_asked_ = true;
    return slab;
  }
  if (!was_asked_ && inner().rows() * inner().cols() >= statistics::kLeastScaled) {
    slabs_.emplace(inner().rows(), inner().cols(), sign_key_);
  }
  was_asked_ = true;
  if (slabs_) {
    slabs_->add(slab);
    if (slabs_->is_complete()) {
      scales_ = slabs_->figures();
      slabs_.reset();
    }
  }
  if (missing_ == 0) {
    return slab;
  }
  // Slabs may overlap or come again: rows that were taken are not counted twice.
  taken_.resize(sample_.size());
  decode::decode_strided(slab, inner().cols(), stride_, sample_);
  for (std::int64_t row = slab.first_row; row < slab.first_row + slab.rows; ++row) {
    const std::int64_t begin = row * inner().cols() + slab.first_col;
    const auto size = static_cast<std::int64_t>(sample_.size());
    const std::int64_t last = std::min(size, ceil_divide(begin + slab.cols, stride_));
    for (std::int64_t i = ceil_divide(begin, stride_); i < last; ++i) {
      missing_ -= taken_[static_cast<std::size_t>(i)] ? 0 : 1;
      taken_[static_cast<std::size_t>(i)] = true;
    }
  }
  return slab;
}

void SampledInput::take_all() {
  const decode::EncodedMatrix whole = inner().row_slab(0, inner().rows());
  missing_ -= decode::decode_strided(whole, inner().cols(), stride_, sample_);
  scales_ = scales_of(whole, sign_key_);
}

void SampledInput::release() {
  if (looked_ != nullptr) {
    return;  // released there
  }
  if (!was_asked_ || missing_ == 0 || !inner().in_memory()) {
    inner().release();
    return;
  }
  if (threads_ == nullptr) {
    take_all();
    inner().release();
    return;
  }
  looked_ = std::make_shared<Looked>();
  // Waiters may end this object once it is done: the thread keeps what it says it with.
  threads_->run([this, looked = looked_] {
    try {
      take_all();
    } catch (...) {
      looked->error = std::current_exception();
    }
    inner().release();
    looked->done = true;
    looked->done.notify_all();
  });
}

TakenSample SampledInput::take_sample() {
  wait();
  if (looked_ != nullptr && looked_->error != nullptr) {
    std::rethrow_exception(looked_->error);
  }
  return missing_ == 0 ? TakenSample{std::move(sample_), scales_} : TakenSample{};
}

}  // namespace vindex::commands
