// Owns the report of a difference, for readers and for programs.
#include "difference_report.hpp"

#include "core/json/json_document.hpp"
#include "core/text/short_names.hpp"
#include "core/text/size_text.hpp"
#include "core/text/text_table.hpp"
#include "organ/source/tensor_pair.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace vindex::organ {
namespace {

std::string difference_type_name(const gguf::TensorLayout& tensor) {
  return std::string(decode::element_type_row(tensor.type).name);
}

std::string types_text(const TensorDifference& tensor) {
  const std::string a = difference_type_name(tensor.a);
  return tensor.a.type == tensor.b.type ? a : a + " -> " + difference_type_name(tensor.b);
}

std::string number_text(double value, const char* form) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(form), value);
}
std::string cosine_text(double value) { return number_text(value, "{:.6f}"); }
std::string error_text(double value) { return number_text(value, "{:.2e}"); }

std::string side_text(const char* name, const DiffSide& side, std::size_t width) {
  return wrapped_text(
             fmt::format("{}  {} ({}{}{}, {} tensors, {}, {} keys)", name, printable(side.path),
                         side.format, side.architecture.empty() ? "" : " ",
                         printable(side.architecture), side.tensors, data_text(side.bytes),
                         side.keys),
             width, 3) +
         "\n";
}

std::string value_text(const KeyValue& value) {
  return value.count
             ? fmt::format("{} {} (sha256 {})", value.type, value.text, value.digest.substr(0, 12))
             : fmt::format("{} {}", value.type, value.text);
}

std::string key_text(const KeyDifference& key) {
  const std::string name = excerpt(key.name);
  if (!key.a) {
    return fmt::format("+ {}: {}", name, value_text(*key.b));
  }
  if (!key.b) {
    return fmt::format("- {}: {}", name, value_text(*key.a));
  }
  const bool retyped = key.a->count || key.b->count || key.a->type != key.b->type;
  std::string text = fmt::format("~ {}: {} -> {}", name, value_text(*key.a),
                                 retyped ? value_text(*key.b) : key.b->text);
  if (key.first) {
    const auto side = [](const std::string& element) {
      return element.empty() ? std::string("nothing") : element;
    };
    text += fmt::format("; first at {}: {} -> {}", key.first->index, side(key.first->a),
                        side(key.first->b));
  }
  return text;
}

std::string keys_text(const ModelDifference& difference, std::size_t width) {
  std::size_t added = 0;
  std::size_t removed = 0;
  for (const KeyDifference& key : difference.keys) {
    added += key.a ? 0 : 1;
    removed += key.b ? 0 : 1;
  }
  std::string text = wrapped_text(
      fmt::format("metadata: {} keys same, {} changed, {} only in A, {} only in B",
                  difference.same_keys, difference.keys.size() - added - removed, removed, added),
      width, 2);
  text += "\n";
  for (const KeyDifference& key : difference.keys) {
    text += "  " + wrapped_text(key_text(key), width - 2, 6) + "\n";
  }
  return text;
}

/// A row of the summary.
struct DifferenceGroup {
  std::size_t states[6] = {};
  std::size_t count = 0, only_a = 0, only_b = 0;
  std::vector<double> cosines;
  double largest_error = 0.0;
};

double median(std::vector<double> values) {
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string summary_text(const ModelDifference& difference, const DiffView& view) {
  std::map<std::int32_t, DifferenceGroup> groups;
  const auto group_of = [&](const OrganName& name) -> DifferenceGroup& {
    return groups[view.by_layer ? name.block : static_cast<std::int32_t>(name.organ_class)];
  };
  for (const TensorDifference& tensor : difference.tensors) {
    DifferenceGroup& group = group_of(tensor.organ);
    ++group.count;
    ++group.states[static_cast<std::size_t>(tensor.state)];
    if (!std::isnan(tensor.report.cosine)) {
      group.cosines.push_back(tensor.report.cosine);
    }
    if (!std::isnan(tensor.report.relative_error)) {
      group.largest_error = std::max(group.largest_error, tensor.report.relative_error);
    }
  }
  for (const LoneTensor& tensor : difference.only_a) {
    ++group_of(tensor.organ).only_a;
  }
  for (const LoneTensor& tensor : difference.only_b) {
    ++group_of(tensor.organ).only_b;
  }
  std::vector<std::vector<std::string>> rows = {{view.by_layer ? "block" : "class", "both", "bytes",
                                                 "values", "differ", "other", "only A", "only B",
                                                 "cosine", "least", "error"}};
  for (const auto& [key, group] : groups) {
    const auto state = [&group = group](TensorState which) {
      return group.states[static_cast<std::size_t>(which)];
    };
    const std::string name = view.by_layer ? (key < 0 ? "-" : std::to_string(key))
                                           : std::string(class_name(static_cast<OrganClass>(key)));
    const double least = group.cosines.empty()
                             ? std::numeric_limits<double>::quiet_NaN()
                             : *std::min_element(group.cosines.begin(), group.cosines.end());
    rows.push_back({name, std::to_string(group.count),
                    std::to_string(state(TensorState::kSameBytes)),
                    std::to_string(state(TensorState::kSameValues)),
                    std::to_string(state(TensorState::kDifferent)),
                    std::to_string(state(TensorState::kShape) + state(TensorState::kNotFinite) +
                                   state(TensorState::kUnsupported)),
                    std::to_string(group.only_a), std::to_string(group.only_b),
                    cosine_text(median(group.cosines)), cosine_text(least),
                    group.cosines.empty() ? "-" : error_text(group.largest_error)});
  }
  std::vector<TextColumn> columns(rows.front().size(), {.right = true, .is_close = true});
  columns.front() = {};
  return table_text(rows, columns, view.width) +
         wrapped_text(
             "bytes: the same; values: the same once decoded; other: shapes that differ, "
             "weights that are not finite or not decoded; cosine: median; least: the smallest; "
             "error: norm(B - A) / norm(A), the largest",
             view.width, 0) +
         "\n";
}

std::string top_text(const ModelDifference& difference, const DiffView& view) {
  std::vector<const TensorDifference*> changed;
  for (const TensorDifference& tensor : difference.tensors) {
    if (tensor.state != TensorState::kSameBytes && tensor.state != TensorState::kSameValues) {
      changed.push_back(&tensor);
    }
  }
  // What has no number comes first: nobody should overlook it.
  const auto rank = [](const TensorDifference* tensor) {
    const double error = tensor->report.relative_error;
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  };
  std::stable_sort(changed.begin(), changed.end(),
                   [&](const auto* a, const auto* b) { return rank(a) > rank(b); });
  if (changed.empty() || view.top == 0) {
    return "";
  }
  std::vector<std::vector<std::string>> rows = {{"tensor", "type", "state", "cosine", "error"}};
  for (std::size_t i = 0; i < std::min(view.top, changed.size()); ++i) {
    const TensorDifference& tensor = *changed[i];
    const bool shape = tensor.state == TensorState::kShape;
    rows.push_back({excerpt(tensor.name),
                    shape ? fmt::format("{} -> {}", shape_text(tensor.a.dimensions),
                                        shape_text(tensor.b.dimensions))
                          : types_text(tensor),
                    std::string(state_name(tensor.state)), cosine_text(tensor.report.cosine),
                    error_text(tensor.report.relative_error)});
  }
  return "\n" +
         names_table_text(
             rows, {{.min_width = 20}, {.min_width = 12}, {}, {.right = true}, {.right = true}},
             view.width) +
         (changed.size() > view.top ? fmt::format("({} more; --top {} lists them)\n",
                                                  changed.size() - view.top, changed.size())
                                    : "");
}

std::string lone_text(const std::vector<LoneTensor>& tensors, const char* side,
                      const DiffView& view) {
  std::string text;
  for (std::size_t i = 0; i < std::min(tensors.size(), view.top); ++i) {
    text += wrapped_text(
                fmt::format("only in {}: {} ({}, {})", side, excerpt(tensors[i].name),
                            difference_type_name(tensors[i]), shape_text(tensors[i].dimensions)),
                view.width, 2) +
            "\n";
  }
  if (tensors.size() > view.top) {
    text += fmt::format("only in {}: {} more\n", side, tensors.size() - view.top);
  }
  return text;
}

/// JSON has neither NaN nor infinities.
Json key_value_json(const std::optional<KeyValue>& value) {
  if (!value) {
    return {};
  }
  return {{"type", value->type},
          {"text", value->text},
          {"count", Json::given(value->count)},
          {"sha256", value->digest}};
}

Json key_json(const KeyDifference& key) {
  Json out = {{"name", key.name},
              {"change", !key.a ? "added" : (!key.b ? "removed" : "changed")},
              {"a", key_value_json(key.a)},
              {"b", key_value_json(key.b)},
              {"first_difference", Json()}};
  if (key.first) {
    out["first_difference"] = {{"index", key.first->index},
                               {"a", Json::given(key.first->a)},
                               {"b", Json::given(key.first->b)}};
  }
  return out;
}

Json stored_json(const gguf::Tensor& tensor) {
  return {
      {"type", difference_type_name(tensor)}, {"ne", tensor.dimensions}, {"bytes", tensor.bytes}};
}

Json difference_tensor_json(const TensorDifference& tensor) {
  return {{"name", tensor.name},
          {"class", class_name(tensor.organ.organ_class)},
          {"block", tensor.organ.block},
          {"state", state_name(tensor.state)},
          {"a", stored_json(tensor.a)},
          {"b", stored_json(tensor.b)},
          {"cosine", tensor.report.cosine},
          {"relative_error", tensor.report.relative_error},
          {"max_abs_difference", tensor.report.max_abs_difference},
          {"norm_a", tensor.report.norm_a},
          {"norm_b", tensor.report.norm_b},
          {"reason", Json::given(tensor.report.reason)}};
}

Json difference_side_json(const DiffSide& side) {
  return {{"path", side.path},
          {"format", side.format},
          {"architecture", Json::given(side.architecture)},
          {"tensors", side.tensors},
          {"bytes", side.bytes},
          {"keys", side.keys}};
}

Json lone_json(const LoneTensor& tensor) {
  Json one = {{"name", tensor.name},
              {"class", class_name(tensor.organ.organ_class)},
              {"block", tensor.organ.block}};
  one.update(stored_json(tensor));
  return one;
}

}  // namespace

std::string difference_text(const ModelDifference& difference, const DiffView& view) {
  std::string text = side_text("A", difference.a, view.width) +
                     side_text("B", difference.b, view.width) + "\n" +
                     keys_text(difference, view.width) + "\n" + summary_text(difference, view) +
                     top_text(difference, view);
  const std::string lone =
      lone_text(difference.only_a, "A", view) + lone_text(difference.only_b, "B", view);
  text += lone.empty() ? "" : "\n" + lone;
  text += difference.same_order ? "" : "\nthe tensors follow one another in another order\n";
  return text + (difference.is_same() ? "\nsame: every key and every tensor\n" : "\ndifferent\n");
}

std::string difference_json(const ModelDifference& difference) {
  Json document = {{"schema", "organ-diff/1"},
                   {"same", difference.is_same()},
                   {"same_order", difference.same_order},
                   {"a", difference_side_json(difference.a)},
                   {"b", difference_side_json(difference.b)}};
  document["same_keys"] = difference.same_keys;
  document["keys"] = Json::list(difference.keys, key_json);
  document["only_a"] = Json::list(difference.only_a, lone_json);
  document["only_b"] = Json::list(difference.only_b, lone_json);
  document["tensors"] = Json::list(difference.tensors, difference_tensor_json);
  return document.dump(2) + "\n";
}

}  // namespace vindex::organ
