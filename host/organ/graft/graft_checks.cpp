// Owns the checks, one function for each question.
#include "graft_checks.hpp"

#include "graft_rules.hpp"

#include "core/digest.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vindex::organ {
namespace {

constexpr const char* kAbsent = "absent";

const KeyFact* find(const ModelFacts& model, const std::string& name) {
  const auto found = model.keys.find(name);
  return found == model.keys.end() ? nullptr : &found->second;
}

bool same_value(const KeyFact* a, const KeyFact* b) {
  if (a == nullptr || b == nullptr) {
    return a == b;
  }
  if (a->number && b->number) {
    return *a->number == *b->number;
  }
  return a->digest == b->digest || (!a->integers.empty() && a->integers == b->integers);
}

std::string fact_text(const KeyFact* fact) { return fact == nullptr ? kAbsent : fact->text; }

/// What a loader takes where the key is absent (llama.cpp src/llama-model.cpp).
const KeyFact* or_default(std::string_view suffix, const KeyFact* fact) {
  static const KeyFact kBase = {.text = "10000 (default)", .digest = "", .number = 10000.0};
  return fact == nullptr && suffix == "rope.freq_base" ? &kBase : fact;
}

/// Of an array with one number for each block that of `block`, else the number of all.
std::optional<double> fact_number(const KeyFact& fact, std::int32_t block) {
  if (fact.number) {
    return fact.number;
  }
  const auto at = static_cast<std::size_t>(block);
  return at < fact.integers.size() ? std::optional(static_cast<double>(fact.integers[at]))
                                   : std::nullopt;
}

/// The first of the grafted blocks whose numbers differ; nothing where they all agree. For keys of
/// which a side is an array by blocks.
struct BlockDifference {
  std::int32_t donor = 0, host = 0;
  double donor_number = 0.0, host_number = 0.0;
};
enum class ByBlocks : std::uint8_t { kNo, kEqual, kDifferent };
ByBlocks compare_by_blocks(const KeyFact* host, const KeyFact* donor, const GraftPlan& plan,
                           BlockDifference& found) {
  if (host == nullptr || donor == nullptr || (host->integers.empty() && donor->integers.empty())) {
    return ByBlocks::kNo;
  }
  for (const auto& [of_donor, of_host] : plan.blocks) {
    const auto a = fact_number(*host, of_host);
    const auto b = fact_number(*donor, of_donor);
    if (!a || !b) {
      return ByBlocks::kNo;
    }
    if (*a != *b) {
      found = {of_donor, of_host, *b, *a};
      return ByBlocks::kDifferent;
    }
  }
  return ByBlocks::kEqual;
}

class Checker {
 public:
  Checker(const ModelFacts& host, const ModelFacts& donor, const GraftPlan& plan)
      : host_(host), donor_(donor), plan_(plan) {
    for (const Graft& graft : plan.grafts) {
      classes_.insert(classify(graft.name).organ_class);
    }
  }

  std::vector<GraftFinding> run() {
    architecture();
    refusals();
    architecture_keys();
    rope_tables();
    tokenizer();
    quantisation();
    licences();
    changes();
    std::stable_sort(
        findings_.begin(), findings_.end(),
        [](const GraftFinding& a, const GraftFinding& b) { return a.level < b.level; });
    return std::move(findings_);
  }

 private:
  bool takes(OrganClass which) const { return classes_.contains(which); }

  void refusals() {
    struct Kind {
      RefusalKind kind;
      const char *id, *what, *advice;
      bool can_be_forced;
    };
    constexpr Kind kKinds[] = {
        {RefusalKind::kShape, "shape", "tensors of another shape",
         "choose classes and layers that both have in the same form", false},
        {RefusalKind::kMissingInHost, "missing-in-host",
         "tensors that only the donor has, one too many for loaders",
         "--allow-missing leaves them out", false},
        {RefusalKind::kMissingInDonor, "missing-in-donor", "tensors that only the host has",
         "--allow-missing keeps the host's", false},
        {RefusalKind::kHostOwn, "host-own", "tables that are always the host's", "", true}};
    for (const Kind& kind : kKinds) {
      std::size_t count = 0;
      const Refusal* first = nullptr;
      for (const Refusal& refusal : plan_.refusals) {
        if (refusal.kind == kind.kind) {
          first = first == nullptr ? &refusal : first;
          ++count;
        }
      }
      if (first != nullptr) {
        findings_.push_back({.id = kind.id,
                             .level = first->is_fatal ? Level::kError : Level::kNote,
                             .what = fmt::format("{} {}; the first is {} ({})", count, kind.what,
                                                 excerpt(first->tensor), excerpt(first->reason)),
                             .advice = first->is_fatal ? kind.advice : "",
                             .can_be_forced = kind.can_be_forced});
      }
    }
  }

  void architecture() {
    if (host_.architecture != donor_.architecture) {
      findings_.push_back(
          {.id = "architecture",
           .level = Level::kError,
           .what = "general.architecture differs: graph, activation, the order of q and k rows and "
                   "how norms are stored are the architecture's",
           .host = host_.architecture.empty() ? kAbsent : printable(host_.architecture),
           .donor = donor_.architecture.empty() ? kAbsent : printable(donor_.architecture),
           .advice = "choose a donor of the host's architecture"});
    }
  }

  /// Suffixes of both models' keys behind their architecture's name.
  std::set<std::string> suffixes() const {
    std::set<std::string> all;
    for (const ModelFacts* model : {&host_, &donor_}) {
      const std::string prefix = model->architecture + ".";
      for (const auto& [name, fact] : model->keys) {
        if (!model->architecture.empty() && name.starts_with(prefix)) {
          all.insert(name.substr(prefix.size()));
        }
      }
    }
    return all;
  }

  void architecture_keys() {
    std::vector<std::string> others;
    for (const std::string& suffix : suffixes()) {
      const KeyFact* a = or_default(suffix, find(host_, host_.architecture + "." + suffix));
      const KeyFact* b = or_default(suffix, find(donor_, donor_.architecture + "." + suffix));
      const KeyRule* rule = key_rule(suffix);
      BlockDifference block;
      const ByBlocks by_blocks =
          rule == nullptr ? ByBlocks::kNo : compare_by_blocks(a, b, plan_, block);
      if (by_blocks == ByBlocks::kEqual || (by_blocks == ByBlocks::kNo && same_value(a, b))) {
        continue;
      }
      if (rule == nullptr) {
        others.push_back(excerpt(suffix));
        continue;
      }
      GraftFinding finding = {.id = std::string(rule->id),
                              .level = takes(OrganClass::kSkeleton) ? rule->skeleton : rule->others,
                              .what = excerpt(suffix) + " differs",
                              .host = fact_text(a),
                              .donor = fact_text(b),
                              .advice = std::string(rule->advice)};
      if (by_blocks == ByBlocks::kDifferent) {
        finding.what +=
            fmt::format(" (block {} of the donor, {} of the host)", block.donor, block.host);
        finding.host = fmt::format("{}", block.host_number);
        finding.donor = fmt::format("{}", block.donor_number);
      }
      if (finding.level == Level::kNote) {
        finding.advice.clear();  // nothing of it is grafted
      }
      findings_.push_back(std::move(finding));
    }
    if (!others.empty()) {
      findings_.push_back(
          {.id = "other-keys",
           .level = Level::kNote,
           .what = fmt::format("the host's values hold for {} other keys that differ: {}",
                               others.size(), fmt::join(others, ", "))});
    }
  }

  void rope_tables() {
    std::set<std::string> names;
    for (const ModelFacts* model : {&host_, &donor_}) {
      for (const auto& [name, digest] : model->rope_tables) {
        names.insert(name);
      }
    }
    for (const std::string& name : names) {
      const auto a = host_.rope_tables.find(name);
      const auto b = donor_.rope_tables.find(name);
      const auto text = [](auto found, const auto& table) {
        return found == table.end() ? std::string(kAbsent) : found->second.substr(0, 12);
      };
      const std::string in_host = text(a, host_.rope_tables);
      const std::string in_donor = text(b, donor_.rope_tables);
      if (in_host != in_donor) {
        const bool matters = takes(OrganClass::kSkeleton);
        findings_.push_back({.id = "rope",
                             .level = matters ? Level::kError : Level::kNote,
                             .what = "tensor " + excerpt(name) + " differs",
                             .host = in_host,
                             .donor = in_donor,
                             .advice = std::string(matters ? key_rule("rope.")->advice : "")});
      }
    }
  }

  static bool is_of_tokenizer(std::string_view name) {
    constexpr std::string_view kPrefix = "tokenizer.ggml.";
    if (!name.starts_with(kPrefix)) {
      return false;
    }
    name.remove_prefix(kPrefix.size());
    return name == "model" || name == "pre" || name == "tokens" || name == "merges" ||
           name.ends_with("_token_id");
  }

  static std::string tokenizer_digest(const ModelFacts& model) {
    Sha256 sum;
    bool any = false;
    for (const auto& [name, fact] : model.keys) {
      if (is_of_tokenizer(name)) {
        sum.update(name + "=" + fact.digest + "\n");
        any = true;
      }
    }
    return any ? hex(sum.finish()).substr(0, 12) : kAbsent;
  }

  void tokenizer() {
    std::set<std::string> different;
    for (const ModelFacts* model : {&host_, &donor_}) {
      for (const auto& [name, fact] : model->keys) {
        if (is_of_tokenizer(name) && !same_value(find(host_, name), find(donor_, name))) {
          different.insert(excerpt(name));
        }
      }
    }
    if (different.empty()) {
      return;
    }
    const bool matters = takes(OrganClass::kEmbed);
    findings_.push_back(
        {.id = "tokenizer",
         .level = matters ? Level::kError : Level::kWarning,
         .what = fmt::format("the tokenizers differ in {}", fmt::join(different, ", ")),
         .host = tokenizer_digest(host_),
         .donor = tokenizer_digest(donor_),
         .advice = matters ? "a row of an embedding belongs to one token: leave embed out"
                           : "what the donor learned of its tokens may not hold for the host's"});
  }

  void quantisation() {
    constexpr const char* kKey = "general.quantization_version";
    const KeyFact* a = find(host_, kKey);
    const KeyFact* b = find(donor_, kKey);
    if (a != nullptr && b != nullptr && !same_value(a, b)) {
      findings_.push_back({.id = "quantisation",
                           .level = Level::kError,
                           .what = std::string(kKey) + " differs: one file has one",
                           .host = a->text,
                           .donor = b->text,
                           .advice = "quantise one of the models anew"});
    }
  }

  void licences() {
    std::set<std::string> names;
    for (const ModelFacts* model : {&host_, &donor_}) {
      for (const auto& [name, fact] : model->keys) {
        if (name.starts_with("general.license")) {
          names.insert(name);
        }
      }
    }
    for (const std::string& name : names) {
      const KeyFact* a = find(host_, name);
      const KeyFact* b = find(donor_, name);
      if (!same_value(a, b)) {
        findings_.push_back({.id = "licence",
                             .level = Level::kWarning,
                             .what = excerpt(name) + " differs",
                             .host = fact_text(a),
                             .donor = fact_text(b),
                             .advice = "the result descends from both: see that both allow it"});
      }
    }
  }

  /// What the result has that the host had not.
  void changes() {
    if (plan_.adds_output) {
      findings_.push_back({.id = "tied-embeddings",
                           .level = Level::kNote,
                           .what = "output.weight is added: the host used its token_embd.weight as "
                                   "output head, the donor has one of its own"});
    }
    std::size_t scales = 0;
    for (const Graft& graft : plan_.grafts) {
      scales += !graft.host && graft.name != "output.weight" ? 1 : 0;
    }
    if (scales + plan_.dropped.size() > 0) {
      findings_.push_back(
          {.id = "scales",
           .level = Level::kNote,
           .what = fmt::format("scales go with their weights: {} added, {} of the host dropped",
                               scales, plan_.dropped.size())});
    }
  }

  const ModelFacts& host_;
  const ModelFacts& donor_;
  const GraftPlan& plan_;
  std::set<OrganClass> classes_;
  std::vector<GraftFinding> findings_;
};

}  // namespace

std::vector<GraftFinding> check_graft(const ModelFacts& host, const ModelFacts& donor,
                                      const GraftPlan& plan) {
  return Checker(host, donor, plan).run();
}

}  // namespace vindex::organ
