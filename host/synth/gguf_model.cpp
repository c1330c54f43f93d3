// Owns synthetic models as GGUF files: names, shapes and keys as llama.cpp's converter writes them.
// Source: conversion of DeepSeek-V3 in
// gguf-py/gguf/tensor_mapping.py and constants.py; kv_b_proj split into attn_k_b (transposed) and
// attn_v_b, one slice per head.
#include "model_plan.hpp"

#include "core/process/parallel.hpp"
#include "decode/encode/encode.hpp"
#include "gguf/writing/writer.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::synth {
namespace {

using decode::ElementType;
using gguf::KeySection;
using gguf::TensorLayout;
using gguf::Writer;

// No matrix of the miniature takes more while it is written.
constexpr std::uint64_t kMaxBytes = std::uint64_t{4} << 20U;

// A piece of a planned matrix and the slice of a GGUF tensor that it becomes.
struct Piece {
  std::size_t tensor = 0;  // in the file
  std::int64_t slice = 0;
  std::int64_t first_row = 0;  // of the planned matrix
  std::int64_t rows = 0;
  bool transposed = false;
};

using Names = std::pair<std::string_view, std::string_view>;
constexpr std::array<Names, 3> kGlobalNames = {{{"model.embed_tokens.weight", "token_embd.weight"},
                                                {"model.norm.weight", "output_norm.weight"},
                                                {"lm_head.weight", "output.weight"}}};
// After "model.layers.N." and after "blk.N.".
constexpr std::array<Names, 16> kBlockNames = {{
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_a_proj.weight", "attn_q_a.weight"},
    {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
    {"self_attn.q_b_proj.weight", "attn_q_b.weight"},
    {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
    {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
}};
constexpr std::array<Names, 3> kExpertNames = {{{"gate_proj.weight", "ffn_gate_exps.weight"},
                                                {"up_proj.weight", "ffn_up_exps.weight"},
                                                {"down_proj.weight", "ffn_down_exps.weight"}}};

template <std::size_t N>
std::string_view renamed(const std::array<Names, N>& names, std::string_view name) {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const Names& pair) { return pair.first == name; });
  expects(found != names.end(), "write_gguf_model: names of the miniature");
  return found->second;
}

// Takes "PREFIX" and the number after it off `text`, with the dot behind; -1 where it begins
// otherwise.
std::int64_t take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return -1;
  }
  std::int64_t number = -1;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + prefix.size(), end, number);
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()) + 1);
  return number;
}

// The file's tensors and, for each planned one, its pieces.
class Layout {
 public:
  explicit Layout(const ModelPlan& plan) : plan_(plan), pieces_(plan.tensors.size()) {
    for (std::size_t index = 0; index < plan.tensors.size(); ++index) {
      place(index);
    }
  }
  const std::vector<gguf::TensorLayout>& tensors() const { return tensors_; }
  const std::vector<Piece>& pieces(std::size_t planned) const { return pieces_[planned]; }

 private:
  void place(std::size_t index) {
    const Recipe& recipe = plan_.tensors[index].recipe;
    std::string_view rest = plan_.tensors[index].name;
    const std::int64_t layer = take_number(rest, "model.layers.");
    if (layer < 0) {
      add(index, std::string(renamed(kGlobalNames, rest)), -1, {0, 0, 0, recipe.rows, false});
      return;
    }
    const std::string block = "blk." + std::to_string(layer) + ".";
    const std::int64_t expert = take_number(rest, "mlp.experts.");
    if (expert >= 0) {
      add(index, block + std::string(renamed(kExpertNames, rest)), size_.experts,
          {0, expert, 0, recipe.rows, false});
    } else if (rest == "self_attn.kv_b_proj.weight") {
      const std::int64_t head_rows = size_.nope + size_.value;
      for (std::int64_t head = 0; head < size_.heads; ++head) {
        add(index, block + "attn_k_b.weight", size_.heads,
            {0, head, head * head_rows, size_.nope, true});
        add(index, block + "attn_v_b.weight", size_.heads,
            {0, head, head * head_rows + size_.nope, size_.value, false});
      }
    } else {
      add(index, block + std::string(renamed(kBlockNames, rest)), -1,
          {0, 0, 0, recipe.rows, false});
    }
  }

  // `slices` -1: not stacked.
  void add(std::size_t index, const std::string& name, std::int64_t slices, Piece piece) {
    const PlannedTensor& planned = plan_.tensors[index];
    const auto [known, is_new] = index_of_.try_emplace(name, tensors_.size());
    if (is_new) {
      const bool router = name.find("ffn_gate_inp") != std::string::npos;
      gguf::TensorLayout tensor;
      tensor.name = name;
      tensor.type = planned.is_vector || router ? ElementType::kF32 : ElementType::kQ8_0;
      const auto cols = static_cast<std::uint64_t>(planned.recipe.cols);
      const auto rows = static_cast<std::uint64_t>(piece.rows);
      tensor.dimensions = {piece.transposed ? rows : cols};
      if (!planned.is_vector) {
        tensor.dimensions.push_back(piece.transposed ? cols : rows);
      }
      if (slices >= 0) {
        tensor.dimensions.push_back(static_cast<std::uint64_t>(slices));
      }
      tensors_.push_back(std::move(tensor));
    }
    piece.tensor = known->second;
    pieces_[index].push_back(piece);
  }

  const ModelPlan& plan_;
  const MiniSizes size_;
  std::vector<gguf::TensorLayout> tensors_;
  std::map<std::string, std::size_t> index_of_;
  std::vector<std::vector<Piece>> pieces_;
};

// UTF-8 of a code point below 0x800.
std::string utf8(unsigned code_point) {
  if (code_point < 0x80) {
    return {static_cast<char>(code_point)};
  }
  return {static_cast<char>(0xC0U | (code_point >> 6U)),
          static_cast<char>(0x80U | (code_point & 0x3FU))};
}

// A byte-level vocabulary: GPT-2's printable stand-ins for the 256 bytes, then reserved tokens.
void add_tokenizer(gguf::KeySection& keys, std::int64_t vocabulary) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    tokens.push_back(utf8(printable ? byte : next++));
    types.push_back(1);
  }
  while (static_cast<std::int64_t>(tokens.size()) < vocabulary) {
    tokens.push_back("<|reserved_" + std::to_string(tokens.size() - 256) + "|>");
    types.push_back(3);
  }
  keys.add_string("tokenizer.ggml.model", "gpt2");
  keys.add_string("tokenizer.ggml.pre", "gpt-2");
  keys.add_strings("tokenizer.ggml.tokens", tokens);
  keys.add_array<std::int32_t>("tokenizer.ggml.token_type", types);
  keys.add_strings("tokenizer.ggml.merges", std::vector<std::string>{"e \xC4\xA0"});
  keys.add<std::uint32_t>("tokenizer.ggml.bos_token_id", 256);
  keys.add<std::uint32_t>("tokenizer.ggml.eos_token_id", 257);
  keys.add<bool>("tokenizer.ggml.add_bos_token", false);
}

gguf::KeySection model_keys(const MiniSizes& size) {
  gguf::KeySection keys;
  const auto u32 = [&](const std::string& name, std::int64_t value) {
    keys.add<std::uint32_t>("deepseek2." + name, static_cast<std::uint32_t>(value));
  };
  keys.add_string("general.architecture", "deepseek2");
  keys.add_string("general.type", "model");
  keys.add_string("general.name", "Kimi K2 Mini");
  u32("block_count", size.layers);
  u32("context_length", 4096);
  u32("embedding_length", size.hidden);
  u32("feed_forward_length", size.dense_width);
  u32("attention.head_count", size.heads);
  u32("attention.head_count_kv", 1);
  keys.add<float>("deepseek2.rope.freq_base", 50000.0F);
  keys.add<float>("deepseek2.attention.layer_norm_rms_epsilon", 1e-6F);
  u32("expert_used_count", size.active);
  u32("leading_dense_block_count", size.dense_layers);
  u32("vocab_size", size.vocabulary);
  u32("attention.q_lora_rank", size.query_rank);
  u32("attention.kv_lora_rank", size.key_value_rank);
  u32("attention.key_length", size.key_value_rank + size.rope);
  u32("attention.value_length", size.key_value_rank);
  u32("attention.key_length_mla", size.nope + size.rope);
  u32("attention.value_length_mla", size.value);
  u32("expert_feed_forward_length", size.expert_width);
  u32("expert_count", size.experts);
  u32("expert_shared_count", size.shared);
  keys.add<float>("deepseek2.expert_weights_scale", 2.827F);
  keys.add<bool>("deepseek2.expert_weights_norm", true);
  u32("expert_gating_func", 2);  // sigmoid
  u32("rope.dimension_count", size.rope);
  keys.add<std::uint32_t>("general.quantization_version", 2);
  keys.add<std::uint32_t>("general.file_type", 7);  // mostly Q8_0
  add_tokenizer(keys, size.vocabulary);
  return keys;
}

// The piece's weights, row-major in the orientation of the file.
std::vector<float> cut(const std::vector<float>& weights, std::int64_t cols, const Piece& piece) {
  const auto begin = weights.begin() + piece.first_row * cols;
  std::vector<float> out(begin, begin + piece.rows * cols);
  if (piece.transposed) {
    for (std::int64_t row = 0; row < piece.rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        out[static_cast<std::size_t>(col * piece.rows + row)] = begin[row * cols + col];
      }
    }
  }
  return out;
}

}  // namespace

void write_gguf_model(const ModelPlan& plan, write::OutputFolder& folder) {
  const Layout layout(plan);
  gguf::Writer writer(folder.create("kimi-k2-mini-Q8_0.gguf"), model_keys(MiniSizes()),
                      layout.tensors());
  std::vector<std::vector<TruthRow>> truth(plan.tensors.size());
  const std::size_t threads = thread_count(kMaxBytes);
  for_each_index(plan.tensors.size(), threads, [&](std::size_t /*worker*/, std::size_t index) {
    const PlannedTensor& planned = plan.tensors[index];
    std::vector<float> weights(static_cast<std::size_t>(planned.recipe.rows * planned.recipe.cols));
    draw_weights(planned.recipe, weights);
    const auto& pieces = layout.pieces(index);
    for (const Piece& piece : pieces) {
      const gguf::TensorLayout& tensor = layout.tensors()[piece.tensor];
      const auto encoding = decode::plain_encoding(tensor.type);
      const auto values = cut(weights, planned.recipe.cols, piece);
      const std::int64_t cols = piece.transposed ? piece.rows : planned.recipe.cols;
      const std::int64_t rows = piece.transposed ? planned.recipe.cols : piece.rows;
      const auto size = decode::encoded_size(encoding, rows, cols);
      expects(size.has_value(), "write_gguf_model: rows of whole blocks");
      std::vector<std::byte> codes(size->code_bytes);
      const auto loss = decode::encode_matrix(encoding, values.data(), rows, cols, cols, codes, {});
      writer.write(piece.tensor, static_cast<std::uint64_t>(piece.slice) * codes.size(), codes);
      if (!planned.is_vector) {
        truth[index].push_back({tensor.name, tensor.dimensions.size() == 3 ? piece.slice : -1,
                                encoding.label, planned.recipe, loss,
                                pieces.size() > 1 ? planned.name : std::string(), rows, cols});
      }
    }
  });
  writer.finish();
  std::vector<TruthRow> rows;
  for (const auto& of_one : truth) {
    rows.insert(rows.end(), of_one.begin(), of_one.end());
  }
  folder.write_text("truth.json", truth_text(plan.spec, plan.seed, rows));
  folder.publish();
}

}  // namespace vindex::synth
