// Owns applying host, stack and parts in turn, the resulting tensors, keys and parents.
#include "recipe_compose.hpp"

#include "recipe.hpp"
#include "stack.hpp"
#include "theta_report.hpp"

#include "core/text/secrets.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/opening/organ_folder.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/writing/provenance.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace vindex::organ {
namespace {

/// A tensor of the result.
struct Chosen {
  std::string name;
  const GgufSource* model = nullptr;
  std::size_t tensor = 0;
};

constexpr std::size_t kListed = 10;

/// Refusals of one rule, the first of them by name.
class Refusals {
 public:
  void add(std::string line) {
    if (++count_ <= kListed) {
      text_ += "; " + line;
    }
  }
  void throw_if_any(const std::string& place) const {
    if (count_ > 0) {
      throw ConfigurationError("E-RECIPE-TENSORS",
                               fmt::format("{}: {} tensors cannot be taken{}{}", place, count_,
                                           text_, count_ > kListed ? "; ..." : ""));
    }
  }

 private:
  std::size_t count_ = 0;
  std::string text_;
};

class RecipeRun {
 public:
  RecipeRun(const Recipe& recipe, const AssembleSettings& settings)
      : recipe_(recipe), settings_(settings) {}

  void run(AssembleReport& report);

 private:
  void open();
  void take_host();
  void take_stack(const Stack& stack);
  void apply(const RecipePolicy& policy, AssembleReport& report);
  void apply(const RecipeRule& rule, AssembleReport& report);
  std::vector<ComposedTensor> tensors() const;
  std::vector<const GgufSource*> parents() const;
  std::string donor_name(const GgufSource* model) const;

  const Recipe& recipe_;
  const AssembleSettings& settings_;
  std::vector<std::unique_ptr<GgufSource>> models_;
  std::vector<Chosen> chosen_;
};

void RecipeRun::open() {
  OpenGgufOptions options;
  options.accept_changed = settings_.accept_changed;
  for (const auto& [name, path] : recipe_.donors) {
    models_.push_back(open_gguf(path, options));
  }
  const GgufSource& host = *models_[recipe_.host];
  if (host.tensors().size() < host.tensors_total()) {
    throw ConfigurationError(
        "E-ORGAN-PARTIAL",
        fmt::format("{}: the host is a selection of {} of {} tensors", printable(host.path()),
                    host.tensors().size(), host.tensors_total()));
  }
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (models_[i]->architecture() != host.architecture()) {
      throw ConfigurationError(
          "E-RECIPE-ARCHITECTURE",
          fmt::format("{} is of {}, the host of {}: their tensors do not work together",
                      printable(recipe_.donors[i].second), excerpt(models_[i]->architecture()),
                      excerpt(host.architecture())));
    }
  }
}

void RecipeRun::take_host() {
  const GgufSource& host = *models_[recipe_.host];
  for (std::size_t i = 0; i < host.tensors().size(); ++i) {
    chosen_.push_back({host.tensors()[i].name, &host, i});
  }
}

/// The host's order, its blocks replaced by those of the stack where the first of them stood.
void RecipeRun::take_stack(const Stack& stack) {
  const GgufSource& host = *models_[recipe_.host];
  std::map<std::pair<const GgufSource*, std::int32_t>, std::vector<std::size_t>> of_block;
  for (const auto& model : models_) {
    for (std::size_t i = 0; i < model->tensors().size(); ++i) {
      const std::int32_t block = classify(model->tensors()[i].name).block;
      if (block >= 0) {
        of_block[{model.get(), block}].push_back(i);
      }
    }
  }
  bool stacked = false;
  for (std::size_t i = 0; i < host.tensors().size(); ++i) {
    if (classify(host.tensors()[i].name).block < 0) {
      chosen_.push_back({host.tensors()[i].name, &host, i});
      continue;
    }
    for (std::size_t b = 0; !stacked && b < stack.blocks().size(); ++b) {
      const StackBlock& block = stack.blocks()[b];
      const auto found = of_block.find({block.model, block.block});
      if (found == of_block.end()) {
        throw ConfigurationError("E-RECIPE-LAYERS",
                                 fmt::format("{} holds no tensor of block {}",
                                             printable(block.model->path()), block.block));
      }
      for (const std::size_t tensor : found->second) {
        chosen_.push_back(
            {with_block(block.model->tensors()[tensor].name, static_cast<std::int32_t>(b)),
             block.model, tensor});
      }
    }
    stacked = true;
  }
}

void RecipeRun::apply(const RecipePolicy& policy, AssembleReport& report) {
  std::vector<std::pair<const GgufSource*, std::map<std::string, double>>> thetas;
  for (const auto& [donor, path] : policy.reports) {
    thetas.emplace_back(models_[donor].get(), read_theta_report(path));
  }
  std::map<const GgufSource*, std::size_t> taken;
  std::size_t unmeasured = 0;
  Refusals refusals;
  for (Chosen& tensor : chosen_) {
    if (!policy.part.covers(tensor.name)) {
      continue;
    }
    double best = -1.0;
    const GgufSource* winner = nullptr;
    for (const auto& [model, of_model] : thetas) {
      const auto theta = of_model.find(tensor.name);
      // Of equal ones the host's stays, else the first named.
      const bool wins = theta != of_model.end() &&
                        (theta->second > best || (theta->second == best && model == tensor.model));
      if (wins) {
        best = theta->second;
        winner = model;
      }
    }
    if (winner == nullptr) {
      ++unmeasured;
      continue;
    }
    const auto place = winner->find(tensor.name);
    if (!place ||
        winner->tensors()[*place].dimensions != tensor.model->tensors()[tensor.tensor].dimensions) {
      refusals.add(fmt::format("{} of {}: {}", excerpt(tensor.name), donor_name(winner),
                               place ? "of another shape than the host's" : "not there"));
      continue;
    }
    tensor.model = winner;
    tensor.tensor = *place;
    ++taken[winner];
  }
  refusals.throw_if_any("policy");
  for (const auto& [model, of_model] : thetas) {
    report.notes.push_back(
        fmt::format("best_theta: {} tensors of {}", taken[model], donor_name(model)));
  }
  if (unmeasured > 0) {
    report.notes.push_back(
        fmt::format("best_theta: {} tensors have no theta and stay the host's", unmeasured));
  }
}

void RecipeRun::apply(const RecipeRule& rule, AssembleReport& report) {
  const GgufSource& donor = *models_[rule.donor];
  std::size_t taken = 0;
  std::size_t missing = 0;
  Refusals refusals;
  for (Chosen& tensor : chosen_) {
    const auto block = model::mapped_layer(rule.map, classify(tensor.name).block);
    if (!rule.part.covers(tensor.name) || !block) {
      continue;
    }
    const std::string name = *block < 0 ? tensor.name : with_block(tensor.name, *block);
    const auto place = donor.find(name);
    if (!place && rule.allow_missing) {
      ++missing;
      continue;
    }
    const std::vector<std::uint64_t>& shape = tensor.model->tensors()[tensor.tensor].dimensions;
    if (!place || donor.tensors()[*place].dimensions != shape) {
      refusals.add(
          fmt::format("{}: {}", excerpt(name),
                      place ? fmt::format("[{}], the host's is [{}]",
                                          fmt::join(donor.tensors()[*place].dimensions, ", "),
                                          fmt::join(shape, ", "))
                            : std::string("not in the donor")));
      continue;
    }
    tensor.model = &donor;
    tensor.tensor = *place;
    ++taken;
  }
  refusals.throw_if_any(rule.place);
  if (taken == 0) {
    throw ConfigurationError("E-RECIPE-RULE",
                             fmt::format("{}: takes no tensor of {}: mend it or leave it out",
                                         rule.place, donor_name(&donor)));
  }
  report.notes.push_back(
      fmt::format("{}: {} tensors of {}{}", rule.place, taken, donor_name(&donor),
                  missing > 0 ? fmt::format(", {} it does not have", missing) : std::string()));
}

std::string RecipeRun::donor_name(const GgufSource* model) const {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (models_[i].get() == model) {
      return printable(recipe_.donors[i].first);
    }
  }
  return {};
}

std::vector<ComposedTensor> RecipeRun::tensors() const {
  std::vector<ComposedTensor> tensors;
  for (const Chosen& each : chosen_) {
    ComposedTensor& tensor = tensors.emplace_back(passed_through(*each.model, each.tensor));
    tensor.layout.name = each.name;
    if (settings_.accept_changed) {
      tensor.sha256.clear();
    }
  }
  return tensors;
}

/// The host, then every donor that gave something, in the recipe's order.
std::vector<const GgufSource*> RecipeRun::parents() const {
  std::set<const GgufSource*> used;
  for (const Chosen& each : chosen_) {
    used.insert(each.model);
  }
  const GgufSource* host = models_[recipe_.host].get();
  std::vector<const GgufSource*> parents = {host};
  for (const auto& model : models_) {
    if (model.get() != host && used.contains(model.get())) {
      parents.push_back(model.get());
    }
  }
  return parents;
}

void RecipeRun::run(AssembleReport& report) {
  open();
  std::optional<Stack> stack;
  if (recipe_.layers.empty()) {
    take_host();
  } else {
    take_stack(stack.emplace(recipe_, models_));
    report.notes = stack->notes();
    report.notes.push_back(fmt::format("{} blocks are stacked", stack->blocks().size()));
  }
  if (recipe_.policy) {
    apply(*recipe_.policy, report);
  }
  for (const RecipeRule& rule : recipe_.rules) {
    apply(rule, report);
  }
  std::vector<ComposedTensor> composed = tensors();
  report.tensors = composed.size();
  Provenance provenance;
  provenance.parents = parents();
  provenance.name = recipe_.name;
  provenance.history = fmt::format(
      "assemble: {}", std::filesystem::path(without_secrets(settings_.input)).filename().string());
  for (const std::string& note : report.notes) {
    provenance.history += "; " + note;
  }
  const GgufSource& host = *models_[recipe_.host];
  gguf::KeySection keys = changed_keys(
      host, composed, provenance,
      [&](const gguf::Key& key, gguf::KeySection& out) { return stack && stack->edit(key, out); });
  ComposeOptions how;
  how.replace = settings_.replace;
  how.threads = settings_.threads;
  how.stop = settings_.stop;
  how.inputs.push_back(input::local_path(settings_.input).value_or(std::string()));
  for (const auto& model : models_) {  // also of those that give nothing
    const std::vector<std::string> own = model->input_paths();
    how.inputs.insert(how.inputs.end(), own.begin(), own.end());
  }
  if (recipe_.policy) {
    for (const auto& [donor, path] : recipe_.policy->reports) {
      how.inputs.push_back(path);
    }
  }
  report.composed = compose(
      split_by_size(std::move(keys), std::move(composed), settings_.shard_bytes.value_or(0)),
      settings_.output, how);
}

}  // namespace

void assemble_recipe(const AssembleSettings& settings, AssembleReport& report) {
  const Recipe recipe = read_recipe(settings.input);
  RecipeRun(recipe, settings).run(report);
}

}  // namespace vindex::organ
