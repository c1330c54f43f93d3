// Owns inputs over other inputs: the base of those that watch one, and those that present the
// weights of others, decoded to float32: the difference of two
// matrices, rows in another order, one matrix out of several, W diag(d) where another has W. Every
// back end measures them as matrices of float32, slab by slab, so that no side has to lie in
// memory.
#pragma once

#include "backend.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vindex {

/// Passes everything on to `inner`, which must outlive it; an input that watches another replaces
/// what it changes.
class ForwardingInput : public MatrixInput {
 public:
  explicit ForwardingInput(MatrixInput& inner) : inner_(inner) {}
  const decode::Encoding& encoding() const override { return inner_.encoding(); }
  std::int64_t rows() const override { return inner_.rows(); }
  std::int64_t cols() const override { return inner_.cols(); }
  bool transposed() const override { return inner_.transposed(); }
  std::uint64_t sign_flip_key() const override { return inner_.sign_flip_key(); }
  bool in_memory() const override { return inner_.in_memory(); }
  bool has_cheap_slabs() const override { return inner_.has_cheap_slabs(); }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return inner_.row_slab(first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return inner_.column_slab(first, count);
  }
  void release() override { inner_.release(); }

 protected:
  MatrixInput& inner() { return inner_; }

 private:
  MatrixInput& inner_;
};

/// B - A of equal logical shape, every difference rounded once to float32, stored as `a` is. Both
/// must outlive it and are asked for slabs by it alone meanwhile. Their release() is not called.
/// Errors: those of the inputs.
std::unique_ptr<MatrixInput> make_difference_input(MatrixInput& a, MatrixInput& b);

/// How the rows of a head that rotary embedding turns two by two are put down: its two halves one
/// after the other (Hugging Face), or what is turned together side by side (llama.cpp).
enum class RotaryRows : std::uint8_t { kHalves, kPairs };

/// Number within the head of the row that lies at `row` in the order `to`, in the other order.
/// `height`: rows of a head, even.
std::int64_t rotary_row(std::int64_t row, std::int64_t height, RotaryRows to);

/// `inner`, whose heads of `height` rows (even, dividing rows) are in the other order, with its
/// rows in the order `to`. Errors: expects() on a transposed one; those of `inner`.
std::unique_ptr<MatrixInput> make_rotary_input(MatrixInput& inner, std::int64_t height,
                                               RotaryRows to);

/// Rows of a matrix: all of `input` as it is meant, or all of its columns.
struct StackedPart {
  MatrixInput* input = nullptr;
  bool transposed = false;
};

/// `parts` below each other; logical columns (rows of a transposed one) are as many in all. Errors:
/// those of the inputs.
std::unique_ptr<MatrixInput> make_stacked_input(std::vector<StackedPart> parts);

/// Most bytes of one such input's own memory for a matrix of that shape, as back ends ask for slabs
/// today.
std::uint64_t arranged_slab_bytes(std::int64_t rows, std::int64_t cols);

/// `inner` with its logical column j (stored row j where transposed) times column_scale[j], rounded
/// once to float32: encoding F32, slabs decoded into a buffer of its own, which release() frees.
/// `in_memory()` is false, so that back ends ask for slabs and not for all at once. Errors: those
/// of `inner`.
std::unique_ptr<MatrixInput> make_scaled_input(std::unique_ptr<MatrixInput> inner,
                                               std::vector<double> column_scale);

/// Most bytes of that buffer for a matrix of that shape, as back ends ask for slabs today: 32 MiB
/// or 1024 positions of the long side, and what rounding to whole blocks adds.
std::uint64_t scaled_slab_bytes(std::int64_t rows, std::int64_t cols);

}  // namespace vindex
