// Owns the heads of attention as products. A score is x^T W_Q^T W_K y, so a head's QK matrix is
// W_Q,h^T W_K,g (hidden x hidden); what it writes is W_O[:, h] W_V,g y.
//
//   q k v o      W_Q,h = rows of q; W_K,g, W_V,g = rows of k and v, g = h div (heads / kv heads)
//   fused qkv    [q; k; v], or per key-value head [its q heads; k; v] (gpt_neox)
//   latent, MLA  W_Q,h = q_b,h q_a (or rows of q), its first `nope` rows; W_K,h and W_V,h = rows of
//                kv_b (or the stacks k_b, transposed, and v_b) times the first rows of kv_a
//
// Weights alone: no norm gain, no bias, no rotation. The rotated part of latent attention is left
// out, a rotated head is taken at relative position 0. llama.cpp's order of rotated rows permutes
// q and k alike and changes nothing.
#include "find_products.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace vindex::model {

namespace {

constexpr std::uint64_t kMaxHeads = 65'536;

/// The matrices of one attention.
struct AttentionWeights {
  std::int32_t layer = -1;
  std::map<std::string, std::vector<const MatrixRecord*>> by_role;  ///< stacks: one per slice

  const MatrixRecord* one(const std::string& role) const {
    const auto found = by_role.find(role);
    return found != by_role.end() && found->second.size() == 1 && found->second[0]->slice < 0
               ? found->second[0]
               : nullptr;
  }
  const std::vector<const MatrixRecord*>* stack(const std::string& role) const {
    const auto found = by_role.find(role);
    return found != by_role.end() && found->second[0]->slice >= 0 ? &found->second : nullptr;
  }
};

class Heads {
 public:
  Heads(const std::string& path, Claims& claims, ModelIndex& index)
      : path_(path), claims_(claims), index_(index) {
    gather();
    if (const auto claim = claims.number({"num_attention_heads", "n_head", "n_heads", "num_heads"},
                                         {"attention.head_count"})) {
      counts_.heads = claimed(*claim);
    }
    if (const auto claim = claims.number({"num_key_value_heads", "num_kv_heads", "kv_n_heads"},
                                         {"attention.head_count_kv"})) {
      counts_.kv_heads = {claimed(*claim)};
      // gemma4: layers that see everything have a number of their own.
      if (const auto global = claims.number({"num_global_key_value_heads"}, {})) {
        counts_.kv_heads.push_back(claimed(*global));
      }
    }
    counts_.gated = is_gated();
  }

  std::vector<MatrixRecord> build() {
    // Too many are refused before the first of them takes memory.
    for (const bool counting : {true, false}) {
      counting_ = counting;
      for (const auto& [prefix, attention] : attentions_) {
        add(prefix, attention);
      }
    }
    if (!trouble_.empty()) {
      index_.warnings.push_back(
          {"W-HEADS", fmt::format("{} parts of attention have no rows of heads; the first: {}",
                                  skipped_, trouble_)});
    }
    if (records_.empty()) {
      throw UsageError("E-HEADS",
                       fmt::format("--heads: {} has no attention with separable heads{}",
                                   printable(path_), trouble_.empty() ? "" : ": " + trouble_));
    }
    return std::move(records_);
  }

 private:
  static std::int64_t claimed(const Claim& claim) {
    return claim.value <= kMaxHeads ? static_cast<std::int64_t>(claim.value) : 0;
  }

  void gather() {
    for (const MatrixRecord& matrix : index_.matrices) {
      std::string prefix = matrix.tensor;
      if (prefix.ends_with(".weight")) {
        prefix.resize(prefix.size() - 7);
      }
      const std::size_t dot = prefix.rfind('.');
      const std::string last = prefix.substr(dot == std::string::npos ? 0 : dot + 1);
      prefix.resize(dot == std::string::npos ? 0 : dot);
      // Kimi's delta attention, in both dialects.
      if (last == "f_a_proj" || last == "ssm_f_a") {
        linear_.insert(prefix);
      }
      if (matrix.block == Block::kAttention && matrix.layer >= 0) {
        AttentionWeights& attention = attentions_[prefix];
        attention.layer = matrix.layer;
        attention.by_role[matrix.role].push_back(&matrix);
      }
    }
  }

  void skip(const std::string& prefix, std::string_view why) {
    if (counting_) {
      return;
    }
    ++skipped_;
    if (trouble_.empty()) {
      trouble_ = fmt::format("{}: {}", printable(prefix), why);
    }
  }

  void add(const std::string& prefix, const AttentionWeights& attention) {
    if (is_linear(prefix, attention)) {
      return skip(prefix, "linear attention has no such heads");
    }
    if (attention.one("kv_a_proj") != nullptr) {
      return add_latent(prefix, attention);
    }
    if (attention.one("qkv_proj") != nullptr) {
      return add_fused(prefix, attention);
    }
    if (attention.one("q_proj") != nullptr && attention.one("k_proj") != nullptr) {
      return add_separate(prefix, attention);
    }
    // An indexer within an attention is none.
    if (!attentions_.contains(prefix.substr(0, prefix.rfind('.')))) {
      skip(prefix, "no layout of attention that is known");
    }
  }

  /// Without a softmax scores are no quadratic form of one query and one key.
  bool is_linear(const std::string& prefix, const AttentionWeights& attention) const {
    const auto has = [&](const char* role) { return attention.by_role.contains(role); };
    // MiniMax's lightning attention and Ling's have a gate beside a fused matrix.
    return linear_.contains(prefix) || (has("qkv_proj") && (has("output_gate") || has("g_proj")));
  }

  static MatrixSides sides(const MatrixRecord& matrix) { return {matrix.rows, matrix.cols}; }
  static std::optional<MatrixSides> sides(const MatrixRecord* matrix) {
    return matrix == nullptr ? std::nullopt : std::optional(sides(*matrix));
  }

  void add_separate(const std::string& prefix, const AttentionWeights& attention) {
    const MatrixRecord& q = *attention.one("q_proj");
    const MatrixRecord& k = *attention.one("k_proj");
    const MatrixRecord* v = attention.one("v_proj");
    const HeadCut cut =
        cut_separate(counts_, sides(q), sides(k), sides(v), sides(attention.one("o_proj")));
    if (!cut.error.empty()) {
      return skip(prefix, cut.error);
    }
    add_qk(prefix, attention, cut, q, k);
    if (v == nullptr && !is_of({"gemma4"})) {
      return skip(prefix, "no v_proj, so no ov_head: another layer's values may serve");
    }
    // gemma4 stores no v where keys, before their norm, serve as values.
    add_ov(prefix, attention, cut, v == nullptr ? k : *v);
  }

  void add_fused(const std::string& prefix, const AttentionWeights& attention) {
    const MatrixRecord& qkv = *attention.one("qkv_proj");
    const MatrixRecord* o = attention.one("o_proj");
    if (o == nullptr) {
      return skip(prefix, "no o_proj beside the fused matrix, as in linear attention");
    }
    const std::optional<bool> grouped = is_grouped(qkv.tensor);
    if (!grouped) {
      return skip(prefix,
                  "the order of q, k and v in query_key_value is not known for this "
                  "architecture");
    }
    const HeadCut cut = cut_fused(counts_, sides(qkv), sides(*o), *grouped);
    if (!cut.error.empty()) {
      return skip(prefix, cut.error);
    }
    add_qk(prefix, attention, cut, qkv, qkv);
    add_ov(prefix, attention, cut, qkv);
  }

  /// Latent attention. Every number but the heads follows from the shapes.
  void add_latent(const std::string& prefix, const AttentionWeights& attention) {
    const MatrixRecord& kv_a = *attention.one("kv_a_proj");
    const MatrixRecord* kv_b = attention.one("kv_b_proj");
    const auto* k_b = attention.stack("k_b_proj");
    const auto* v_b = attention.stack("v_b_proj");
    const MatrixRecord* q_a = attention.one("q_a_proj");
    const MatrixRecord* q = attention.one(q_a == nullptr ? "q_proj" : "q_b_proj");
    if (q == nullptr || (kv_b == nullptr && (k_b == nullptr || v_b == nullptr))) {
      return skip(prefix, "latent attention without q_b_proj or kv_b_proj");
    }
    const std::int64_t heads =
        kv_b == nullptr ? static_cast<std::int64_t>(k_b->size()) : counts_.heads;
    if (heads <= 0) {
      return skip(prefix, "the configuration gives no number of heads");
    }
    const std::int64_t latent = kv_b == nullptr ? k_b->front()->rows : kv_b->cols;
    const std::int64_t rotated = kv_a.rows - latent;
    const std::int64_t query = q->rows / heads;
    const std::int64_t nope = query - rotated;
    const std::int64_t key_value = kv_b == nullptr ? 0 : kv_b->rows / heads;
    const std::int64_t depth = kv_b == nullptr ? v_b->front()->rows : key_value - nope;
    const bool fits =
        latent > 0 && rotated >= 0 && q->rows % heads == 0 && nope > 0 && depth > 0 &&
        (q_a == nullptr ? q->cols == kv_a.cols : q->cols == q_a->rows && q_a->cols == kv_a.cols) &&
        (kv_b != nullptr ? kv_b->rows % heads == 0
                         : v_b->size() == k_b->size() && same_shape(*k_b, latent, nope) &&
                               same_shape(*v_b, depth, latent));
    if (!fits) {
      return skip(prefix, fmt::format("{} heads do not fit the shapes of latent attention", heads));
    }
    const MatrixRecord* o = attention.one("o_proj");
    if (o != nullptr && o->cols != heads * depth) {
      return skip(prefix, "o_proj does not fit the values of its heads");
    }
    const ProductFactor down = shared_by(window(kv_a, 0, latent), heads);
    for (std::int64_t head = 0; head < heads; ++head) {
      // (q_b,h q_a)^T (k_b,h kv_a)
      std::vector<ProductFactor> qk;
      if (q_a != nullptr) {
        qk.push_back(shared_by(transposed(window(*q_a, 0, q_a->rows)), heads));
      }
      qk.push_back(transposed(window(*q, head * query, nope)));
      if (kv_b != nullptr) {
        qk.push_back(window(*kv_b, head * key_value, nope));
      } else {
        qk.push_back(transposed(window(*(*k_b)[static_cast<std::size_t>(head)], 0, latent)));
      }
      qk.push_back(down);
      push(prefix, attention, kQkHead, head, std::move(qk));
    }
    if (o == nullptr) {
      return skip(prefix, "no o_proj, so no ov_head");
    }
    for (std::int64_t head = 0; head < heads; ++head) {
      const ProductFactor up = kv_b != nullptr
                                   ? window(*kv_b, head * key_value + nope, depth)
                                   : window(*(*v_b)[static_cast<std::size_t>(head)], 0, depth);
      push(prefix, attention, kOvHead, head, {columns(*o, head * depth, depth), up, down});
    }
  }

  static bool same_shape(const std::vector<const MatrixRecord*>& stack, std::int64_t rows,
                         std::int64_t cols) {
    return std::all_of(stack.begin(), stack.end(), [&](const MatrixRecord* matrix) {
      return matrix->rows == rows && matrix->cols == cols;
    });
  }

  void add_qk(const std::string& prefix, const AttentionWeights& attention, const HeadCut& cut,
              const MatrixRecord& q, const MatrixRecord& k) {
    for (std::int64_t head = 0; head < cut.heads; ++head) {
      push(prefix, attention, kQkHead, head,
           {transposed(window(q, cut.query.at(head), cut.query.count)),
            of_group(cut, k, cut.key, head)});
    }
  }

  void add_ov(const std::string& prefix, const AttentionWeights& attention, const HeadCut& cut,
              const MatrixRecord& v) {
    const MatrixRecord* o = attention.one("o_proj");
    if (o == nullptr) {
      return skip(prefix, "no o_proj, so no ov_head");
    }
    const std::int64_t depth = cut.value.count;
    for (std::int64_t head = 0; head < cut.heads; ++head) {
      push(prefix, attention, kOvHead, head,
           {columns(*o, head * depth, depth), of_group(cut, v, cut.value, head)});
    }
  }

  std::shared_ptr<const MatrixRecord> shared(const MatrixRecord& matrix) {
    std::shared_ptr<const MatrixRecord>& copy = copies_[&matrix];
    if (copy == nullptr) {
      copy = std::make_shared<const MatrixRecord>(matrix);
    }
    return copy;
  }
  ProductFactor window(const MatrixRecord& matrix, std::int64_t first, std::int64_t count) {
    return {shared(matrix), first, count, 0, matrix.cols, false};
  }
  ProductFactor columns(const MatrixRecord& matrix, std::int64_t first, std::int64_t count) {
    return {shared(matrix), 0, matrix.rows, first, count, false};
  }
  static ProductFactor shared_by(ProductFactor factor, std::int64_t heads) {
    factor.shared_by = heads;
    return factor;
  }
  /// The key or value window of the group that `head` is of.
  ProductFactor of_group(const HeadCut& cut, const MatrixRecord& matrix, const HeadRows& rows,
                         std::int64_t head) {
    return shared_by(window(matrix, rows.at(head / cut.group()), rows.count), cut.group());
  }
  static ProductFactor transposed(ProductFactor factor) {
    factor.transposed = true;
    return factor;
  }

  void push(const std::string& prefix, const AttentionWeights& attention, std::string_view role,
            std::int64_t head, std::vector<ProductFactor> factors) {
    if (counting_) {
      return check_product_count(path_, ++count_);
    }
    MatrixRecord record = product_record({.factors = std::move(factors)});
    // GGUF names have no word for the attention of a layer.
    const bool flat = prefix.starts_with("blk.");
    record.tensor = fmt::format("{}.{}{}", prefix, flat ? "attn_" : "", role.substr(0, 2));
    record.slice = static_cast<std::int32_t>(head);
    record.layer = attention.layer;
    record.block = Block::kAttention;
    record.role = role;
    records_.push_back(std::move(record));
  }

  /// Whether the model's name, or that of the language model in it, begins with one of `names`.
  bool is_of(std::initializer_list<std::string_view> names) const {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return claims_.architecture().starts_with(name) ||
             claims_.inner_architecture().starts_with(name);
    });
  }
  bool is_gated() const {
    return is_of({"qwen3_next", "qwen3next", "qwen3_5", "qwen35"}) ||
           claims_.flag("attn_output_gate");
  }

  /// Whether a fused matrix keeps q, k and v of one key-value head together; nothing where the name
  /// is used for both and the architecture does not decide.
  std::optional<bool> is_grouped(const std::string& tensor) const {
    if (tensor.find("query_key_value") == std::string::npos) {
      return false;
    }
    const std::string& name = claims_.architecture();
    if (name == "gpt_neox") {
      return true;
    }
    return name.starts_with("bailing") ? std::optional(false) : std::nullopt;
  }

  const std::string& path_;
  Claims& claims_;
  ModelIndex& index_;
  HeadClaims counts_;
  std::set<std::string> linear_;  ///< prefixes whose attention is linear
  bool counting_ = false;
  std::size_t count_ = 0;
  std::map<std::string, AttentionWeights> attentions_;
  std::map<const MatrixRecord*, std::shared_ptr<const MatrixRecord>> copies_;
  std::vector<MatrixRecord> records_;
  std::string trouble_;
  std::int64_t skipped_ = 0;
};

}  // namespace

std::vector<MatrixRecord> head_products(const std::string& path, Claims& claims,
                                        ModelIndex& index) {
  return Heads(path, claims, index).build();
}

}  // namespace vindex::model
