// Owns the sink that notes and goes on: rules of prefix, keys and entries, each by itself.
#include "lint_file.hpp"

#include "core/integers.hpp"
#include "gguf/header.hpp"
#include "gguf/limits.hpp"
#include "gguf/refused_types.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

namespace vindex::organ {
namespace {

using gguf::Text;
using gguf::ValueType;

constexpr std::uint64_t kKeptText = 1024;

std::string at_byte(std::uint64_t position) { return fmt::format("byte {}", position); }
std::string of_key(const gguf::WalkedKey& key) {
  return fmt::format("key \"{}\"", excerpt(key.name));
}

/// The file cannot be followed any further.
struct Broken {
  std::uint64_t position;
  std::string what;
};

class LintSink final : public gguf::Sink {
 public:
  LintSink(LintFile& file, gguf::BufferedReader& reader, Findings& findings)
      : file_(file), reader_(reader), findings_(findings) {}

  void no_magic(std::uint64_t bytes) override {
    if (bytes < 4) {
      throw Broken{0, fmt::format("the magic of 4 bytes, and {} are left", bytes)};
    }
    findings_.error("V-MAGIC", at_byte(0), "does not begin with the bytes GGUF",
                    "it is another format, or damaged");
  }

  bool version(std::uint32_t version, bool big_endian) override {
    file_.version = version;
    file_.big_endian = big_endian;
    if (big_endian) {
      findings_.error("V-BYTE-ORDER", at_byte(4),
                      "is big-endian: llama.cpp loads it on no usual "
                      "machine",
                      "`vindex organ extract` and `assemble` write it little-endian");
    }
    if (version == 0 || version > 3) {
      findings_.error("V-VERSION", at_byte(4), fmt::format("version {} is unknown", version));
      return false;
    }
    if (version == 1) {
      findings_.error("V-VERSION", at_byte(4), "version 1 is refused by ggml",
                      "`vindex organ extract` and `assemble` write version 3");
    } else if (version == 2) {
      findings_.note("V-VERSION", at_byte(4), "version 2: read everywhere, 3 is written today");
    }
    return true;
  }

  bool counts(std::uint64_t tensors, std::uint64_t keys, std::uint64_t key_count_position) override;

  void length(Text text, std::uint64_t bytes) override {
    if (text == Text::kString && bytes > gguf::kLongestStringOfGgml) {
      findings_.error("V-KEY-LIMIT", key_, "a string of more than 1 GiB: ggml refuses it");
    }
    if (bytes > reader_.left()) {
      throw Broken{reader_.position(),
                   fmt::format("{} of {} bytes, and {} are left", gguf::field_of(text).in_findings,
                               bytes, reader_.left())};
    }
  }

  PassedOver passed_over() const override { return {~std::uint64_t{0}, ~std::uint64_t{0}}; }

  void key_name(const gguf::WalkedKey& key) override {
    key_ = of_key(key);
    if (key.name.empty()) {
      findings_.error("V-KEY-EMPTY", at_byte(key.position), "a key has an empty name");
    } else if (key.name_bytes > gguf::kLongestKeyOfGgml) {
      findings_.error("V-KEY-NAME", at_byte(key.position),
                      "a key's name has more than 65535 bytes");
    } else if (!std::all_of(key.name.begin(), key.name.end(),
                            [](char c) { return c > ' ' && c < '\x7F'; })) {
      findings_.warning("V-KEY-NAME", key_, "names of keys are printable ASCII by the format");
    }
    if (!key_names_.insert(key.name).second) {
      findings_.error("V-KEY-TWICE", key_, "occurs twice: ggml refuses the file",
                      "write it again with one of them");
    }
  }

  void key_type(const gguf::WalkedKey& key) override {
    if (!gguf::is_known(key.type)) {
      throw Broken{key.value_offset - 4,
                   fmt::format("{}: value {} does not exist", key_, gguf::type_name(key.type))};
    }
  }

  void array(const gguf::WalkedKey& key) override {
    const auto break_off = [&](const std::string& what) { throw Broken{key.value_offset, what}; };
    if (key.element_type == ValueType::kArray) {
      findings_.error("V-KEY-NESTED", key_,
                      "an array of arrays: the format knows it, ggml refuses it",
                      "write the key flat, or leave it out");
      break_off("what follows an array of arrays is not read");
    }
    if (!gguf::is_known(key.element_type)) {
      break_off(
          fmt::format("{}: element {} does not exist", key_, gguf::type_name(key.element_type)));
    }
    if (key.count > gguf::kLongestArrayOfGgml) {
      findings_.error("V-KEY-LIMIT", key_, "an array of more than 2^30 elements");
    }
    if (key.element_type == ValueType::kString) {
      if (key.count > reader_.left() / reader_.layout().length_bytes) {
        break_off(fmt::format("an array of {} strings, and {} bytes are left", key.count,
                              reader_.left()));
      }
      return;
    }
    const std::uint64_t bytes = checked_multiply(key.count, gguf::number_bytes(key.element_type))
                                    .value_or(~std::uint64_t{0});
    if (bytes > reader_.left()) {
      throw Broken{reader_.position(),
                   fmt::format("an array of {} bytes, and {} are left", bytes, reader_.left())};
    }
  }

  void key(gguf::WalkedKey& walked) override {
    LintKey& key = file_.keys.emplace_back();
    static_cast<gguf::WalkedKey&>(key) = std::move(walked);
    if (key.type == ValueType::kString) {
      const std::size_t length_bytes = reader_.layout().length_bytes;
      reader_.seek(key.value_offset + length_bytes);
      key.text = reader_.view(std::min(kKeptText, key.value_bytes - length_bytes), {"a string"});
      reader_.seek(key.value_offset + key.value_bytes);
    }
    if (key.type == ValueType::kBool && key.bits > 1) {
      findings_.warning("V-KEY-BOOL", key_, fmt::format("a bool of value {}", key.bits));
    }
  }

  bool keys_end() override {
    const LintKey* key = file_.key("general.alignment");
    if (key == nullptr) {
      return true;
    }
    if (key->type != ValueType::kU32) {
      findings_.error("V-ALIGNMENT-TYPE", of_key(*key),
                      fmt::format("is {}: ggml takes u32 alone", gguf::type_name(key->type)),
                      "write it as u32, or leave it out and lay the tensors out at 32");
    }
    const auto value = file_.number("general.alignment");
    if (!value || !std::has_single_bit(*value) || *value > (std::uint64_t{1} << 31U)) {
      findings_.error("V-ALIGNMENT-VALUE", of_key(*key),
                      fmt::format("{} is not a power of two: ggml refuses the file",
                                  value ? std::to_string(*value) : "it"));
    } else {
      file_.alignment = *value;
    }
    return true;
  }

  void tensor_name(const gguf::WalkedTensor& tensor) override {
    if (tensor.name.empty()) {
      findings_.error("V-TENSOR-NAME-EMPTY", at_byte(tensor.position),
                      "a tensor has an empty name");
    }
    if (tensor.name_bytes > gguf::kLongestTensorNameOfGgml) {
      findings_.error("V-TENSOR-NAME-LENGTH", of_tensor(tensor),
                      fmt::format("a name of {} bytes: ggml holds 63", tensor.name_bytes),
                      "shorten the name");
    }
    if (!tensor_names_.insert(tensor.name).second) {
      findings_.error("V-TENSOR-TWICE", of_tensor(tensor), "occurs twice in this file");
    }
  }

  void tensor_rank(const gguf::WalkedTensor& tensor, std::uint32_t rank) override {
    constexpr std::uint32_t kMostFollowed = 64;
    if (rank > gguf::kMostDimensions) {
      findings_.error("V-TENSOR-DIMS", of_tensor(tensor),
                      fmt::format("{} dimensions: ggml holds 4", rank));
    }
    if (rank > kMostFollowed) {
      throw Broken{tensor.position, fmt::format("a tensor of {} dimensions", rank)};
    }
  }

  void tensor(gguf::WalkedTensor& walked) override {
    LintTensor& tensor = file_.tensors.emplace_back();
    static_cast<gguf::WalkedTensor&>(tensor) = std::move(walked);
    judge_type(tensor);
    judge_shape(tensor);
  }

  void tensors_end() override {
    file_.header_end = reader_.position();
    file_.data_offset =
        checked_round_up(file_.header_end, file_.alignment).value_or(file_.header_end);
    file_.complete = true;
  }

 private:
  void judge_type(LintTensor& tensor) {
    constexpr std::uint32_t kPastTypes = 43;
    tensor.type = decode::element_type_of_ggml(tensor.type_id);
    if (tensor.type) {
      return;
    }
    if (gguf::was_removed(tensor.type_id)) {
      findings_.error("V-TYPE-REMOVED", of_tensor(tensor),
                      fmt::format("type {} was removed from ggml", tensor.type_id),
                      "quantise again from the original");
    } else {
      findings_.error(
          "V-TYPE-UNKNOWN", of_tensor(tensor),
          tensor.type_id < kPastTypes
              ? fmt::format("type {} is never stored", tensor.type_id)
              : fmt::format("type {} is none of ggml's: a fork's, or damage", tensor.type_id));
    }
  }

  void judge_shape(LintTensor& tensor) {
    const auto weights = gguf::weight_count(tensor.dimensions);
    if (!weights) {
      findings_.error("V-TENSOR-SHAPE", of_tensor(tensor),
                      fmt::format("[{}] holds more than 2^63 weights, or a negative number of them",
                                  fmt::join(tensor.dimensions, ", ")));
      return;
    }
    if (*weights == 0) {
      findings_.note("V-TENSOR-EMPTY", of_tensor(tensor), "holds no weights");
    }
    if (!tensor.type) {
      return;
    }
    if (!gguf::fills_blocks(*tensor.type, tensor.dimensions)) {
      const decode::ElementTypeRow& row = decode::element_type_row(*tensor.type);
      findings_.error("V-TENSOR-BLOCK", of_tensor(tensor),
                      fmt::format("rows of {} do not fill blocks of {} ({})",
                                  tensor.dimensions.empty() ? 1 : tensor.dimensions.front(),
                                  row.block_elements, row.name));
      return;
    }
    tensor.bytes = decode::stored_bytes(*tensor.type, *weights);
  }

  LintFile& file_;
  gguf::BufferedReader& reader_;
  Findings& findings_;
  std::string key_;  ///< whose value is being read, as findings name it
  std::unordered_set<std::string> key_names_;
  std::unordered_set<std::string> tensor_names_;
};

bool LintSink::counts(std::uint64_t tensors, std::uint64_t keys,
                      std::uint64_t /*key_count_position*/) {
  if (tensors > gguf::kMostTensors || keys > gguf::kMostKeys) {
    findings_.error("V-COUNT", at_byte(8),
                    fmt::format("{} tensors and {} keys: more than any model has", tensors, keys));
    return false;
  }
  return true;
}

}  // namespace

const LintKey* LintFile::key(std::string_view name) const {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [name](const LintKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> LintFile::number(std::string_view name) const {
  const LintKey* found = key(name);
  return found != nullptr && gguf::is_integer(found->type) ? std::optional(found->bits)
                                                           : std::nullopt;
}

std::string of_tensor(const gguf::WalkedTensor& tensor) {
  return fmt::format("tensor \"{}\"", excerpt(tensor.name));
}

void read_lint_file(LintFile& file, Findings& findings) {
  const auto end = [&](std::uint64_t position, const std::string& what) {
    findings.error("V-TRUNCATED", at_byte(position), what,
                   "damaged or cut short: fetch it again; what follows is not judged");
  };
  try {
    gguf::BufferedReader reader(*file.source);
    LintSink sink(file, reader, findings);
    walk(reader, sink);
  } catch (const Broken& broken) {
    end(broken.position, broken.what);
  } catch (const gguf::Truncated& cut) {
    end(cut.position,
        fmt::format("{} of {} bytes, and {} are left", cut.field.in_findings, cut.bytes, cut.left));
  }
}

}  // namespace vindex::organ
