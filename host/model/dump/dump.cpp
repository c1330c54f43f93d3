// Owns parsing array names, checking shapes against each other, and tokens and prompts.
#include "dump.hpp"

#include "core/integers.hpp"
#include "core/text/text_parts.hpp"
#include "input/npy/array_files.hpp"
#include "model/index/records.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

namespace vindex::model {

namespace {

using decode::ElementType;
using input::StoredTensor;

constexpr std::string_view kTokenIds = "token_ids";
constexpr std::string_view kPrompt = "prompt";
constexpr std::int32_t kHighestLayer = 1'000'000;
constexpr std::size_t kNamesShown = 5;

/// Role and layer that a name stands for.
struct ArrayName {
  std::string_view role;
  std::int32_t layer = -1;
};

std::optional<ArrayName> parse_name(std::string_view name) {
  if (name == kLogitsRole) {
    return ArrayName{kLogitsRole};
  }
  for (const std::string_view role : {kHiddenRole, kMlpRole, kRouterLogitsRole}) {
    if (name.size() <= role.size() + 1 || !name.starts_with(role) || name[role.size()] != '.') {
      continue;
    }
    const std::string_view digits = name.substr(role.size() + 1);
    const auto layer = whole_number<std::int32_t>(digits);
    if (layer && digits[0] != '-' && *layer <= kHighestLayer) {
      return ArrayName{role, *layer};
    }
  }
  return std::nullopt;
}

class DumpReader {
 public:
  explicit DumpReader(Dump& dump) : dump_(dump) {}

  void read() {
    std::vector<std::string> others;
    const StoredTensor* token_ids = nullptr;
    const StoredTensor* prompt = nullptr;
    for (std::size_t i = 0; i < dump_.files.tensors.size(); ++i) {
      const StoredTensor& tensor = dump_.files.tensors[i];
      if (tensor.name == kTokenIds) {
        token_ids = &tensor;
      } else if (tensor.name == kPrompt) {
        prompt = &tensor;
      } else if (const auto name = parse_name(tensor.name)) {
        add_matrix(static_cast<std::int32_t>(i), *name);
      } else {
        others.push_back(printable(tensor.name.substr(0, 80)));
      }
    }
    finish_matrices(others);
    if (token_ids != nullptr) {
      dump_.token_ids = integers(*token_ids);
    }
    if (prompt != nullptr) {
      read_prompts(*prompt);
    }
    if (!others.empty()) {
      dump_.index.warnings.push_back(
          {"W-DUMP-OTHERS",
           fmt::format("{} arrays have names that no dump has and are not read: {}", others.size(),
                       listed(others))});
    }
  }

 private:
  std::string where(const StoredTensor& tensor) const {
    return fmt::format("{}, {}",
                       printable(dump_.files.shards[static_cast<std::size_t>(tensor.shard)].path),
                       printable(tensor.name.substr(0, 80)));
  }

  static std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
      text += (i == 0 ? "" : ", ") + names[i];
    }
    return names.size() > kNamesShown ? text + ", ..." : text;
  }

  static std::string shape_text(const StoredTensor& tensor) {
    return fmt::format("[{}]", fmt::join(tensor.shape, ", "));
  }

  /// Every array of a dump has one row for each token.
  void check_tokens(const StoredTensor& tensor) {
    if (tensor.shape[0] == 0) {
      throw FormatError("E-DUMP-SHAPE", where(tensor), "no tokens");
    }
    if (first_ == nullptr) {
      first_ = &tensor;
      dump_.tokens = tensor.shape[0];
    } else if (tensor.shape[0] != dump_.tokens) {
      throw FormatError("E-DUMP-SHAPE", where(tensor),
                        fmt::format("{} tokens, but {} has {}: the arrays are of different runs",
                                    tensor.shape[0], printable(first_->name), dump_.tokens));
    }
  }

  void add_matrix(std::int32_t number, const ArrayName& name) {
    const StoredTensor& tensor = dump_.files.tensors[static_cast<std::size_t>(number)];
    if (tensor.shape.size() != 2) {
      throw FormatError("E-DUMP-SHAPE", where(tensor),
                        fmt::format("shape {}: a matrix [tokens, width] is expected (prompts one "
                                    "after the other, padding left out)",
                                    shape_text(tensor)));
    }
    const ElementType type = tensor.type;
    if (type != ElementType::kF64 && type != ElementType::kF32 && type != ElementType::kF16 &&
        type != ElementType::kBF16) {
      throw FormatError("E-DUMP-TYPE", where(tensor),
                        fmt::format("elements of type {}: F16, BF16, F32 or F64 are expected",
                                    decode::element_type_row(type).name));
    }
    check_tokens(tensor);
    if (tensor.shape[1] == 0) {
      throw FormatError("E-DUMP-SHAPE", where(tensor), "no columns");
    }
    if (!seen_.emplace(std::pair(name.role, name.layer), number).second) {
      throw FormatError("E-TENSOR-TWICE", where(tensor),
                        fmt::format("{} of layer {} appears twice", name.role, name.layer));
    }
    MatrixRecord matrix;
    matrix.tensor = tensor.name;
    matrix.role = name.role;
    matrix.layer = name.layer;
    matrix.shard = dump_.files.shards[static_cast<std::size_t>(tensor.shard)].file_name;
    matrix.rows = tensor.shape[0];
    matrix.cols = tensor.shape[1];
    matrix.encoding = decode::plain_encoding(type);
    matrix.codes = {number, tensor.offset, tensor.bytes, matrix.rows, matrix.cols};
    dump_.index.matrices.push_back(std::move(matrix));
  }

  void finish_matrices(const std::vector<std::string>& others) {
    ModelIndex& index = dump_.index;
    if (index.matrices.empty()) {
      throw FormatError(
          "E-DUMP-EMPTY", printable(dump_.files.path),
          fmt::format("no array of a dump of activations (hidden.L, mlp.L, router_logits.L, "
                      "logits, L a layer){}",
                      others.empty() ? std::string() : "; what is here: " + listed(others)));
    }
    sort_matrices(index.matrices.begin(), index.matrices.end());
    for (std::size_t i = 0; i < index.matrices.size(); ++i) {
      MatrixRecord& matrix = index.matrices[i];
      matrix.tensor_record = static_cast<std::int32_t>(i);
      TensorRecord record;
      record.name = matrix.tensor;
      record.stored = {matrix.codes.tensor};
      record.role = matrix.role;
      record.layer = matrix.layer;
      record.shape = {matrix.rows, matrix.cols};
      record.encoding = matrix.encoding.label;
      record.count = matrix.rows * matrix.cols;  // its bytes were counted with checks
      record.in_matrix = true;
      index.tensors.push_back(std::move(record));
    }
    index.shape.architecture = "dump";
    index.shape.quantisation = "none";
    for (const std::string_view role : {kHiddenRole, kRouterLogitsRole}) {
      check_widths(role);
    }
  }

  /// The residual stream has one width, and so have the routers. Neurons may differ by layer.
  void check_widths(std::string_view role) const {
    const std::vector<std::int64_t> rows = matrices_of_role(dump_, role);
    for (const std::int64_t i : rows) {
      const MatrixRecord& matrix = dump_.index.matrices[static_cast<std::size_t>(i)];
      const MatrixRecord& first = dump_.index.matrices[static_cast<std::size_t>(rows.front())];
      if (matrix.cols != first.cols) {
        throw FormatError(
            "E-DUMP-SHAPE",
            where(dump_.files.tensors[static_cast<std::size_t>(matrix.codes.tensor)]),
            fmt::format("{} columns, but {} has {}: the arrays are of different models",
                        matrix.cols, printable(first.tensor), first.cols));
      }
    }
  }

  template <typename Stored>
  std::vector<std::int64_t> values(const StoredTensor& tensor) const {
    std::vector<Stored> stored(static_cast<std::size_t>(tensor.shape[0]));
    dump_.files.shards[static_cast<std::size_t>(tensor.shard)].source->read(
        tensor.offset, std::as_writable_bytes(std::span(stored)));
    std::vector<std::int64_t> out(stored.size());
    std::transform(stored.begin(), stored.end(), out.begin(), [&](Stored value) {
      if (std::in_range<std::int64_t>(value)) {
        return static_cast<std::int64_t>(value);
      }
      throw FormatError("E-DUMP-TYPE", where(tensor), fmt::format("{} exceeds 2^63-1", value));
    });
    return out;
  }

  std::vector<std::int64_t> integers(const StoredTensor& tensor) {
    if (tensor.shape.size() != 1) {
      throw FormatError(
          "E-DUMP-SHAPE", where(tensor),
          fmt::format("shape {}: one number for each token is expected", shape_text(tensor)));
    }
    check_tokens(tensor);
    switch (tensor.type) {
      case ElementType::kI8:
        return values<std::int8_t>(tensor);
      case ElementType::kI16:
        return values<std::int16_t>(tensor);
      case ElementType::kI32:
        return values<std::int32_t>(tensor);
      case ElementType::kI64:
        return values<std::int64_t>(tensor);
      case ElementType::kU8:
        return values<std::uint8_t>(tensor);
      case ElementType::kU16:
        return values<std::uint16_t>(tensor);
      case ElementType::kU32:
        return values<std::uint32_t>(tensor);
      case ElementType::kU64:
        return values<std::uint64_t>(tensor);
      default:
        throw FormatError("E-DUMP-TYPE", where(tensor),
                          fmt::format("elements of type {}: integers are expected",
                                      decode::element_type_row(tensor.type).name));
    }
  }

  void read_prompts(const StoredTensor& tensor) {
    const std::vector<std::int64_t> numbers = integers(tensor);
    std::unordered_set<std::int64_t> ended;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      if (i > 0 && numbers[i] == numbers[i - 1]) {
        ++dump_.prompts.back().count;
      } else if (!ended.insert(numbers[i]).second) {
        throw FormatError("E-DUMP-PROMPT", where(tensor),
                          fmt::format("prompt {} begins again at row {}: the rows of a prompt must "
                                      "lie together, and each prompt needs a number of its own",
                                      numbers[i], row));
      } else {
        dump_.prompts.push_back({numbers[i], row, 1});
      }
    }
  }

  Dump& dump_;
  const StoredTensor* first_ = nullptr;
  std::map<std::pair<std::string_view, std::int32_t>, std::int32_t> seen_;
};

}  // namespace

Dump open_dump(const std::string& path, const std::stop_token& stop) {
  Dump dump;
  dump.files = input::open_array_files(path, stop);
  DumpReader(dump).read();
  return dump;
}

std::vector<std::int64_t> matrices_of_role(const Dump& dump, std::string_view role) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < dump.index.matrices.size(); ++i) {
    if (dump.index.matrices[i].role == role) {
      found.push_back(static_cast<std::int64_t>(i));
    }
  }
  return found;
}

}  // namespace vindex::model
