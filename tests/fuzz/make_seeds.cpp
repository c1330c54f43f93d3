// Writes the seed corpora: make_seeds FOLDER fills
// FOLDER/{gguf,imatrix,safetensors,npy,json,decode}. Run by hand after a format is added; the
// result is kept in the tree.
#include "decode/encoding_table.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/importance_builder.hpp"
#include "tests/support/npy_builder.hpp"
#include "tests/support/safetensors_builder.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {
using namespace vindex::testing;

std::string root;

void write(const std::string& target, const std::string& name, const std::string& content) {
  const std::filesystem::path folder = std::filesystem::path(root) / target;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << content;
}

/// A mixture of experts in small: one tensor of each type that GGUF files store, a stack of NVFP4
/// with its factors, keys of the kinds that the readers look at.
std::string mixture(std::uint32_t version, bool big_endian) {
  GgufBuilder builder(version, big_endian);
  builder.key_string("general.architecture", "deepseek2").key_u32("deepseek2.block_count", 2);
  builder.key_u32("deepseek2.expert_count", 2).key_u32("deepseek2.expert_used_count", 1);
  builder.key_u32("deepseek2.leading_dense_block_count", 1);
  builder.key_array("deepseek2.attention.head_count_kv", 4, 2,
                    builder.number(1) + builder.number(1));
  builder.key_array("tokenizer.ggml.tokens", 8, 2, builder.text("a") + builder.text("b"));
  const auto add = [&](const std::string& name, const std::vector<std::uint64_t>& dimensions,
                       std::uint32_t type, std::size_t bytes) {
    builder.tensor(name, dimensions, type, builder.data.size());
    builder.data.append((bytes + 31) / 32 * 32, static_cast<char>(bytes));
  };
  add("blk.1.ffn_up_exps.weight", {64, 3, 2}, 40, 36 * 6);
  add("blk.1.ffn_up_exps.scale", {2}, 0, 8);
  int number = 0;
  for (const vindex::decode::ElementTypeRow& row : vindex::decode::element_type_rows()) {
    if (row.ggml_id >= 0) {
      add("blk." + std::to_string(number++ % 2) + "." + std::string(row.name) + ".weight",
          {static_cast<std::uint64_t>(row.block_elements)}, static_cast<std::uint32_t>(row.ggml_id),
          static_cast<std::size_t>(row.block_bytes));
    }
  }
  return builder.bytes();
}

/// Tensors of `sides` (columns, rows) in float32, side by side.
void add_floats(GgufBuilder& file,
                const std::vector<std::pair<std::string, std::vector<std::uint64_t>>>& tensors) {
  for (const auto& [name, sides] : tensors) {
    std::uint64_t count = 1;
    for (const std::uint64_t side : sides) {
      count *= side;
    }
    file.tensor(name, sides, 0, file.data.size());
    file.data.append(count * sizeof(float), '\x3c');
    file.data.resize((file.data.size() + 31) / 32 * 32, '\0');
  }
}

/// What --heads and --lora make products of.
void write_products() {
  GgufBuilder heads;
  heads.key_string("general.architecture", "llama")
      .key_u32("llama.attention.head_count", 4)
      .key_u32("llama.attention.head_count_kv", 2);
  add_floats(heads, {{"blk.0.attn_q.weight", {4, 8}},
                     {"blk.0.attn_k.weight", {4, 4}},
                     {"blk.0.attn_v.weight", {4, 4}},
                     {"blk.0.attn_output.weight", {8, 4}},
                     {"blk.1.attn_qkv.weight", {4, 16}},
                     {"blk.1.attn_output.weight", {8, 4}}});
  write("gguf", "heads", heads.bytes());
  GgufBuilder adapter;
  adapter.key_string("general.architecture", "llama")
      .key_string("general.type", "adapter")
      .key_string("adapter.type", "lora")
      .key("adapter.lora.alpha", 6, std::string("\0\0\0\x41", 4));
  add_floats(adapter, {{"blk.0.attn_q.weight.lora_a", {4, 2}},
                       {"blk.0.attn_q.weight.lora_b", {2, 8}},
                       {"blk.0.ffn_up_exps.weight.lora_a", {4, 1, 3}},
                       {"blk.0.ffn_up_exps.weight.lora_b", {1, 8, 3}},
                       {"token_embd.weight.lora_a", {2, 9}},
                       {"token_embd.weight.lora_b", {2, 4}}});
  write("gguf", "adapter", adapter.bytes());
}

void write_gguf() {
  write("gguf", "small", small_gguf().bytes());
  GgufBuilder values;
  for (const std::uint32_t type : {0U, 1U, 7U}) {
    values.key("one" + std::to_string(type), type, std::string(1, '\1'));
  }
  values.key("two", 3, std::string(2, '\2')).key("four", 6, std::string(4, '\3'));
  values.key("eight", 12, std::string(8, '\4')).key_u32("general.alignment", 64);
  values.alignment = 64;
  values.key_array("integers", 4, 2, std::string(8, '\5'));
  values.key_array("strings", 8, 2, gguf_string("a") + gguf_string(""));
  write("gguf", "values", values.bytes());
  GgufBuilder split;
  split.key_u16("split.no", 0).key_u16("split.count", 2).key_i32("split.tensors.count", 9);
  write("gguf", "split", split.bytes());
  GgufBuilder odd;
  odd.key_string("general.architecture", "bitnet");
  odd.tensor("late", {32, 1, 1, 1}, 8, 64).tensor("early", {256}, 12, 96).tensor("none", {0}, 0, 0);
  odd.data = std::string(300, '\x7f');
  write("gguf", "odd", odd.bytes());
  GgufBuilder named;
  named.tensor(std::string(64, 'n'), {8}, 0, 0);
  named.data = std::string(32, 'd');
  write("gguf", "long-name", named.bytes());
  for (const bool big_endian : {false, true}) {
    write("gguf", big_endian ? "version1-big" : "version1", small_gguf(1, big_endian).bytes());
  }
  write("gguf", "big", small_gguf(3, true).bytes());
  write("gguf", "mixture", mixture(3, false));
  write("gguf", "mixture-big", mixture(2, true));
}

/// Of the model of fuzz_imatrix.cpp.
void write_imatrix() {
  const std::vector<float> all = {1, 2, 3, 4, 5, 6};
  write("imatrix", "dat",
        importance_dat(
            {{"blk.0.attn_q.weight", 2, {3, 4, 5, 6}}, {"blk.0.ffn_down_exps.weight", 3, all}}));
  write("imatrix", "old",
        little_endian(std::uint32_t{1}) + dat_entry({"blk.0.attn_q.weight", 1, {1, 0, 2, 3}}));
  for (const bool big_endian : {false, true}) {
    write("imatrix", big_endian ? "gguf-big" : "gguf",
          importance_gguf({{"blk.0.attn_q.weight", {40, 0, 3, 4}, {10}},
                           {"blk.0.ffn_down_exps.weight", all, {7, 0}}},
                          "imatrix", big_endian));
  }
  write("imatrix", "model", importance_gguf({{"blk.0.attn_q.weight", {1, 2, 3, 4}, {1}}}, "model"));
}

void write_safetensors() {
  write("safetensors", "small", small_safetensors());
  write("safetensors", "empty", safetensors_file("{}", 0));
  write("safetensors", "metadata",
        safetensors_file(R"({"__metadata__":{"format":"pt","\u00e9":""},"s":{"shape":[],)"
                         R"("dtype":"F8_E8M0","data_offsets":[0,1]},"z":{"dtype":"F4",)"
                         R"("shape":[0,3],"data_offsets":[1,1]}}   )",
                         1));
}

void write_npy() {
  write("npy", "floats", npy_array<float>({1, 2, 3, 4}, {2, 2}));
  write("npy", "integers", npy_array<std::int64_t>({1, 2, 3}, {3}));
  write("npy", "scalar", npy_array<double>({1}, {}));
  write("npy", "long", npy_file(npy_dict("<f2", "(0, 9223372036854775807)"), "", 3));
  write("npy", "columns", npy_file(npy_dict("<f4", "(2, 2)", "True"), std::string(16, 'd'), 2));
}

void write_json() {
  write("json", "values",
        R"({"a":[1,-2.5e+3,true,false,null,"\u00e9\ud83d\ude00\n"],"b":{"c":{}}})");
  write("json", "index", R"({"metadata":{"total_size":8},"weight_map":{"x":"a.safetensors"}})");
  write("json", "numbers", "[0,18446744073709551615,-9223372036854775808,1e-06,0.5E10]");
  write("json", "nested", "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]");
}

void write_decode() {
  std::mt19937 random(1);
  const std::size_t formats = vindex::decode::format_rows().size();
  for (std::size_t format = 0; format < formats; ++format) {
    std::string bytes{static_cast<char>(format), '\3', '\1', '\1', '\1'};
    while (bytes.size() < 600) {
      bytes.push_back(static_cast<char>(random()));
    }
    write("decode", "format" + std::to_string(format), bytes);
  }
}
}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    return 64;
  }
  root = arguments[1];
  write_gguf();
  write_products();
  write_imatrix();
  write_safetensors();
  write_npy();
  write_json();
  write_decode();
  return 0;
}
