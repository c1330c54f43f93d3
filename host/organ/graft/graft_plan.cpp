// Owns parsing a wish and choosing tensors, each with its refusal.
#include "graft_plan.hpp"

#include "model/selection/selection.hpp"
#include "organ/source/tensor_pair.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace vindex::organ {
namespace {

using Places = std::unordered_map<std::string_view, std::size_t>;

Places places_of(std::span<const gguf::TensorLayout> tensors) {
  Places places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places.emplace(tensors[i].name, i);
  }
  return places;
}

std::set<std::int32_t> blocks_of(std::span<const gguf::TensorLayout> tensors) {
  std::set<std::int32_t> blocks;
  for (const gguf::TensorLayout& tensor : tensors) {
    blocks.insert(classify(tensor.name).block);
  }
  blocks.erase(-1);
  return blocks;
}

/// The first block of [first, last] that is not in `blocks`.
std::optional<std::int32_t> first_absent(const std::set<std::int32_t>& blocks, std::int32_t first,
                                         std::int32_t last) {
  for (std::int64_t block = first; block <= last; ++block) {  // ends at the first that is absent
    if (!blocks.contains(static_cast<std::int32_t>(block))) {
      return static_cast<std::int32_t>(block);
    }
  }
  return std::nullopt;
}

void require_blocks(const std::set<std::int32_t>& blocks, std::int32_t first, std::int32_t last,
                    const char* option, const char* side) {
  if (const auto absent = first_absent(blocks, first, last)) {
    throw UsageError("E-GRAFT-LAYERS",
                     fmt::format("{}: the {} has no block {}; it has {}", option, side, *absent,
                                 blocks.empty() ? "none" : model::layers_text(blocks)));
  }
}

/// The companions that GGUF files have beside `X.weight`.
constexpr std::string_view kScales[] = {".scale", ".input_scale"};

/// The weight that `name` scales, or nothing.
std::optional<std::string> weight_of_scale(std::string_view name) {
  for (const std::string_view scale : kScales) {
    if (name.ends_with(scale)) {
      return std::string(name.substr(0, name.size() - scale.size())) + ".weight";
    }
  }
  return std::nullopt;
}

bool is_rope_table(std::string_view name) {
  return name.find("rope_freqs") != std::string_view::npos ||
         name.find("rope_factors") != std::string_view::npos;
}

class Planner {
 public:
  Planner(std::span<const gguf::TensorLayout> host, std::span<const gguf::TensorLayout> donor,
          const GraftRequest& request)
      : host_(host),
        donor_(donor),
        request_(request),
        host_places_(places_of(host)),
        donor_places_(places_of(donor)) {
    choose_blocks();
  }

  GraftPlan run() {
    for (std::size_t i = 0; i < donor_.size(); ++i) {
      take(i);
    }
    for (std::size_t i = 0; i < host_.size(); ++i) {
      look_for_donor(i);
    }
    sort();
    return std::move(plan_);
  }

 private:
  /// donor_block_[host's] and the way back; -1 stands for what is in no block.
  void choose_blocks() {
    const std::set<std::int32_t> donors = blocks_of(donor_);
    const std::set<std::int32_t> hosts = blocks_of(host_);
    auto layers = request_.layers;
    for (const model::LayerRange& range : request_.map) {
      require_blocks(donors, range.first_a, range.last_a, "--map", "donor");
      require_blocks(hosts, range.first_b, range.first_b + (range.last_a - range.first_a), "--map",
                     "host");
      if (request_.layers.empty()) {
        layers.emplace_back(range.first_a, range.last_a);
      }
    }
    std::set<std::int32_t> chosen;
    if (layers.empty()) {
      chosen = donors;
      chosen.insert(hosts.begin(), hosts.end());
      chosen.insert(-1);
    }
    for (const auto& [first, last] : layers) {
      require_blocks(donors, std::max(first, 0), last, "--layers", "donor");
      for (std::int32_t block = first; block <= last; ++block) {
        chosen.insert(block);
      }
    }
    for (const std::int32_t block : chosen) {
      const std::int32_t target = model::mapped_layer(request_.map, block).value_or(block);
      if (!layers.empty() && block >= 0) {
        require_blocks(hosts, target, target, "--layers", "host");
      }
      if (!donor_block_.emplace(target, block).second) {
        throw UsageError("E-MAP", fmt::format("--map: blocks {} and {} of the donor would both "
                                              "become block {} of the host; name every block of "
                                              "--layers that moves",
                                              donor_block_.at(target), block, target));
      }
      host_block_.emplace(block, target);
    }
  }

  bool is_selected(const OrganName& name) const {
    return request_.classes.contains(name.organ_class);
  }

  void refuse(std::string tensor, RefusalKind kind, std::string reason) {
    const bool missing =
        kind == RefusalKind::kMissingInHost || kind == RefusalKind::kMissingInDonor;
    const bool is_fatal = kind == RefusalKind::kShape || (missing && !request_.allow_missing);
    plan_.refusals.push_back({std::move(tensor), kind, std::move(reason), is_fatal});
  }

  void take(std::size_t donor) {
    const gguf::TensorLayout& tensor = donor_[donor];
    const OrganName name = classify(tensor.name);
    const auto block = host_block_.find(name.block);
    if (!is_selected(name) || block == host_block_.end()) {
      return;
    }
    const std::string target =
        block->first == block->second ? tensor.name : with_block(tensor.name, block->second);
    if (is_rope_table(tensor.name)) {
      refuse(target, RefusalKind::kHostOwn, "the host's metadata and its own table go together");
      return;
    }
    const auto found = host_places_.find(target);
    if (found != host_places_.end()) {
      const gguf::TensorLayout& there = host_[found->second];
      if (!same_shape(there.dimensions, tensor.dimensions)) {
        refuse(target, RefusalKind::kShape,
               fmt::format("{} in the host, {} in the donor", shape_text(there.dimensions),
                           shape_text(tensor.dimensions)));
        return;
      }
      graft(donor, found->second, target, name.block);
    } else if (const auto weight = weight_of_scale(target);
               weight && host_places_.contains(*weight)) {
      graft(donor, std::nullopt, target, name.block);  // its weight is taken, or refused by shape
    } else if (tensor.name == "output.weight" && host_places_.contains("token_embd.weight")) {
      plan_.adds_output = true;
      graft(donor, std::nullopt, target, name.block);
    } else {
      refuse(target, RefusalKind::kMissingInHost,
             target == tensor.name ? std::string("only the donor has it")
                                   : fmt::format("only the donor has it, as {}", tensor.name));
    }
  }

  void graft(std::size_t donor, std::optional<std::size_t> host, const std::string& name,
             std::int32_t block) {
    plan_.grafts.push_back({donor, host, name});
    if (block >= 0) {
      blocks_.emplace(block, host_block_.at(block));
    }
  }

  /// A tensor of the host that the request names and the donor does not have.
  void look_for_donor(std::size_t host) {
    const gguf::TensorLayout& tensor = host_[host];
    const OrganName name = classify(tensor.name);
    const auto block = donor_block_.find(name.block);
    if (!is_selected(name) || block == donor_block_.end() || is_rope_table(tensor.name)) {
      return;
    }
    const std::string source =
        block->first == block->second ? tensor.name : with_block(tensor.name, block->second);
    if (donor_places_.contains(source)) {
      return;
    }
    const auto weight = weight_of_scale(source);
    if (weight && donor_places_.contains(*weight) &&
        host_places_.contains(*weight_of_scale(tensor.name))) {
      plan_.dropped.push_back(host);
      return;
    }
    const bool tied = tensor.name == "output.weight" && donor_places_.contains("token_embd.weight");
    refuse(tensor.name, RefusalKind::kMissingInDonor,
           tied ? std::string("the donor's output head is its token_embd.weight")
                : (source == tensor.name
                       ? std::string("only the host has it")
                       : fmt::format("only the host has it: the donor has no {}", source)));
  }

  void sort() {
    const auto place = [this](const std::string& name) {
      const auto found = host_places_.find(name);
      return found == host_places_.end() ? host_.size() : found->second;
    };
    std::stable_sort(plan_.grafts.begin(), plan_.grafts.end(), [&](const auto& a, const auto& b) {
      return a.host.value_or(host_.size()) < b.host.value_or(host_.size());
    });
    std::stable_sort(
        plan_.refusals.begin(), plan_.refusals.end(),
        [&](const auto& a, const auto& b) { return place(a.tensor) < place(b.tensor); });
    plan_.blocks.assign(blocks_.begin(), blocks_.end());
  }

  std::span<const gguf::TensorLayout> host_, donor_;
  const GraftRequest& request_;
  Places host_places_, donor_places_;
  std::map<std::int32_t, std::int32_t> host_block_;   // of a donor's block
  std::map<std::int32_t, std::int32_t> donor_block_;  // of a host's block
  std::map<std::int32_t, std::int32_t> blocks_;
  GraftPlan plan_;
};

}  // namespace

std::string_view refusal_name(RefusalKind kind) {
  constexpr std::string_view kNames[] = {"shape", "missing-in-host", "missing-in-donor",
                                         "host-own"};
  return kNames[static_cast<std::size_t>(kind)];
}

GraftRequest parse_graft_request(const std::string& types, const std::string& layers,
                                 const std::string& map, bool allow_missing) {
  return {.classes = parse_classes(types),
          .layers = model::parse_selection(layers, "", "", "").layers,
          .map = model::parse_layer_map(map),
          .allow_missing = allow_missing};
}

GraftPlan plan_graft(std::span<const gguf::TensorLayout> host,
                     std::span<const gguf::TensorLayout> donor, const GraftRequest& request) {
  return Planner(host, donor, request).run();
}

}  // namespace vindex::organ
