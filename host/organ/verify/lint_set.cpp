// Owns the checks of the files of a set: split keys, names, and tensors over all of them.
#include "lint_set.hpp"

#include "input/gguf/gguf_set.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace vindex::organ {
namespace {

struct SplitKey {
  const char* name;
  gguf::ValueType type;
};
constexpr SplitKey kSplitKeys[] = {{"split.no", gguf::ValueType::kU16},
                                   {"split.count", gguf::ValueType::kU16},
                                   {"split.tensors.count", gguf::ValueType::kI32}};

bool is_split_or_alignment(const std::string& name) {
  return name.starts_with("split.") || name == "general.alignment";
}

void lint_types(const LintFile& file, Findings& findings) {
  for (const SplitKey& wanted : kSplitKeys) {
    const LintKey* key = file.key(wanted.name);
    if (key != nullptr && key->type != wanted.type) {
      findings.error("V-SPLIT-TYPE", fmt::format("key \"{}\"", wanted.name),
                     fmt::format("is {}, llama.cpp takes {} alone", gguf::type_name(key->type),
                                 gguf::type_name(wanted.type)));
    }
  }
}

void lint_member(const LintFile& file, std::size_t index, std::size_t count, Findings& findings) {
  const auto number = file.number("split.no");
  const auto total = file.number("split.count");
  if (!number || !total) {
    findings.error("V-SPLIT-KEYS", "",
                   "one of a set by its name, without split.no and split.count");
    return;
  }
  if (*number != index) {
    findings.error("V-SPLIT-NUMBER", "key \"split.no\"",
                   fmt::format("is {}, the name says {}", *number, index));
  }
  if (*total != count) {
    findings.error("V-SPLIT-COUNT", "key \"split.count\"",
                   fmt::format("is {}, the name says {}", *total, count));
  }
  for (const LintKey& key : file.keys) {
    if (index > 0 && !is_split_or_alignment(key.name)) {
      findings.note("V-SPLIT-METADATA", fmt::format("key \"{}\"", excerpt(key.name)),
                    "stands in a later split; loaders read the first one's alone");
      return;
    }
  }
}

}  // namespace

void lint_set(const std::vector<LintFile>& files, Findings& findings) {
  std::uint64_t tensors = 0;
  std::unordered_map<std::string_view, std::size_t> owners;
  for (std::size_t i = 0; i < files.size(); ++i) {
    findings.set_file(files[i].path);
    lint_types(files[i], findings);
    if (files.size() > 1) {
      lint_member(files[i], i, files.size(), findings);
    }
    tensors += files[i].tensors.size();
    for (const LintTensor& tensor : files[i].tensors) {
      const auto [owner, fresh] = owners.emplace(tensor.name, i);
      if (!fresh && owner->second != i) {
        findings.error("V-SPLIT-TWICE", fmt::format("tensor \"{}\"", excerpt(tensor.name)),
                       fmt::format("is also in {}", files[owner->second].path));
      }
    }
    findings.finish_file();
  }
  const LintFile& first = files.front();
  findings.set_file(first.path);
  const auto total = first.number("split.tensors.count");
  const bool whole =
      std::all_of(files.begin(), files.end(), [](const LintFile& file) { return file.complete; });
  if (files.size() > 1 && whole && (!total || *total != tensors)) {
    findings.error("V-SPLIT-TENSORS", "key \"split.tensors.count\"",
                   fmt::format("is {}, the set holds {} tensors",
                               total ? std::to_string(*total) : "absent", tensors));
  } else if (files.size() == 1 && first.number("split.count").value_or(0) > 1) {
    const bool all_here = total && *total == tensors;
    findings.add("V-SPLIT-LEFTOVER", all_here ? VerifyLevel::kWarning : VerifyLevel::kError,
                 "key \"split.count\"",
                 fmt::format("says {} files, this is one by itself{}", *first.number("split.count"),
                             all_here ? " and holds every tensor" : ""),
                 "`vindex organ assemble FILE -o NEW --shards none` removes the keys");
  }
  findings.finish_file();
}

}  // namespace vindex::organ
