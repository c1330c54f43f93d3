#include "tensor_name.hpp"

#include <vindex/core/error.hpp>
#include <vindex/model/selection.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace vindex::model {

namespace {

constexpr std::size_t kLongestPattern = 1024;
constexpr std::size_t kLongestName = 1024;
constexpr int kMostRepetitions = 255;

UsageError refusal(std::string_view option, std::string_view part, std::string_view why) {
  return UsageError("E-SELECTION",
                    fmt::format("{}: '{}' {}", option, printable(std::string(part)), why));
}

/// The comma-separated parts of `text`. Errors: UsageError on an empty part.
std::vector<std::string_view> parts_of(std::string_view option, std::string_view text) {
  const std::string_view whole = text;
  std::vector<std::string_view> parts;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    if (part.empty()) {
      throw refusal(option, whole, "has an empty part; write a list like a,b");
    }
    parts.push_back(part);
    if (part.size() == text.size()) {
      return parts;
    }
    text.remove_prefix(part.size() + 1);
  }
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
    throw refusal("--layers", part, "is no layer; write numbers and ranges like 0,1,15-20");
  }
  if (last < first) {
    throw refusal("--layers", part, "ends before it begins");
  }
  return {first, last};
}

/// Refuses what makes matching costly whatever the engine: back-references and large repetitions.
void check_pattern(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    throw refusal("--tensors", pattern.substr(0, 40),
                  fmt::format("... is longer than {} bytes", kLongestPattern));
  }
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (!in_class && i + 1 < pattern.size() && pattern[i + 1] >= '1' && pattern[i + 1] <= '9') {
        throw refusal("--tensors", pattern, "refers back to a group, which is not supported");
      }
      ++i;
    } else if (c == '[') {
      in_class = true;
    } else if (c == ']') {
      in_class = false;
    } else if (c == '{' && !in_class) {
      int number = 0;
      for (std::size_t k = i + 1; k < pattern.size() && pattern[k] != '}'; ++k) {
        const char digit = pattern[k];
        number = digit >= '0' && digit <= '9' ? number * 10 + (digit - '0') : 0;
        if (number > kMostRepetitions) {
          throw refusal("--tensors", pattern,
                        fmt::format("repeats more than {} times", kMostRepetitions));
        }
      }
    }
  }
}

std::regex compile(const std::string& pattern) {
  check_pattern(pattern);
  try {
    // libstdc++'s breadth-first matcher: its default one backtracks, for ever on (a|a)*b.
    return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    throw refusal("--tensors", pattern, fmt::format("is no regular expression: {}", error.what()));
  }
}

}  // namespace

class NamePattern {
 public:
  explicit NamePattern(const std::string& pattern) : regex_(compile(pattern)) {}
  bool matches(const std::string& name) const {
    return name.size() <= kLongestName && std::regex_match(name, regex_);
  }

 private:
  std::regex regex_;
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
        throw refusal("--blocks", part,
                      "is no block; they are embedding, router, attention, dense_mlp, "
                      "routed_expert, shared_expert, ssm, norm, output, other");
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
  }
  return selection;
}

std::vector<std::int64_t> select(const ModelIndex& index, const Selection& selection) {
  const auto layer_wanted = [&](std::int32_t layer) {
    return selection.layers.empty() ||
           std::any_of(selection.layers.begin(), selection.layers.end(), [&](const auto& range) {
             return layer >= range.first && layer <= range.second;
           });
  };
  const auto listed = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  // One tensor may have hundreds of slices: its name is matched once.
  std::vector<signed char> matched(index.tensors.size(), -1);
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < index.matrices.size(); ++i) {
    const MatrixRecord& matrix = index.matrices[i];
    if (!layer_wanted(matrix.layer) || !listed(selection.blocks, matrix.block) ||
        !listed(selection.roles, matrix.role)) {
      continue;
    }
    if (selection.tensors != nullptr) {
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

}  // namespace vindex::model
