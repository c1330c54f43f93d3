// Owns gathering facts by layer, and comparing them with claims.
#include "records.hpp"

#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace vindex::model {

namespace {

struct LayerFacts {
  std::int64_t experts = 0;  ///< most different experts under one role
  std::int64_t router_rows = 0;
  bool unnumbered = false;  ///< experts that no name or slice tells apart (dbrx)
};

/// What the tensors show. Widths are of the first tensor that has one, 0 where none has.
struct Facts {
  std::map<std::int32_t, LayerFacts> layers;
  std::int64_t prediction_layers = 0;  ///< multi-token prediction, numbered after the others
  std::int64_t experts = 0;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t dense_width = 0;
  std::int64_t expert_width = 0;
  std::int64_t shared_width = 0;
  bool shared = false;
};

void set_once(std::int64_t& to, std::int64_t value) {
  if (to == 0) {
    to = value;
  }
}

Facts gather(const ModelIndex& index) {
  Facts facts;
  for (const TensorRecord& tensor : index.tensors) {
    if (tensor.layer < 0) {
      continue;
    }
    facts.layers.try_emplace(tensor.layer);
    if (tensor.role == "eh_proj") {
      ++facts.prediction_layers;
    }
  }
  const MatrixRecord* previous = nullptr;
  std::int64_t run = 0;  // experts of one layer and role stand together, ascending
  for (const MatrixRecord& matrix : index.matrices) {
    const bool down = matrix.role == "down_proj";
    switch (matrix.block) {
      case Block::kEmbedding:
        if (matrix.layer < 0 && matrix.role == "embed_tokens") {
          set_once(facts.hidden, matrix.cols);
          set_once(facts.vocabulary, matrix.rows);
        }
        break;
      case Block::kRouter:
        if (matrix.role == "router") {
          facts.layers[matrix.layer].router_rows = matrix.rows;
        }
        break;
      case Block::kDenseMlp:
        if (down) {
          set_once(facts.dense_width, matrix.cols);
        }
        break;
      case Block::kRoutedExpert: {
        const bool same_run = previous != nullptr && previous->block == matrix.block &&
                              previous->layer == matrix.layer && previous->role == matrix.role;
        if (matrix.expert < 0) {
          facts.layers[matrix.layer].unnumbered = true;
          break;
        }
        if (!same_run) {
          run = 0;
        }
        run += same_run && previous->expert == matrix.expert ? 0 : 1;
        std::int64_t& experts = facts.layers[matrix.layer].experts;
        experts = std::max(experts, run);
        facts.experts = std::max(facts.experts, experts);
        if (down) {
          set_once(facts.expert_width, matrix.cols);
        }
        break;
      }
      case Block::kSharedExpert:
        facts.shared = true;
        if (down) {
          set_once(facts.shared_width, matrix.cols);
        }
        break;
      default:
        break;
    }
    previous = &matrix;
  }
  for (auto& [layer, own] : facts.layers) {
    if (own.unnumbered && own.experts == 0) {
      own.experts = own.router_rows;
      facts.experts = std::max(facts.experts, own.experts);
    }
  }
  return facts;
}

/// The experts of one layer under one role.
struct ExpertRun {
  const MatrixRecord* first = nullptr;
  const MatrixRecord* last = nullptr;
  std::int64_t experts = 0;
};

/// Of every layer whose experts differ in number between roles: the first run and one that differs.
std::vector<std::pair<ExpertRun, ExpertRun>> uneven_experts(const ModelIndex& index) {
  std::vector<std::pair<ExpertRun, ExpertRun>> uneven;
  ExpertRun of_layer;
  ExpertRun run;
  const auto close_run = [&] {
    if (run.first == nullptr) {
      return;
    }
    if (of_layer.first == nullptr || of_layer.first->layer != run.first->layer) {
      of_layer = run;
    } else if (run.experts != of_layer.experts &&
               (uneven.empty() || uneven.back().first.first != of_layer.first)) {
      uneven.emplace_back(of_layer, run);
    }
  };
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.block != Block::kRoutedExpert || matrix.expert < 0) {
      continue;
    }
    if (run.first == nullptr || run.first->layer != matrix.layer ||
        run.first->role != matrix.role) {
      close_run();
      run = {&matrix, &matrix, 1};
    } else if (run.last->expert != matrix.expert) {
      ++run.experts;
      run.last = &matrix;
    }
  }
  close_run();
  return uneven;
}

class Comparison {
 public:
  Comparison(Claims& claims, ModelIndex& index)
      : claims_(claims), index_(index), facts_(gather(index)) {}

  void run() {
    layers();
    experts();
    shared_experts();
    dense_first_layers();
    widths();
  }

 private:
  void contradict(const Claim& claim, std::int64_t shown, std::string_view what) {
    index_.warnings.push_back(
        {"W-KEY-CONTRADICTS", fmt::format("{} says {}, the tensors show {} {}",
                                          printable(claim.key), claim.value, shown, what)});
  }
  static bool equals(const Claim& claim, std::int64_t shown) {
    return shown >= 0 && claim.value == static_cast<std::uint64_t>(shown);
  }
  /// `shown` after comparing it with `claim`.
  std::int64_t checked(const std::optional<Claim>& claim, std::int64_t shown,
                       std::string_view what) {
    if (claim && !equals(*claim, shown)) {
      contradict(*claim, shown, what);
    }
    return shown;
  }

  void layers() {
    const auto all = static_cast<std::int64_t>(facts_.layers.size());
    const auto claim =
        claims_.number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, {"block_count"});
    if (all == 0) {
      if (claim && claim->value != 0) {
        contradict(*claim, 0, "layers");
      }
      return;
    }
    const std::int64_t own = all - facts_.prediction_layers;
    // GGUF's block_count includes prediction layers, num_hidden_layers does not.
    if (claim && equals(*claim, all)) {
      index_.shape.layers = all;
    } else {
      index_.shape.layers = checked(claim, own, "layers");
    }
  }

  void experts() {
    const auto claim = claims_.number(
        {"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "n_experts"},
        {"expert_count"});
    if (claim && !equals(*claim, facts_.experts)) {
      contradict(*claim, facts_.experts, "routed experts");
    }
    if (facts_.experts == 0) {
      return;
    }
    index_.shape.experts = facts_.experts;
    const auto used = claims_.number({"num_experts_per_tok", "num_experts_per_token", "moe_top_k",
                                      "moe_topk", "top_k_experts", "experts_per_token"},
                                     {"expert_used_count"});
    if (used) {
      if (used->value > static_cast<std::uint64_t>(facts_.experts)) {
        contradict(*used, facts_.experts, "routed experts in all");
      } else {
        index_.shape.experts_per_token = static_cast<std::int64_t>(used->value);
      }
    }
    if (const auto uneven = uneven_experts(index_); !uneven.empty()) {
      const auto& [one, other] = uneven.front();
      index_.warnings.push_back(
          {"W-EXPERT-COUNT",
           fmt::format("layer {}: {} experts have {}, {} have {}{}", one.first->layer, one.experts,
                       printable(one.first->role), other.experts, printable(other.first->role),
                       uneven.size() == 1
                           ? std::string()
                           : fmt::format("; {} more such layers", uneven.size() - 1))});
    }
    for (const auto& [layer, facts] : facts_.layers) {
      if (facts.experts > 0 && facts.router_rows > 0 && facts.experts != facts.router_rows) {
        index_.warnings.push_back(
            {"W-ROUTER-ROWS", fmt::format("layer {}: the router has {} rows, the experts are {}",
                                          layer, facts.router_rows, facts.experts)});
        break;
      }
    }
  }

  void shared_experts() {
    const auto claim =
        claims_.number({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"},
                       {"expert_shared_count"});
    if (!facts_.shared) {
      if (claim && claim->value != 0) {
        contradict(*claim, 0, "shared experts");
      }
      if (facts_.experts > 0) {
        index_.shape.shared_experts = 0;
      }
      return;
    }
    // Several shared experts are stored as one of their summed width.
    const bool whole = facts_.expert_width > 0 && facts_.shared_width % facts_.expert_width == 0;
    if (claim && whole) {
      index_.shape.shared_experts =
          checked(claim, facts_.shared_width / facts_.expert_width, "shared experts by width");
    } else {
      index_.shape.shared_experts = 1;
    }
  }

  void dense_first_layers() {
    const auto claim = claims_.number({"first_k_dense_replace"}, {"leading_dense_block_count"});
    if (facts_.experts == 0 || !facts_.layers.contains(0)) {
      return;
    }
    std::int64_t count = 0;
    for (const auto& [layer, facts] : facts_.layers) {
      if (layer != count || facts.experts > 0) {
        break;
      }
      ++count;
    }
    index_.shape.dense_first_layers =
        checked(claim, count, "dense layers before the first experts");
  }

  void widths() {
    if (facts_.hidden > 0) {
      checked(claims_.number({"hidden_size", "n_embd", "d_model"}, {"embedding_length"}),
              facts_.hidden, "columns of the embedding");
      const auto claim = claims_.number({"vocab_size"}, {"vocab_size"});
      // Embeddings are often padded; fewer rows than tokens are a contradiction.
      if (claim && claim->value > static_cast<std::uint64_t>(facts_.vocabulary)) {
        contradict(*claim, facts_.vocabulary, "rows of the embedding");
      }
    }
    if (facts_.dense_width > 0) {
      checked(claims_.number({"intermediate_size_mlp", "intermediate_size", "n_inner"},
                             {"feed_forward_length"}),
              facts_.dense_width, "columns of the dense down_proj");
    }
    if (facts_.expert_width > 0) {
      checked(claims_.number({"moe_intermediate_size"}, {"expert_feed_forward_length"}),
              facts_.expert_width, "columns of the experts' down_proj");
    }
  }

  Claims& claims_;
  ModelIndex& index_;
  Facts facts_;
};

/// The schemes of the matrices, the one with most bytes first: "fp8 128x128",
/// "compressed-tensors INT4 g32", "Q4_K, Q6_K"; "none" where every matrix is of plain floats.
std::string quantisation_text(const ModelIndex& index) {
  std::map<std::string, std::uint64_t> bytes_of;
  const decode::Encoding* previous = nullptr;
  std::uint64_t* sum = nullptr;  // of `previous`: neighbours are mostly alike
  for (const MatrixRecord& matrix : index.matrices) {
    const decode::Encoding& encoding = matrix.encoding;
    if (previous != nullptr && encoding.label == previous->label &&
        encoding.scheme == previous->scheme && encoding.type == previous->type) {
      *sum += matrix.codes.bytes;
      continue;
    }
    if (encoding.scheme == decode::Scheme::kPlain && is_full_float(encoding.type)) {
      continue;
    }
    std::string text = encoding.label;
    std::replace(text.begin(), text.end(), '/', ' ');
    if (encoding.scheme == decode::Scheme::kFp8Block) {
      text = "fp8" + text.substr(std::min(text.find(' '), text.size()));
    } else if (encoding.scheme == decode::Scheme::kPackedInt ||
               encoding.scheme == decode::Scheme::kPackedIntPadded) {
      text.insert(0, "compressed-tensors ");
    }
    previous = &encoding;
    sum = &bytes_of[text];
    *sum += matrix.codes.bytes;
  }
  if (bytes_of.empty()) {
    return "none";
  }
  std::vector<std::pair<std::string, std::uint64_t>> order(bytes_of.begin(), bytes_of.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [text, bytes] : order) {
    out += (out.empty() ? "" : ", ") + text;
  }
  return out;
}

}  // namespace

void derive_shape(const input::ModelFiles& files, Claims& claims, const QuantClaims& quant,
                  ModelIndex& index) {
  Comparison(claims, index).run();
  index.shape.quantisation = quantisation_text(index);
  if (quant.present && index.shape.quantisation == "none" &&
      files.format == input::ContainerFormat::kSafetensors) {
    index.warnings.push_back(
        {"W-QUANTISATION",
         fmt::format("quantization_config names {}, no matrix is quantised",
                     quant.method.empty() ? "a scheme" : printable(quant.method))});
  }
}

}  // namespace vindex::model
