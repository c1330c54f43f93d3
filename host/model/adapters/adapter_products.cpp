// Owns LoRA pairs as products. An adapter adds scale * B A to a weight W (out x in):
//
//   PEFT   <path>.lora_A.weight [r, in], <path>.lora_B.weight [out, r], also .lora_A.<name>.weight;
//          embeddings <path>.lora_embedding_A [r, entries], _B [width, r]: the embedding's rows are
//          entries, so scale * A^T B^T. fan_in_fan_out turns the base weight, not the pair.
//          Of a parameter (target_parameters) the pairs of all experts: adapter_config.hpp
//   MLX    <path>.lora_a [in, r], <path>.lora_b [r, out], so scale * B^T A^T; embeddings [entries,
//          r] and [r, width], scale * A B; stacks of experts [experts, r, in], [experts, out, r]
//   GGUF   <weight>.lora_a, <weight>.lora_b in the same order outermost first; token_embd's lora_a
//          is stored turned, [entries, r], and again A B^T is added. Stacks of experts have a
//          leading side
// Sources: as in adapter_config.cpp; llama.cpp convert_lora_to_gguf.py.
#include "adapter_config.hpp"
#include "adapter_names.hpp"

#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include "model/products/find_products.hpp"
#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>

namespace vindex::model {

namespace {

/// The parameter that a pair is of, where a configuration says so.
struct Wrapped {
  std::string parameter;  ///< empty: the module
  bool certain = true;
  std::string unknown;
};

struct Pair {
  FactorName name;
  Wrapped wrapped;
  std::int64_t experts = 1;  ///< side by side in the factors
  const LogicalTensor* a = nullptr;
  const LogicalTensor* b = nullptr;
};

/// How the factors of a pair lie and where they go.
struct Arrangement {
  bool rank_ends_a = false;    ///< A is x by r, not r by x
  bool rank_begins_b = false;  ///< B is r by y, not y by r
  bool a_first = false;        ///< the rows of the product are A's other side

  std::int64_t rank_of_a(const std::vector<std::int64_t>& a) const {
    return rank_ends_a ? a.back() : a[a.size() - 2];
  }
  std::int64_t rank_of_b(const std::vector<std::int64_t>& b) const {
    return rank_begins_b ? b[b.size() - 2] : b.back();
  }
};

class Pairs {
 public:
  Pairs(const input::ModelFiles& files, const Naming& naming, std::vector<Warning>& warnings)
      : files_(files), naming_(naming), warnings_(warnings) {}

  std::vector<MatrixRecord> build(const std::vector<LogicalTensor>& logicals) {
    bool magnitudes = gather(logicals);
    config_.emplace(files_, mlx_, warnings_);
    magnitudes = magnitudes || config_->is_dora();
    if (pairs_.empty()) {
      throw UsageError("E-LORA",
                       fmt::format("--lora: {} holds no LoRA factors", printable(files_.path)));
    }
    if (magnitudes) {
      warnings_.push_back({"W-LORA-DORA",
                           "this adapter is a DoRA: its magnitude vectors rescale rows of the sum "
                           "with the base weight and are not part of the products"});
    }
    find_parameters();
    refuse_too_many();
    for (const auto& [key, pair] : pairs_) {
      add(pair);
    }
    return std::move(records_);
  }

 private:
  /// Whether there are magnitudes of a DoRA.
  bool gather(const std::vector<LogicalTensor>& logicals) {
    bool magnitudes = false;
    for (std::size_t i = 0; i < logicals.size(); ++i) {
      const LogicalTensor& logical = logicals[i];
      magnitudes = magnitudes || logical.name.find(".lora_magnitude_vector") != std::string::npos;
      auto name = factor_name(logical.name, files_.format);
      if (!name) {
        continue;
      }
      Pair& pair = pairs_[{name->base, name->adapter, name->depth}];
      const LogicalTensor* other = pair.a != nullptr ? pair.a : pair.b;
      const LogicalTensor*& place = name->side == AdapterSide::kA ? pair.a : pair.b;
      if (place != nullptr || (other != nullptr && (pair.name.mlx != name->mlx ||
                                                    pair.name.embedding != name->embedding))) {
        throw FormatError("E-LORA-DOUBLE", printable(files_.path),
                          fmt::format("{} and {} are factors of one pair and cannot both be",
                                      printable(other->name), printable(logical.name)));
      }
      mlx_ = mlx_ || name->mlx;
      pair.name = std::move(*name);
      place = &logical;
      record_of_[&logical] = static_cast<std::int32_t>(i);
    }
    return magnitudes;
  }

  /// Which parameter each pair is of, and how many experts it has.
  void find_parameters() {
    for (auto first = pairs_.begin(); first != pairs_.end();) {
      auto end = first;
      std::size_t wrappers = 0;
      while (end != pairs_.end() && std::get<0>(end->first) == std::get<0>(first->first) &&
             std::get<1>(end->first) == std::get<1>(first->first)) {
        ++wrappers;
        ++end;
      }
      const ParameterTargets::Wrapped found =
          config_->parameters().of(first->second.name.module, wrappers);
      std::size_t depth = 0;
      for (; first != end; ++first, ++depth) {
        Pair& pair = first->second;
        Wrapped& wrapped = pair.wrapped;
        wrapped = {"", found.certain, found.unknown};
        if (found.unknown.empty() && static_cast<std::size_t>(pair.name.depth) != depth) {
          wrapped.unknown = "a wrapper of PEFT is missing around this pair";
        }
        if (depth < found.parameters.size()) {
          wrapped.parameter = found.parameters[depth];
        }
        settle_parameter(pair);
      }
    }
  }

  /// Names the parameter of `pair` and counts its experts.
  void settle_parameter(Pair& pair) {
    Wrapped& wrapped = pair.wrapped;
    const bool matrices = pair.a != nullptr && pair.b != nullptr && pair.a->shape.size() == 2 &&
                          pair.b->shape.size() == 2;
    if (!wrapped.certain && matrices && config_->rank(pair.name.module) == pair.a->shape[0]) {
      wrapped = {};  // as a module of the rank that it has
    }
    if (wrapped.parameter.empty() || !wrapped.unknown.empty()) {
      return;
    }
    const std::string path = pair.name.module + "." + wrapped.parameter;
    pair.name.base = path;
    pair.name.module = path;  // what patterns are held against
    if (!matrices) {
      return;
    }
    const auto rank = config_->rank(path);
    const std::int64_t all = pair.a->shape[0];
    if (!rank || *rank < 1 || !config_->unknown_rank().empty()) {
      wrapped.unknown = "target_parameters: experts share this pair, and their rank is unknown";
    } else if (all % *rank != 0 || pair.b->shape[1] != all || all / *rank > kMaxSlices) {
      wrapped.unknown = fmt::format(
          "target_parameters: A is {}, B is {}, which is not a pair of rank {} an expert",
          shape_text(pair.a->shape), shape_text(pair.b->shape), *rank);
    } else {
      pair.experts = all / *rank;
    }
  }

  void refuse_too_many() const {
    std::size_t count = 0;
    for (const auto& [key, pair] : pairs_) {
      count += !error_of(pair).empty()     ? 1
               : pair.a->shape.size() == 3 ? static_cast<std::size_t>(pair.a->shape[0])
                                           : static_cast<std::size_t>(pair.experts);
      check_product_count(files_.path, count);
    }
  }

  void add(const Pair& pair) {
    const std::string why = error_of(pair);
    if (!why.empty()) {
      MatrixRecord record = product_record({});
      record.unsupported = why;
      record.is_malformed = !factor_trouble(pair).empty() && config_->no_products().empty();
      const LogicalTensor& known = pair.a != nullptr ? *pair.a : *pair.b;
      record.tensor_record = record_of_.at(&known);
      record.encoding.label = known.encoding.label;
      return push(pair, std::move(record), -1);
    }
    if (pair.experts > 1) {
      return add_experts(pair);
    }
    const Arrangement arrangement = arrangement_of(pair);
    const bool stack = pair.a->shape.size() == 3;
    const std::int64_t slices = stack ? pair.a->shape[0] : 1;
    const std::int64_t r = arrangement.rank_of_a(pair.a->shape);
    if (const auto claimed = config_->rank(pair.name.module);
        claimed && *claimed != r && !rank_warned_) {
      rank_warned_ = true;
      warnings_.push_back(
          {"W-LORA-RANK", fmt::format("adapter_config.json gives {} the rank {}, its factors have "
                                      "{}; they are believed",
                                      printable(pair.name.module), *claimed, r)});
    }
    const double scale = config_->scale(pair.name.module, r);
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      ProductFactor a = factor(*pair.a, slice, slices);
      ProductFactor b = factor(*pair.b, slice, slices);
      Product product;
      product.scale = scale;
      if (arrangement.a_first) {
        a.transposed = !arrangement.rank_ends_a;
        b.transposed = !arrangement.rank_begins_b;
        product.factors = {std::move(a), std::move(b)};
      } else {
        a.transposed = arrangement.rank_ends_a;
        b.transposed = arrangement.rank_begins_b;
        product.factors = {std::move(b), std::move(a)};
      }
      push(pair, product_record(std::move(product)), stack ? static_cast<std::int32_t>(slice) : -1);
    }
  }

  /// A row for every expert of a parameter; the factors are common to all.
  void add_experts(const Pair& pair) {
    const ProductFactor a = factor(*pair.a, 0, 1);
    const ProductFactor b = factor(*pair.b, 0, 1);
    const std::int64_t r = pair.a->shape[0] / pair.experts;
    for (std::int64_t expert = 0; expert < pair.experts; ++expert) {
      Product product;
      product.scale = config_->scale(pair.name.module, r);
      product.factors = {b, a};
      product.factors[0].first_col = expert;
      product.factors[0].cols = r;
      product.factors[0].col_step = pair.experts;
      product.factors[1].first_row = expert * r;
      product.factors[1].rows = r;
      push(pair, product_record(std::move(product)), static_cast<std::int32_t>(expert));
    }
  }

  Arrangement arrangement_of(const Pair& pair) const {
    const std::vector<std::int64_t>& a = pair.a->shape;
    const std::vector<std::int64_t>& b = pair.b->shape;
    if (pair.name.embedding) {
      return {.a_first = true};
    }
    if (pair.name.mlx && a.size() == 2) {
      return {.rank_ends_a = true, .rank_begins_b = true, .a_first = is_embedding(pair)};
    }
    // GGUF keeps the A of token embeddings as entries x r.
    const bool entries =
        pair.name.base == "token_embd.weight" && a.size() == 2 && b.size() == 2 && a[1] == b[1];
    return {.rank_ends_a = entries, .a_first = entries};
  }

  bool is_embedding(const Pair& pair) const {
    TensorName name;
    read_tensor_name(pair.name.base, naming_.dialect, name);
    const Meaning* known =
        naming_.table == nullptr || name.tower ? nullptr : naming_.table->find(name);
    return known == nullptr ? name.last == "embed_tokens" : known->block == Block::kEmbedding;
  }

  std::string error_of(const Pair& pair) const {
    std::string why = factor_trouble(pair);
    if (why.empty()) {
      why = pair.wrapped.unknown;
    }
    return why.empty() ? config_->no_products() : why;
  }

  /// Why the factors are no pair, whatever the configuration says.
  std::string factor_trouble(const Pair& pair) const {
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
    const Arrangement arrangement = arrangement_of(pair);
    if (a.size() != b.size() || (stacks && (a[0] != b[0] || a[0] > kMaxSlices)) ||
        arrangement.rank_of_a(a) != arrangement.rank_of_b(b)) {
      return fmt::format("LoRA factors do not fit: A is {}, B is {}", shape_text(a), shape_text(b));
    }
    return {};
  }

  /// All of one slice of `logical`.
  ProductFactor factor(const LogicalTensor& logical, std::int64_t slice, std::int64_t slices) {
    const input::StoredTensor& stored = files_.tensors[static_cast<std::size_t>(logical.codes)];
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
    if (!pair.name.adapter.empty()) {
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

  const input::ModelFiles& files_;
  const Naming& naming_;
  std::vector<Warning>& warnings_;
  std::optional<AdapterConfig> config_;
  std::map<std::tuple<std::string, std::string, int>, Pair> pairs_;  ///< base, adapter, depth
  std::map<const LogicalTensor*, std::int32_t> record_of_;
  std::vector<MatrixRecord> records_;
  TensorName name_;
  bool mlx_ = false;
  bool rank_warned_ = false;
};

}  // namespace

std::vector<MatrixRecord> adapter_products(const input::ModelFiles& files,
                                           const std::vector<LogicalTensor>& logicals,
                                           const Naming& naming, std::vector<Warning>& warnings) {
  return Pairs(files, naming, warnings).build(logicals);
}

std::int64_t count_adapter_factors(const std::vector<LogicalTensor>& logicals,
                                   input::ContainerFormat format) {
  std::int64_t count = 0;
  for (const LogicalTensor& logical : logicals) {
    // Cheap for the 200,000 names that are none.
    const bool maybe = logical.name.find(".lora_") != std::string::npos;
    count += maybe && factor_name(logical.name, format) ? 1 : 0;
  }
  return count;
}

}  // namespace vindex::model
