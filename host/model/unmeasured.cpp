// Owns the texts of these remarks.
#include <vindex/core/error.hpp>
#include <vindex/model/unmeasured.hpp>

#include <fmt/format.h>

#include <map>

namespace vindex::model {

std::string unmeasured_text(const ModelIndex& index) {
  constexpr std::size_t kMinRank = 3;
  std::map<std::string, std::size_t> reasons;
  const TensorRecord* first = nullptr;
  std::size_t count = 0;
  bool helps_reshape = false;
  for (const TensorRecord& tensor : index.tensors) {
    if (!tensor.in_matrix && tensor.shape.size() >= kMinRank) {
      first = first == nullptr ? &tensor : first;
      ++reasons[tensor.reason];
      ++count;
      helps_reshape = helps_reshape || tensor.reason == "convolution" ||
                      tensor.reason.ends_with("no known stack");
    }
  }
  if (count == 0) {
    return "";
  }
  std::string why;
  for (const auto& [reason, of_it] : reasons) {
    why += fmt::format("{}{} {}", why.empty() ? "" : ", ", of_it, printable(reason));
  }
  return fmt::format("{} of rank 3 or more {} unmeasured: {}, for example {}{}",
                     count == 1 ? std::string("1 tensor") : fmt::format("{} tensors", count),
                     count == 1 ? "stands" : "stand", why, excerpt(first->name),
                     helps_reshape ? "; --reshape out measures them as out x rest" : "");
}

std::string undecodable_text(const MatrixRecord& matrix) {
  if (!matrix.unsupported.empty() || decode::is_decodable(matrix.encoding)) {
    return matrix.unsupported;
  }
  return fmt::format("encoding {} cannot be decoded", matrix.encoding.label);
}

}  // namespace vindex::model
