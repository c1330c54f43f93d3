// Owns the refusal of matrices without weights or a decoder, and the comparison of kinds.
#include "batch_inputs.hpp"

#include "decode/encoding_table.hpp"

namespace vindex::statistics {

bool is_refused(const MatrixInput& input, MatrixReport& report) {
  if (!decode::is_decodable(input.encoding())) {
    report.status = MatrixStatus::kUnsupported;
    report.reason = "encoding " + input.encoding().label + " cannot be decoded";
    return true;
  }
  if (input.rows() <= 0 || input.cols() <= 0) {
    report.status = MatrixStatus::kFailed;
    report.reason = "the matrix is empty";
    return true;
  }
  return false;
}

bool is_same_kind(const InputKind& a, const InputKind& b) {
  return a.rows == b.rows && a.cols == b.cols && a.transposed == b.transposed &&
         (a.encoding == b.encoding || a.encoding->label == b.encoding->label);
}

bool is_same_kind(const MatrixInput& a, const MatrixInput& b) {
  const auto kind = [](const MatrixInput& input) {
    return InputKind{input.rows(), input.cols(), input.transposed(), &input.encoding()};
  };
  return is_same_kind(kind(a), kind(b));
}

}  // namespace vindex::statistics
