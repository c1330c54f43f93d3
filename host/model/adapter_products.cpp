// LoRA pairs as products. What an adapter adds to a weight W (out x in) is scale * B A:
//
//   PEFT   <path>.lora_A.weight [r, in], <path>.lora_B.weight [out, r], also .lora_A.<name>.weight;
//          embeddings <path>.lora_embedding_A [r, entries], _B [width, r]: the embedding's rows are
//          entries, so scale * A^T B^T. fan_in_fan_out turns the base weight, not the pair
//   GGUF   <weight>.lora_a, <weight>.lora_b in the same order outermost first; token_embd's lora_a
//          is stored turned, [entries, r], and again A B^T is added. Stacks of experts have a
//          leading side
// Sources: as in adapter_config.cpp; llama.cpp convert_lora_to_gguf.py.
#include "adapter_config.hpp"
#include "products.hpp"
#include "weight.hpp"

#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string_view>

namespace vindex::model {

namespace {

enum class Side : std::uint8_t { kA, kB };

/// What a name says.
struct FactorName {
  std::string base;     ///< logical name of the weight that is adapted
  std::string module;   ///< its path in the base model, as patterns see it
  std::string adapter;  ///< name of the adapter, empty where the file names none
  Side side = Side::kA;
  bool embedding = false;
};

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kWeight = ".weight";

struct Marker {
  std::string_view text;
  Side side;
  bool embedding;
};
constexpr std::array<Marker, 4> kMarkers = {{{".lora_A", Side::kA, false},
                                             {".lora_B", Side::kB, false},
                                             {".lora_embedding_A", Side::kA, true},
                                             {".lora_embedding_B", Side::kB, true}}};

std::optional<FactorName> gguf_factor(const std::string& name) {
  const bool a = name.ends_with(".lora_a");
  if (!a && !name.ends_with(".lora_b")) {
    return std::nullopt;
  }
  FactorName out;
  out.base = name.substr(0, name.size() - 7);
  out.module = out.base;
  out.side = a ? Side::kA : Side::kB;
  return out;
}

std::optional<FactorName> peft_factor(const std::string& name) {
  for (const Marker& marker : kMarkers) {
    const std::size_t at = name.rfind(marker.text);
    if (at == std::string::npos) {
      continue;
    }
    std::string_view rest = std::string_view(name).substr(at + marker.text.size());
    if (rest.ends_with(kWeight)) {
      rest.remove_suffix(kWeight.size());
    }
    if (!rest.empty() && (rest.front() != '.' || rest.size() == 1)) {
      continue;  // another word that begins alike
    }
    if (rest == ".bias") {
      return std::nullopt;
    }
    FactorName out;
    out.module = name.substr(0, at);
    if (out.module.starts_with(kPrefix)) {
      out.module.erase(0, kPrefix.size());
    }
    out.adapter = rest.empty() ? std::string() : std::string(rest.substr(1));
    out.base = out.module + std::string(kWeight);
    out.side = marker.side;
    out.embedding = marker.embedding;
    return out;
  }
  return std::nullopt;
}

std::optional<FactorName> factor_name(const std::string& name) {
  auto found = gguf_factor(name);
  return found ? found : peft_factor(name);
}

struct Pair {
  FactorName name;
  const LogicalTensor* a = nullptr;
  const LogicalTensor* b = nullptr;
};

class Pairs {
 public:
  Pairs(const shard::ModelFiles& files, const Naming& naming, std::vector<Warning>& warnings)
      : files_(files), naming_(naming), warnings_(warnings), config_(files, warnings) {}

  std::vector<MatrixRecord> build(const std::vector<LogicalTensor>& logicals) {
    bool magnitudes = config_.is_dora();
    for (std::size_t i = 0; i < logicals.size(); ++i) {
      const LogicalTensor& logical = logicals[i];
      magnitudes = magnitudes || logical.name.find(".lora_magnitude_vector") != std::string::npos;
      if (auto name = factor_name(logical.name)) {
        Pair& pair = pairs_[{name->base, name->adapter}];
        const LogicalTensor*& place = name->side == Side::kA ? pair.a : pair.b;
        pair.name = std::move(*name);
        place = &logical;
        record_of_[&logical] = static_cast<std::int32_t>(i);
      }
    }
    if (pairs_.empty()) {
      throw UsageError("E-LORA",
                       fmt::format("--lora: {} holds no LoRA factors", printable(files_.path)));
    }
    if (magnitudes) {
      warnings_.push_back({"W-LORA-DORA",
                           "this adapter is a DoRA: its magnitude vectors rescale rows of the sum "
                           "with the base weight and are not part of the products"});
    }
    for (const auto& [key, pair] : pairs_) {
      add(pair);
    }
    return std::move(records_);
  }

 private:
  void add(const Pair& pair) {
    const std::string why = trouble(pair);
    if (!why.empty()) {
      MatrixRecord record = product_record({});
      record.unsupported = why;
      const LogicalTensor& known = pair.a != nullptr ? *pair.a : *pair.b;
      record.tensor_record = record_of_.at(&known);
      record.encoding.label = known.encoding.label;
      return push(pair, std::move(record), -1);
    }
    const std::vector<std::int64_t>& a = pair.a->shape;
    const std::size_t rank = a.size();
    const std::int64_t slices = rank == 3 ? a[0] : 1;
    const bool entries = is_turned(pair);
    const std::int64_t r = entries ? a[rank - 1] : a[rank - 2];
    if (const auto claimed = config_.rank(pair.name.module);
        claimed && *claimed != r && !rank_warned_) {
      rank_warned_ = true;
      warnings_.push_back(
          {"W-LORA-RANK", fmt::format("adapter_config.json gives {} the rank {}, its factors have "
                                      "{}; they are believed",
                                      printable(pair.name.module), *claimed, r)});
    }
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      ProductFactor left = factor(*pair.b, slice, slices);
      ProductFactor right = factor(*pair.a, slice, slices);
      if (pair.name.embedding || entries) {
        std::swap(left, right);
        left.turned = !entries;
        right.turned = true;
      }
      Product product;
      product.factors = {std::move(left), std::move(right)};
      product.scale = config_.scale(pair.name.module, r);
      push(pair, product_record(std::move(product)),
           rank == 3 ? static_cast<std::int32_t>(slice) : -1);
    }
  }

  /// GGUF keeps the A of token embeddings as entries x r.
  static bool is_turned(const Pair& pair) {
    const std::vector<std::int64_t>& a = pair.a->shape;
    const std::vector<std::int64_t>& b = pair.b->shape;
    return pair.name.base == "token_embd.weight" && a.size() == 2 && a[1] == b[1];
  }

  std::string trouble(const Pair& pair) const {
    for (const auto& [factor, name] : {std::pair{pair.a, "A"}, std::pair{pair.b, "B"}}) {
      if (factor == nullptr) {
        return fmt::format("LoRA factor {} is missing", name);
      }
      if (!factor->unsupported.empty() || factor->quantised || !factor->shape_known) {
        return fmt::format(
            "LoRA factor {} cannot be decoded: {}", name,
            factor->unsupported.empty() ? factor->encoding.label : factor->unsupported);
      }
      if (factor->shape.size() != 2 && factor->shape.size() != 3) {
        return fmt::format("LoRA factor {} has {} sides", name, factor->shape.size());
      }
      for (const std::int64_t side : factor->shape) {
        if (side == 0) {
          return fmt::format("LoRA factor {} is empty", name);
        }
      }
    }
    const std::vector<std::int64_t>& a = pair.a->shape;
    const std::vector<std::int64_t>& b = pair.b->shape;
    const bool stacks = a.size() == 3;
    if (a.size() != b.size() || (stacks && (a[0] != b[0] || a[0] > kMostSlices)) ||
        (a[a.size() - 2] != b.back() && !is_turned(pair))) {
      return fmt::format("LoRA factors do not fit: A is {}, B is {}", shape_text(a), shape_text(b));
    }
    const auto claimed = config_.rank(pair.name.module);
    if (config_.targets_parameters() && claimed && *claimed != b.back()) {
      return fmt::format("target_parameters: experts share this pair of rank {} of {}", b.back(),
                         *claimed);
    }
    return "";
  }

  /// All of one slice of `logical`.
  ProductFactor factor(const LogicalTensor& logical, std::int64_t slice, std::int64_t slices) {
    const shard::StoredTensor& stored = files_.tensors[static_cast<std::size_t>(logical.codes)];
    auto matrix = std::make_shared<MatrixRecord>();
    matrix->tensor = logical.name;
    matrix->slice = logical.shape.size() == 3 ? static_cast<std::int32_t>(slice) : -1;
    matrix->shard = files_.shards[static_cast<std::size_t>(stored.shard)].file_name;
    matrix->rows = logical.shape[logical.shape.size() - 2];
    matrix->cols = logical.shape.back();
    matrix->encoding = logical.encoding;
    matrix->tensor_record = record_of_.at(&logical);
    matrix->codes.tensor = logical.codes;
    matrix->codes.bytes = stored.bytes / static_cast<std::uint64_t>(slices);
    matrix->codes.offset = stored.offset + matrix->codes.bytes * static_cast<std::uint64_t>(slice);
    matrix->codes.rows = matrix->rows;
    matrix->codes.cols = matrix->cols;
    const auto wanted =
        decode::code_bytes(matrix->encoding, static_cast<std::uint64_t>(matrix->rows),
                           static_cast<std::uint64_t>(matrix->cols));
    if (!decode::is_decodable(matrix->encoding)) {
      matrix->unsupported = fmt::format("encoding not supported: {}", matrix->encoding.label);
    } else if (!wanted || *wanted != matrix->codes.bytes) {
      matrix->unsupported = "size contradicts the shape";
    }
    ProductFactor out;
    out.rows = matrix->rows;
    out.cols = matrix->cols;
    out.matrix = std::move(matrix);
    return out;
  }

  void push(const Pair& pair, MatrixRecord record, std::int32_t slice) {
    record.tensor = pair.name.base;
    if (!pair.name.adapter.empty() && pair.name.adapter != "default") {
      record.tensor += "@" + pair.name.adapter;
    }
    record.slice = slice;
    read_tensor_name(pair.name.base, naming_.dialect, name_);
    const Meaning* known =
        naming_.table == nullptr || name_.tower ? nullptr : naming_.table->find(name_);
    record.block = known == nullptr ? Block::kOther : known->block;
    record.role = std::string(known == nullptr || known->role.empty() ? name_.last : known->role);
    record.layer = name_.tower ? -1 : name_.layer;
    record.expert = slice >= 0 ? slice : name_.tower ? -1 : name_.expert;
    if (slice < 0 && known != nullptr && known->has_expert && name_.number_count > 0) {
      record.expert = name_.numbers[0];
    }
    records_.push_back(std::move(record));
  }

  static constexpr std::int64_t kMostSlices = 65'536;

  const shard::ModelFiles& files_;
  const Naming& naming_;
  std::vector<Warning>& warnings_;
  AdapterConfig config_;
  std::map<std::pair<std::string, std::string>, Pair> pairs_;
  std::map<const LogicalTensor*, std::int32_t> record_of_;
  std::vector<MatrixRecord> records_;
  TensorName name_;
  bool rank_warned_ = false;
};

}  // namespace

std::vector<MatrixRecord> adapter_products(const shard::ModelFiles& files,
                                           const std::vector<LogicalTensor>& logicals,
                                           const Naming& naming, std::vector<Warning>& warnings) {
  return Pairs(files, naming, warnings).build(logicals);
}

std::int64_t count_adapter_factors(const std::vector<LogicalTensor>& logicals) {
  std::int64_t count = 0;
  for (const LogicalTensor& logical : logicals) {
    // Cheap for the 200,000 names that are none.
    count += logical.name.find(".lora_") != std::string::npos && factor_name(logical.name) ? 1 : 0;
  }
  return count;
}

}  // namespace vindex::model
