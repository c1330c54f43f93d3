// Owns reading a recipe from JSON, and which tensors a part covers.
#include "recipe.hpp"

#include "core/files/byte_source.hpp"
#include "input/model_folder.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/json_node.hpp"
#include "organ/manifest/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <span>

namespace vindex::organ {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "organ-recipe/1";
constexpr std::uint64_t kLargestRecipe = std::uint64_t{16} << 20U;
constexpr std::size_t kMaxRecipeValues = 1'000'000;
constexpr std::uint64_t kBeginBytes = 4096;  ///< distinguish a recipe from a container

constexpr std::string_view kRecipeMembers[] = {"schema", "name",   "donors", "host",
                                               "layers", "policy", "rules",  "comment"};
constexpr std::string_view kRuleMembers[] = {"from", "type",          "layers", "tensors",
                                             "map",  "allow_missing", "comment"};
constexpr std::string_view kPolicyMembers[] = {"name",   "reports", "type",
                                               "layers", "tensors", "comment"};

/// "organ,norm" or ["organ", "norm"].
std::string text_or_list(const JsonNode& node) {
  if (!node.is_given()) {
    return {};
  }
  if (!node.is_list()) {
    return node.text();
  }
  std::string joined;
  for (const JsonNode& part : node.list()) {
    joined += (joined.empty() ? "" : ",") + part.text();
  }
  return joined;
}

std::string optional_text(const JsonNode& node) {
  return node.is_given() ? node.text() : std::string();
}

class RecipeReader {
 public:
  RecipeReader(const JsonNode& root, const std::string& path)
      : root_(root), path_(input::local_path(path).value_or(path)) {}

  Recipe run() {
    root_.require_known(kRecipeMembers);
    recipe_.name = optional_text(root_["name"]);
    for (const auto& [name, node] : root_["donors"].members()) {
      recipe_.donors.emplace_back(name, beside(node.text()));
    }
    recipe_.host = donor(root_["host"]);
    if (root_["layers"].is_given()) {
      for (const JsonNode& node : root_["layers"].list()) {
        recipe_.layers.push_back(layers(node));
      }
    }
    if (const JsonNode policy = root_["policy"]; policy.is_given()) {
      read_policy(policy);
    }
    if (root_["rules"].is_given()) {
      for (const JsonNode& node : root_["rules"].list()) {
        recipe_.rules.push_back(rule(node, recipe_.rules.size()));
      }
    }
    return std::move(recipe_);
  }

 private:
  std::string beside(const std::string& path) const {
    const auto local = input::local_path(path);
    if (!local || fs::path(*local).is_absolute()) {
      return local.value_or(path);
    }
    return (fs::path(path_).parent_path() / *local).string();
  }
  std::size_t donor(const JsonNode& node) const {
    for (std::size_t i = 0; i < recipe_.donors.size(); ++i) {
      if (recipe_.donors[i].first == node.text()) {
        return i;
      }
    }
    node.fail(fmt::format("\"{}\" is none of \"donors\"", printable(node.text())));
  }
  static RecipePart part(const JsonNode& node) {
    return {parse_classes(text_or_list(node["type"])),
            model::parse_selection(text_or_list(node["layers"]), {}, {},
                                   optional_text(node["tensors"]))};
  }
  RecipeLayers layers(const JsonNode& node) const {
    const std::vector<JsonNode> pair = node.list();
    if (pair.size() != 2) {
      node.fail("a donor and its blocks are expected: [\"name\", \"0-7\"]");
    }
    const model::Selection range = model::parse_selection(pair[1].text(), {}, {}, {});
    if (range.layers.size() != 1 || range.layers.front().first < 0) {
      pair[1].fail("one range of blocks is expected, like \"0-7\"");
    }
    return {donor(pair[0]), range.layers.front().first, range.layers.front().second};
  }
  void read_policy(const JsonNode& node) {
    node.require_known(kPolicyMembers);
    if (node["name"].text() != "best_theta") {
      node["name"].fail("the policy that there is is \"best_theta\"");
    }
    if (!recipe_.layers.empty()) {
      node.fail("a policy compares blocks of one number; it does not go with \"layers\"");
    }
    RecipePolicy policy;
    policy.part = part(node);
    if (!node["type"].is_given()) {
      policy.part.classes = parse_classes("organ");
    }
    for (const auto& [name, report] : node["reports"].members()) {
      const auto found = std::find_if(recipe_.donors.begin(), recipe_.donors.end(),
                                      [&](const auto& each) { return each.first == name; });
      if (found == recipe_.donors.end()) {
        report.fail("is none of \"donors\"");
      }
      policy.reports.emplace_back(found - recipe_.donors.begin(), beside(report.text()));
    }
    if (policy.reports.size() < 2) {
      node["reports"].fail("a choice needs the reports of two donors at least");
    }
    recipe_.policy = std::move(policy);
  }
  RecipeRule rule(const JsonNode& node, std::size_t index) const {
    node.require_known(kRuleMembers);
    RecipeRule rule;
    rule.place = fmt::format("rules[{}]", index);
    rule.donor = donor(node["from"]);
    rule.part = part(node);
    rule.map = model::parse_layer_map(optional_text(node["map"]));
    rule.allow_missing = node["allow_missing"].is_given() && node["allow_missing"].flag();
    return rule;
  }

  const JsonNode& root_;
  std::string path_;
  Recipe recipe_;
};

}  // namespace

bool RecipePart::covers(const std::string& tensor) const {
  const OrganName name = classify(tensor);
  return classes.contains(name.organ_class) &&
         model::wants(selection, name.block, model::Block::kOther, {}) &&
         (selection.tensors == nullptr || model::name_matches(*selection.tensors, tensor));
}

bool is_recipe(const std::string& path) {
  const auto store = input::open_store(path);
  if (store->file().empty() || store->file() == kManifestName ||
      !input::member_exists(*store, store->file())) {
    return false;
  }
  const std::string begin = beginning_of(*store->open(store->file()), kBeginBytes);
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  return first != std::string::npos && begin[first] == '{';
}

Recipe read_recipe(const std::string& path) {
  const JsonDocument document{"E-RECIPE", printable(path)};
  const JsonValue json = read_json_file(path, kLargestRecipe, kMaxRecipeValues, document);
  const JsonNode root(&json, {}, document);
  if (!root["schema"].is_given() || root["schema"].text() != kSchema) {
    root["schema"].fail(fmt::format("\"{}\" is expected", kSchema));
  }
  return RecipeReader(root, path).run();
}

}  // namespace vindex::organ
