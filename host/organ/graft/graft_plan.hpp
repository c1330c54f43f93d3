// Owns which tensors of a donor take the place of which of a host.
#pragma once

#include "gguf/writing/writer.hpp"
#include "model/pairing/pairing.hpp"
#include "organ/source/organ_class.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
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

}  // namespace vindex::organ
