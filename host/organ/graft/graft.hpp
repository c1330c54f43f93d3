// Owns a graft from opening to writing: the host everywhere, except the tensors that a request
// names, which come from the donor with their bytes as they are.
#pragma once

#include "decode/encoding/element_type.hpp"
#include "model/pairing/pairing.hpp"
#include "organ/assemble/compose.hpp"
#include "organ/extract/organ_class.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::organ {

/// What is asked for, in blocks of the donor.
struct GraftRequest {
  std::set<OrganClass> classes = {};
  /// Closed ranges, -1: what is in no block. Empty: those that `map` names, or, without one, every
  /// block and what is in none.
  std::vector<std::pair<std::int32_t, std::int32_t>> layers = {};
  /// Donor's blocks beside the host's; one that it does not name keeps its number.
  model::LayerMap map = {};
  bool allow_missing = false;
};

/// Reads --type, --layers and --map. Errors: UsageError E-ORGAN-TYPE, E-SELECTION, E-MAP.
GraftRequest parse_graft_request(const std::string& types, const std::string& layers,
                                 const std::string& map, bool allow_missing);

/// A tensor of the donor in the host's place.
struct Graft {
  std::size_t donor = 0;            ///< index into the donor's tensors
  std::optional<std::size_t> host;  ///< index into the host's; none: the tensor is added
  std::string name;                 ///< in the result
};

enum class RefusalKind : std::uint8_t {
  kShape,           ///< another ne[]: never taken
  kMissingInHost,   ///< a loader would find a tensor too many
  kMissingInDonor,  ///< the host's would stand beside the donor's others
  kHostOwn,         ///< rope_freqs and rope_factors belong to the host's metadata
};
/// "shape", "missing-in-host", "missing-in-donor", "host-own".
std::string_view refusal_name(RefusalKind kind);

struct Refusal {
  std::string tensor;  ///< the host's name
  RefusalKind kind = RefusalKind::kShape;
  std::string reason;
  bool is_fatal = true;  ///< false: it is left as the host has it, and the graft goes on
};

struct GraftPlan {
  std::vector<Graft> grafts;         ///< in the host's order, added ones last
  std::vector<std::size_t> dropped;  ///< scales of the host whose weights were replaced
  std::vector<Refusal> refusals;     ///< in the host's order, those that only the donor has last
  std::vector<std::pair<std::int32_t, std::int32_t>> blocks;  ///< of donor and host, ascending
  bool adds_output = false;  ///< an output head for a host that used its embedding
};

/// Tensors of the donor that the request names take the place of the host's of the mapped name,
/// where shapes are equal (trailing ones do not count). A weight's own `.scale` and `.input_scale`
/// go with it: added, or dropped where the donor's weight has none. Errors: UsageError
/// E-GRAFT-LAYERS for blocks that a model does not have, E-MAP for two of the donor's that go to
/// one of the host's.
GraftPlan plan_graft(std::span<const gguf::TensorLayout> host,
                     std::span<const gguf::TensorLayout> donor, const GraftRequest& request);

/// A key's value as far as it is compared and shown.
struct KeyFact {
  std::string text;                         ///< gguf::Value::text()
  std::string digest;                       ///< gguf::Value::digest()
  std::optional<double> number = {};        ///< of numbers and bools: f32 1 and f64 1 are equal
  std::vector<std::int64_t> integers = {};  ///< of an array of at most 4096
};

/// What the checks look at.
struct ModelFacts {
  std::string architecture;
  std::map<std::string, KeyFact, std::less<>> keys = {};
  std::vector<gguf::TensorLayout> tensors = {};
  /// Digests of rope_freqs and rope_factors tensors, by name.
  std::map<std::string, std::string, std::less<>> rope_tables = {};
};

enum class Level : std::uint8_t { kError, kWarning, kNote };
/// "error", "warn", "note".
std::string_view level_name(Level level);

struct GraftFinding {
  std::string id;  ///< "architecture", "heads", "rope", "tokenizer", "ancestry", ...
  Level level = Level::kNote;
  std::string what;
  std::string host = {}, donor = {};  ///< both values, where there are such
  std::string advice = {};
  bool can_be_forced = true;  ///< errors of structure stay errors
};

/// The similarity of a tensor of the donor and the host's of the same name.
struct Likeness {
  std::string tensor;
  std::optional<double> cosine = {};  ///< nothing where weights are zero, not finite or not decoded
  std::uint64_t values = 0, of = 0;   ///< weights compared, weights there are
};

/// Cosines below these are a warning and an error. Unrelated matrices have 0 with a standard
/// deviation of 1 / sqrt(values), fine-tunes of one model more than .9.
inline constexpr double kUnlikeCosine = 0.5;
inline constexpr double kUnrelatedCosine = 0.05;

/// Findings of the keys and tables, worst first.
std::vector<GraftFinding> check_graft(const ModelFacts& host, const ModelFacts& donor,
                                      const GraftPlan& plan);

/// Findings of the weights: at most one of each level, naming the tensors of lowest similarity.
std::vector<GraftFinding> check_ancestry(std::span<const Likeness> likeness);

/// Whether what was found keeps a graft from being written.
bool is_refused(std::span<const GraftFinding> findings, bool force);

struct GraftSettings {
  std::string donor, host;                   ///< GGUF files, splits, or extracted folders
  std::string output;                        ///< a GGUF file, or a folder: means_organ_folder()
  std::string tool = {};                     ///< program and version, for a folder's manifest
  std::string types = "organ", layers, map;  ///< as the command line gives them
  std::string name;                          ///< general.name of the result; empty: made of both
  bool allow_missing = false;
  bool force = false;  ///< errors that are not of structure do not refuse
  bool dry_run = false;
  bool replace = false;           ///< files of the result's names may be replaced
  std::uint64_t shard_bytes = 0;  ///< 0: one file
  std::int32_t threads = 0;       ///< 0: by the machine
  std::stop_token stop = {};      ///< requested: nothing is left behind
};

struct GraftSide {
  std::string path, architecture, name;
  std::uint64_t tensors = 0, files = 0;
};

/// A tensor of the result that is the donor's.
struct GraftedTensor {
  std::string name, donor_name;
  OrganName organ;
  std::vector<std::uint64_t> dimensions;
  std::optional<decode::ElementType> host_type;  ///< nothing: it is added
  decode::ElementType donor_type = decode::ElementType::kF32;
  std::uint64_t bytes = 0;
};

enum class GraftOutcome : std::uint8_t { kWritten, kDryRun, kRefused, kStopped };
/// "written", "dry-run", "refused", "stopped".
std::string_view outcome_name(GraftOutcome outcome);

struct GraftReport {
  GraftSettings settings;
  GraftSide host, donor;
  GraftOutcome outcome = GraftOutcome::kRefused;
  std::vector<GraftedTensor> grafted;
  std::vector<std::string> dropped;
  std::vector<Refusal> refusals;
  std::vector<GraftFinding> findings;  ///< worst first
  std::vector<Likeness> likeness;
  ComposeReport written;  ///< empty unless kWritten
};

/// Weights of a tensor that the ancestry check decodes at most.
inline constexpr std::uint64_t kAncestryValues = std::uint64_t{1} << 20U;

/// Plans, checks and, where nothing refuses and it is no dry run, writes. Refusals are a value, and
/// leave nothing behind. Errors: those of parse_graft_request(), plan_graft(), open_gguf() and
/// compose(); UsageError E-GRAFT-NOTHING where the request names no tensor of either model.
GraftReport graft_models(const GraftSettings& settings);

/// The report for people, lines of at most `width` columns.
std::string graft_text(const GraftReport& report, std::size_t width);
/// The same as one document of schema "organ-graft/1".
std::string graft_json(const GraftReport& report);

}  // namespace vindex::organ
