// Owns the kinds of changes, each to one field of the parts of a file.
#include "gguf_mutator.hpp"

#include "gguf_parts.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace vindex::fuzz {

namespace {

/// Names that the readers look at.
constexpr std::string_view kNames[] = {"general.architecture",
                                       "general.alignment",
                                       "general.type",
                                       "split.no",
                                       "split.count",
                                       "split.tensors.count",
                                       "deepseek2.block_count",
                                       "deepseek2.expert_count",
                                       "deepseek2.expert_used_count",
                                       "deepseek2.leading_dense_block_count",
                                       "deepseek2.attention.head_count",
                                       "blk.0.ffn_up_exps.weight",
                                       "blk.0.ffn_gate_exps.weight",
                                       "blk.0.ffn_down_exps.weight",
                                       "blk.0.ffn_down_exps.scale",
                                       "blk.0.attn_k_b.weight",
                                       "token_embd.weight",
                                       "blk.4294967296.attn_q.weight"};
constexpr std::string_view kTexts[] = {"deepseek2", "llama", "bitnet", "imatrix", "adapter", ""};
constexpr std::uint64_t kEdges[] = {0,
                                    1,
                                    2,
                                    3,
                                    31,
                                    32,
                                    33,
                                    64,
                                    255,
                                    256,
                                    257,
                                    65'535,
                                    65'537,
                                    1'000'001,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0xFFFFFFFF,
                                    0x100000000,
                                    0x3FFFFFFFFFFFFFFF,
                                    0x7FFFFFFFFFFFFFFF,
                                    0x8000000000000000,
                                    0xFFFFFFFFFFFFFFE0,
                                    0xFFFFFFFFFFFFFFFF};

class Mutator {
 public:
  Mutator(GgufParts parts, std::mt19937_64& random) : parts_(std::move(parts)), random_(random) {}

  GgufParts run() {
    for (std::uint64_t i = 0, count = 1 + below(4); i < count; ++i) {
      change();
    }
    return std::move(parts_);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  template <typename Table>
  auto any(const Table& table) {
    return table[below(std::size(table))];
  }
  /// A number near `value`, at an edge, or any.
  std::uint64_t number(std::uint64_t value) {
    switch (below(4)) {
      case 0:
        return any(kEdges);
      case 1:
        return value + below(3) - 1;
      case 2:
        return value ^ (std::uint64_t{1} << below(64));
      default:
        return value * (1 + below(3));
    }
  }
  std::string name() {
    std::string text(any(kNames));
    if (below(8) == 0) {
      text.insert(below(text.size() + 1), 1, static_cast<char>(random_()));
    }
    return text;
  }
  GgufParts::Key key() {
    GgufParts::Key key;
    key.name = name();
    key.type = static_cast<std::uint32_t>(below(14));
    constexpr std::size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8, 4};
    if (key.type == 8) {
      key.value = parts_.text(std::string(any(kTexts)));
    } else if (key.type == 9) {
      const auto element = static_cast<std::uint32_t>(below(13));
      const std::uint64_t count = below(5);
      key.value = parts_.number(element, 4) +
                  parts_.number(below(4) == 0 ? number(count) : count, parts_.length_bytes());
      for (std::uint64_t i = 0; i < count; ++i) {
        key.value += element == 8 ? parts_.text("x") : parts_.number(i, kWidths[element]);
      }
    } else {
      key.value = parts_.number(key.type == 7 ? below(2) : number(8), kWidths[key.type]);
    }
    return key;
  }
  GgufParts::Tensor tensor() {
    GgufParts::Tensor tensor;
    tensor.name = name();
    tensor.type = static_cast<std::uint32_t>(below(44));
    tensor.dimensions = {256 * (1 + below(3)), 1 + below(3)};
    if (below(2) == 0) {
      tensor.dimensions.push_back(1 + below(3));
    }
    tensor.offset = parts_.data.size() / 32 * 32;
    parts_.data.append(static_cast<std::size_t>(below(4096)), static_cast<char>(random_()));
    return tensor;
  }

  void change() {
    switch (below(6)) {
      case 0:
        return change_prefix();
      case 1:
      case 2:
        return change_keys();
      case 3:
        return change_data();
      default:
        return change_tensors();
    }
  }

  void change_prefix() {
    switch (below(8)) {
      case 0:
        parts_.tensor_count = number(parts_.tensors.size());
        return;
      case 1:
        parts_.key_count = number(parts_.keys.size());
        return;
      case 2:
        parts_.length = number(parts_.keys.empty() ? 0 : parts_.keys.front().name.size());
        return;
      case 3:
        parts_.rank = static_cast<std::uint32_t>(number(2));
        return;
      case 4:
        parts_.alignment = std::uint64_t{1} << below(13);
        parts_.keys.push_back({"general.alignment", 4, parts_.number(parts_.alignment, 4)});
        return;
      default:
        // Another container: values keep the order and width that they were written in.
        parts_.version = static_cast<std::uint32_t>(1 + below(3));
        parts_.big_endian = below(2) == 0;
    }
  }

  void change_keys() {
    const std::uint64_t action = parts_.keys.empty() ? 0 : below(6);
    const std::uint64_t at = parts_.keys.empty() ? 0 : below(parts_.keys.size());
    switch (action) {
      case 0:
        parts_.keys.push_back(key());
        return;
      case 1:
        parts_.keys.erase(parts_.keys.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      case 2:
        parts_.keys.push_back(parts_.keys[at]);
        return;
      case 3:
        parts_.keys[at].type = static_cast<std::uint32_t>(number(parts_.keys[at].type));
        return;
      case 4:
        parts_.keys[at].name = name();
        return;
      default:
        change_bytes(parts_.keys[at].value);
    }
  }

  void change_tensors() {
    const std::uint64_t action = parts_.tensors.empty() ? 0 : below(8);
    const std::uint64_t at = parts_.tensors.empty() ? 0 : below(parts_.tensors.size());
    switch (action) {
      case 0:
        parts_.tensors.push_back(tensor());
        return;
      case 1:
        parts_.tensors.erase(parts_.tensors.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      case 2:
        parts_.tensors.push_back(parts_.tensors[at]);
        return;
      case 3:
        parts_.tensors[at].type =
            static_cast<std::uint32_t>(below(2) == 0 ? below(44) : number(39));
        return;
      case 4:
        parts_.tensors[at].offset = number(parts_.tensors[at].offset);
        return;
      case 5:
        parts_.tensors[at].name = name();
        return;
      case 6:
        std::swap(parts_.tensors[at], parts_.tensors.front());
        return;
      default:
        if (parts_.tensors[at].dimensions.empty()) {
          parts_.tensors[at].dimensions.push_back(number(256));
        } else {
          std::uint64_t& dimension =
              parts_.tensors[at].dimensions[below(parts_.tensors[at].dimensions.size())];
          dimension = number(dimension);
        }
    }
  }

  void change_data() {
    if (below(2) == 0) {
      parts_.data.resize(std::min<std::uint64_t>(number(parts_.data.size()), 1U << 16U), '\0');
    } else {
      change_bytes(parts_.data);
    }
  }

  void change_bytes(std::string& bytes) {
    if (!bytes.empty()) {
      char& byte = bytes[below(bytes.size())];
      byte =
          below(2) == 0 ? static_cast<char>(random_()) : static_cast<char>(byte ^ (1 << below(8)));
    }
  }

  GgufParts parts_;
  std::mt19937_64& random_;
};

}  // namespace

std::string mutated_gguf(const std::string& bytes, std::mt19937_64& random, std::size_t most) {
  std::string out = Mutator(take_apart(bytes), random).run().bytes();
  if (random() % 16 == 0) {
    out.resize(static_cast<std::size_t>(random() % (out.size() + 1)));
  }
  if (out.size() > most) {
    out.resize(most);
  }
  return out;
}

}  // namespace vindex::fuzz
