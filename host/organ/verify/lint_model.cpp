// Owns the checks of keys and tensors as a model: what a loader of the architecture asks for.
#include "lint_model.hpp"

#include "model_rules.hpp"

#include "core/text/text_parts.hpp"
#include "organ/source/file_type.hpp"
#include "organ/source/organ_class.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace vindex::organ {
namespace {

std::string of_key_name(std::string_view key) { return fmt::format("key \"{}\"", excerpt(key)); }
std::string of_block(std::int64_t block) { return fmt::format("block {}", block); }

/// "blk.4.attn_q.weight" without its beginning.
std::string_view suffix_of(std::string_view name) {
  const std::size_t dot = name.find('.', 4);
  return name.starts_with("blk.") && dot != std::string_view::npos ? name.substr(dot + 1) : name;
}

using Suffixes = std::set<std::string_view>;

class ModelLint {
 public:
  ModelLint(const std::vector<LintFile>& files, Findings& findings)
      : files_(files), first_(files.front()), findings_(findings) {
    const LintKey* key = first_.key("general.architecture");
    architecture_ = key == nullptr ? std::string() : key->text;
    for (const LintFile& file : files) {
      for (const LintTensor& tensor : file.tensors) {
        const std::int32_t block = classify(tensor.name).block;
        if (tensor.name.starts_with("blk.") && block >= 0) {
          blocks_[block].insert(suffix_of(tensor.name));
        } else {
          global_.insert(tensor.name);
        }
      }
    }
  }

  void run() {
    if (first_.key("general.architecture") == nullptr) {
      findings_.error("V-ARCHITECTURE", of_key_name("general.architecture"),
                      "is absent: no loader knows what this is");
    }
    lint_key_types();
    lint_types();
    lint_blocks();
    lint_arrays();
    lint_vocabulary();
    if (const ArchitectureRule* rule = architecture_rule(architecture_)) {
      lint_tensors(*rule);
    }
    lint_neighbours();
  }

 private:
  std::optional<std::uint64_t> number(std::string_view name) const {
    return first_.number(fmt::format("{}.{}", architecture_, name));
  }
  void lint_key_types();
  void lint_types();
  void lint_blocks();
  void lint_arrays();
  void lint_vocabulary();
  void lint_tensors(const ArchitectureRule& rule);
  void require(std::string_view wanted, const Suffixes& there, const std::string& where);
  void lint_neighbours();

  const std::vector<LintFile>& files_;
  const LintFile& first_;
  Findings& findings_;
  std::string architecture_;
  std::map<std::int32_t, Suffixes> blocks_;
  Suffixes global_;
};

void ModelLint::lint_key_types() {
  for (const LintKey& key : first_.keys) {
    const std::string_view types = key_types(key.name, architecture_);
    const std::string type = gguf::type_name(key.type);
    const auto known = split(types, '|');
    if (!types.empty() && std::find(known.begin(), known.end(), type) == known.end()) {
      findings_.error(
          "V-KEY-TYPE", of_key_name(key.name),
          fmt::format("is {}, llama.cpp takes {} alone (\"key has wrong type\")", type, types),
          "write it with that type");
    }
  }
}

void ModelLint::lint_types() {
  TypeShares shares;
  bool quantised = false;
  for (const LintFile& file : files_) {
    for (const LintTensor& tensor : file.tensors) {
      if (tensor.type && tensor.bytes) {
        shares.add(*tensor.type, tensor.dimensions);
        quantised = quantised || decode::element_type_row(*tensor.type).block_elements > 1;
      }
    }
  }
  const auto file_type = first_.number("general.file_type");
  const auto majority = shares.file_type();
  if (file_type && majority && !shares.agrees(*file_type)) {
    const std::string_view said = file_type_name(*file_type);
    findings_.warning("V-FILE-TYPE", of_key_name("general.file_type"),
                      fmt::format("says {} ({}), most weights are {}", *file_type,
                                  said.empty() ? "unknown" : said, file_type_name(*majority)),
                      fmt::format("{} would be correct", *majority));
  }
  if (quantised && first_.key("general.quantization_version") == nullptr) {
    findings_.warning("V-QUANTIZATION-VERSION", of_key_name("general.quantization_version"),
                      "is absent, and there are quantised tensors", "add it: u32 2");
  }
}

void ModelLint::lint_blocks() {
  const auto count = number("block_count");
  if (!count) {
    if (!blocks_.empty()) {
      findings_.error("V-BLOCK-COUNT", of_key_name(architecture_ + ".block_count"),
                      "is absent, and there are blocks");
    }
    return;
  }
  for (const auto& [block, unused] : blocks_) {
    if (static_cast<std::uint64_t>(block) >= *count) {
      findings_.error(
          "V-BLOCK-BEYOND", of_block(block),
          fmt::format("has tensors, block_count is {}: \"wrong number of tensors\"", *count),
          "count it (next-token blocks count too), or remove its tensors");
    }
  }
  constexpr std::uint64_t kMaxBlocks = 100'000;
  for (std::uint64_t block = 0; !blocks_.empty() && block < std::min(*count, kMaxBlocks); ++block) {
    if (!blocks_.contains(static_cast<std::int32_t>(block))) {
      findings_.error("V-BLOCK-MISSING", of_block(static_cast<std::int64_t>(block)),
                      fmt::format("has no tensors, block_count is {}", *count),
                      "blocks are numbered from 0 without holes");
    }
  }
}

void ModelLint::lint_arrays() {
  const auto count = number("block_count");
  for (const LintKey& key : first_.keys) {
    if (!count || key.type != gguf::ValueType::kArray ||
        !key.name.starts_with(architecture_ + ".") ||
        !is_per_layer(std::string_view(key.name).substr(architecture_.size() + 1))) {
      continue;
    }
    if (key.count != *count) {
      findings_.error("V-LAYER-ARRAY", of_key_name(key.name),
                      fmt::format("\"wrong array length; expected {}, got {}\"", *count, key.count),
                      "blocks were removed or added without their entries: re-index it");
    }
  }
}

void ModelLint::lint_vocabulary() {
  const LintKey* tokens = first_.key("tokenizer.ggml.tokens");
  const auto width = number("embedding_length");
  for (const LintFile& file : files_) {
    for (const LintTensor& tensor : file.tensors) {
      if (tensor.name != "token_embd.weight" || tensor.dimensions.size() != 2) {
        continue;
      }
      if (tokens != nullptr && tensor.dimensions[1] != tokens->count) {
        findings_.error("V-VOCABULARY", "tensor \"token_embd.weight\"",
                        fmt::format("has {} rows, the vocabulary {} tokens", tensor.dimensions[1],
                                    tokens->count));
      }
      if (width && tensor.dimensions[0] != *width) {
        findings_.error(
            "V-WIDTH", "tensor \"token_embd.weight\"",
            fmt::format("has rows of {}, embedding_length is {}", tensor.dimensions[0], *width));
      }
    }
  }
}

void ModelLint::require(std::string_view wanted, const Suffixes& there, const std::string& where) {
  for (const std::string_view names : split(wanted, ' ')) {
    const auto any = split(names, '|');
    if (!wanted.empty() && std::none_of(any.begin(), any.end(), [&](std::string_view name) {
          return there.contains(name);
        })) {
      findings_.error("V-TENSOR-MISSING", where,
                      fmt::format("{} is missing, which {} has", names, architecture_),
                      "take it from the model that this one came from");
    }
  }
}

void ModelLint::lint_tensors(const ArchitectureRule& rule) {
  require(rule.global, global_, "the model");
  if (!global_.contains("output.weight")) {
    findings_.note("V-TIED", "tensor \"output.weight\"",
                   "is absent: token_embd.weight stands for it");
  }
  for (const auto& [block, there] : blocks_) {
    require(rule.block, there, of_block(block));
    const bool routed = there.contains("ffn_gate_inp.weight");
    require(routed ? rule.experts : rule.dense, there, of_block(block));
  }
  Suffixes known;
  for (const std::string_view list :
       {rule.global, blocks_.empty() ? "" : rule.block, rule.dense, rule.experts, rule.optional}) {
    for (const std::string_view names : split(list, ' ')) {
      for (const std::string_view name : split(names, '|')) {
        known.insert(name);
      }
    }
  }
  known.erase("");  // of a list of none
  const auto judge = [&](const Suffixes& there, const std::string& where) {
    for (const std::string_view name : there) {
      if (!known.contains(name)) {
        findings_.warning("V-TENSOR-STRAY", where,
                          fmt::format("{}: {} has no such tensor as far as is known here; a loader "
                                      "refuses it (\"wrong number of tensors\")",
                                      excerpt(name), architecture_));
      }
    }
  };
  judge(global_, "the model");
  for (const auto& [block, there] : blocks_) {
    judge(there, of_block(block));
  }
}

/// A block beside others of its kind: dense or routed, with attention or without.
void ModelLint::lint_neighbours() {
  const auto kind_of = [](const Suffixes& there) {
    const bool routed = there.contains("ffn_gate_inp.weight");
    const bool attends = std::any_of(there.begin(), there.end(), [](std::string_view name) {
      return name.starts_with("attn_q") || name.starts_with("attn_kv");
    });
    const bool next = std::any_of(there.begin(), there.end(),
                                  [](std::string_view name) { return name.starts_with("nextn."); });
    return (routed ? 1 : 0) + (attends ? 2 : 0) + (next ? 4 : 0);
  };
  std::map<int, std::vector<std::int32_t>> kinds;
  for (const auto& [block, there] : blocks_) {
    kinds[kind_of(there)].push_back(block);
  }
  for (const auto& [unused, members] : kinds) {
    std::map<std::string_view, std::size_t> counts;
    for (const std::int32_t block : members) {
      for (const std::string_view name : blocks_.at(block)) {
        ++counts[name];
      }
    }
    for (const auto& [name, count] : counts) {
      const bool usual = 4 * count >= 3 * members.size();
      const bool rare = 4 * count <= members.size();
      if (count == members.size() || !(usual || rare)) {
        continue;
      }
      for (const std::int32_t block : members) {
        if (blocks_.at(block).contains(name) != usual) {
          findings_.warning("V-BLOCK-UNEVEN", of_block(block),
                            fmt::format("{} {}, unlike {} of {} blocks of its kind", excerpt(name),
                                        usual ? "is missing" : "is there",
                                        usual ? count : members.size() - count, members.size()));
        }
      }
    }
  }
}

/// Files that hold no model: an importance matrix, an adapter, an organ.
std::string other_kind(const LintFile& file) {
  const LintKey* type = file.key("general.type");
  const LintKey* architecture = file.key("general.architecture");
  if (type != nullptr && !type->text.empty() && type->text != "model") {
    return type->text;
  }
  if (architecture != nullptr && (architecture->text == "imatrix" || architecture->text == "clip" ||
                                  architecture->text == "controlvector")) {
    return architecture->text;
  }
  return file.key("organ.class") != nullptr && file.tensors.size() == 1 ? "an organ" : "";
}

}  // namespace

void lint_model(const std::vector<LintFile>& files, Findings& findings) {
  const bool complete =
      std::all_of(files.begin(), files.end(), [](const LintFile& file) { return file.complete; });
  if (!complete) {
    return;
  }
  findings.set_file(files.size() == 1 ? files.front().path : std::string());
  if (const std::string kind = other_kind(files.front()); !kind.empty()) {
    findings.note("V-KIND", "", fmt::format("{}: no model, judged as a file alone", excerpt(kind)));
  } else {
    ModelLint(files, findings).run();
  }
  findings.finish_file();
}

}  // namespace vindex::organ
