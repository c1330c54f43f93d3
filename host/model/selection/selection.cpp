// Owns parsing each list, and matching records against it.
#include "selection.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include "decode/encoding_table.hpp"
#include "model/families/tensor_name.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <re2/re2.h>

namespace vindex::model {

namespace {

constexpr std::size_t kMaxPattern = 1024;
/// Of the compiled expression and its automata: RE2 refuses what would need more, and matches in
/// time linear in the name whatever the expression.
constexpr std::int64_t kPatternMemory = 8 << 20;

UsageError refusal(std::string_view option, std::string_view part, std::string_view why) {
  return UsageError("E-SELECTION",
                    fmt::format("{}: '{}' {}", option, printable(std::string(part)), why));
}

/// The comma-separated parts of `text`. Errors: UsageError on an empty part.
std::vector<std::string_view> parts_of(std::string_view option, std::string_view text) {
  std::vector<std::string_view> parts = split(text, ',');
  if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
    throw refusal(option, text, "has an empty part; write a list like a,b");
  }
  return parts;
}

std::pair<std::int32_t, std::int32_t> layer_range(std::string_view part) {
  if (part == "-1") {
    return {-1, -1};
  }
  const std::size_t dash = part.find('-');
  const std::int32_t first = small_number(part.substr(0, dash));
  const std::int32_t last =
      dash == std::string_view::npos ? first : small_number(part.substr(dash + 1));
  if (first < 0 || last < 0) {
    throw refusal("--layers", part, "is not a layer; write numbers and ranges like 0,1,15-20");
  }
  if (last < first) {
    throw refusal("--layers", part, "ends before it begins");
  }
  return {first, last};
}

std::vector<std::string> block_names() {
  std::vector<std::string> names;
  for (int block = 0; block <= static_cast<int>(Block::kOther); ++block) {
    names.emplace_back(block_name(static_cast<Block>(block)));
  }
  return names;
}

/// Whether `rest`, what follows an opening brace, ends a count: {2}, {2,} or {2,5}.
bool ends_count(std::string_view rest) {
  const auto skip_digits = [&] {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(digits);
    return digits;
  };
  const std::size_t least = skip_digits();
  std::size_t most = 0;
  if (rest.starts_with(',')) {
    rest.remove_prefix(1);
    most = skip_digits();
  }
  // RE2 takes a count of many digits for text to match.
  return least >= 1 && std::max(least, most) <= 8 && rest.starts_with('}');
}

/// Refuses what is ECMAScript and asks for a search of unbounded cost, by its own name, and what
/// RE2 would read as something else than ECMAScript does.
void refuse_different(const std::string& pattern) {
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (!in_class && i + 1 < pattern.size() && pattern[i + 1] >= '1' && pattern[i + 1] <= '9') {
        throw refusal("--tensors", pattern, "refers back to a group, which is not supported");
      }
      ++i;
    } else if (c == '[' && !in_class) {
      in_class = true;
      const std::string_view rest = std::string_view(pattern).substr(i + 1, 2);
      if (rest.starts_with("]") || rest.starts_with("^]")) {
        throw refusal("--tensors", pattern,
                      "is not a regular expression: a class without characters");
      }
    } else if (c == '{' && !in_class && !ends_count(std::string_view(pattern).substr(i + 1))) {
      throw refusal("--tensors", pattern,
                    "is not a regular expression: a brace without a count; \\{ is the character");
    } else if (c == ']') {
      in_class = false;
    } else if (c == '(' && !in_class) {
      const std::string_view rest = std::string_view(pattern).substr(i + 1, 3);
      if (rest.starts_with("?=") || rest.starts_with("?!") || rest.starts_with("?<=") ||
          rest.starts_with("?<!")) {
        throw refusal("--tensors", pattern, "looks ahead or behind, which is not supported");
      }
    }
  }
}

/// Bytes, not characters: names need not be UTF-8.
re2::RE2::Options options() {
  re2::RE2::Options options(re2::RE2::Latin1);
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemory);
  return options;
}

}  // namespace

class NamePattern {
 public:
  explicit NamePattern(const std::string& pattern) : regex_(checked(pattern), options()) {
    if (!regex_.ok()) {
      throw refusal("--tensors", pattern,
                    fmt::format("is not a regular expression: {}", regex_.error()));
    }
  }
  bool matches(const std::string& name) const { return re2::RE2::FullMatch(name, regex_); }

 private:
  static const std::string& checked(const std::string& pattern) {
    if (pattern.size() > kMaxPattern) {
      throw refusal("--tensors", pattern.substr(0, 40),
                    fmt::format("... is longer than {} bytes", kMaxPattern));
    }
    refuse_different(pattern);
    return pattern;
  }

  re2::RE2 regex_;
};

Selection parse_selection(const std::string& layers, const std::string& blocks,
                          const std::string& roles, const std::string& tensors) {
  Selection selection;
  if (!layers.empty()) {
    for (const std::string_view part : parts_of("--layers", layers)) {
      selection.layers.push_back(layer_range(part));
    }
  }
  if (!blocks.empty()) {
    for (const std::string_view part : parts_of("--blocks", blocks)) {
      const auto block = block_of_name(part);
      if (!block) {
        const std::vector<std::string> names = block_names();
        const std::string guess = did_you_mean(part, names);
        throw refusal("--blocks", part,
                      fmt::format("is not a block; {}{}they are {}", guess,
                                  guess.empty() ? "" : " ", fmt::join(names, ", ")));
      }
      selection.blocks.push_back(*block);
    }
  }
  if (!roles.empty()) {
    for (const std::string_view part : parts_of("--roles", roles)) {
      selection.roles.emplace_back(part);
    }
  }
  if (!tensors.empty()) {
    selection.tensors = std::make_shared<const NamePattern>(tensors);
    selection.tensors_text = tensors;
  }
  return selection;
}

bool name_matches(const NamePattern& pattern, const std::string& name) {
  return pattern.matches(name);
}

bool wants(const Selection& selection, std::int32_t layer, Block block, const std::string& role) {
  const auto listed = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  const bool layer_wanted =
      selection.layers.empty() ||
      std::any_of(selection.layers.begin(), selection.layers.end(),
                  [&](const auto& range) { return layer >= range.first && layer <= range.second; });
  return layer_wanted && listed(selection.blocks, block) && listed(selection.roles, role);
}

std::vector<std::int64_t> select(const ModelIndex& index, const Selection& selection) {
  // One tensor may have hundreds of slices: its name is matched once.
  std::vector<signed char> matched(index.tensors.size(), -1);
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < index.matrices.size(); ++i) {
    const MatrixRecord& matrix = index.matrices[i];
    if (!wants(selection, matrix.layer, matrix.block, matrix.role)) {
      continue;
    }
    if (selection.tensors != nullptr && matrix.product != nullptr) {
      if (!selection.tensors->matches(matrix.tensor)) {
        continue;  // a name of its own, not the tensor's
      }
    } else if (selection.tensors != nullptr) {
      signed char& match = matched[static_cast<std::size_t>(matrix.tensor_record)];
      if (match < 0) {
        match = selection.tensors->matches(matrix.tensor) ? 1 : 0;
      }
      if (match == 0) {
        continue;
      }
    }
    chosen.push_back(static_cast<std::int64_t>(i));
  }
  return chosen;
}

std::string unmeasured_text(const ModelIndex& index) {
  constexpr std::size_t kMinRank = 3;
  std::map<std::string, std::size_t> reasons;
  const TensorRecord* first = nullptr;
  std::size_t count = 0;
  bool helps_reshape = false;
  for (const TensorRecord& tensor : index.tensors) {
    if (!tensor.in_matrix && tensor.shape.size() >= kMinRank) {
      first = first == nullptr ? &tensor : first;
      ++reasons[tensor.reason];
      ++count;
      helps_reshape = helps_reshape || tensor.reason == "convolution" ||
                      tensor.reason.ends_with("no known stack");
    }
  }
  if (count == 0) {
    return "";
  }
  std::string why;
  for (const auto& [reason, of_it] : reasons) {
    why += fmt::format("{}{} {}", why.empty() ? "" : ", ", of_it, printable(reason));
  }
  return fmt::format("{} of rank 3 or more {} unmeasured: {}, for example {}{}",
                     count == 1 ? std::string("1 tensor") : fmt::format("{} tensors", count),
                     count == 1 ? "stands" : "stand", why, excerpt(first->name),
                     helps_reshape ? "; --reshape out measures them as out x rest" : "");
}

std::string undecodable_text(const MatrixRecord& matrix) {
  if (!matrix.unsupported.empty() || decode::is_decodable(matrix.encoding)) {
    return matrix.unsupported;
  }
  return fmt::format("encoding {} cannot be decoded", matrix.encoding.label);
}

}  // namespace vindex::model
