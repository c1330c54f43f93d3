// Owns the MatrixInput over bytes that are in memory already: slabs are views, nothing is copied.
#include <vindex/core/error.hpp>
#include <vindex/measure/backend.hpp>

namespace vindex::measure {
namespace {

class MemoryInput final : public MatrixInput {
 public:
  MemoryInput(const decode::EncodedMatrix& matrix, bool transposed, std::uint64_t sign_flip_key)
      : matrix_(matrix), transposed_(transposed), sign_flip_key_(sign_flip_key) {}

  const decode::Encoding& encoding() const override { return *matrix_.encoding; }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return transposed_; }
  std::uint64_t sign_flip_key() const override { return sign_flip_key_; }
  bool in_memory() const override { return true; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return decode::row_slab(matrix_, first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return decode::column_slab(matrix_, first, count);
  }

 private:
  decode::EncodedMatrix matrix_;
  bool transposed_;
  std::uint64_t sign_flip_key_;
};

}  // namespace

std::unique_ptr<MatrixInput> make_memory_input(const decode::EncodedMatrix& matrix, bool transposed,
                                               std::uint64_t sign_flip_key) {
  expects(matrix.encoding != nullptr, "make_memory_input: a matrix has an encoding");
  expects(matrix.first_row == 0 && matrix.first_col == 0, "make_memory_input: the whole matrix");
  return std::make_unique<MemoryInput>(matrix, transposed, sign_flip_key);
}

}  // namespace vindex::measure
