// Owns which matrices stand for many: the order in which the matrices of each (layer, block, role)
// are drawn, and the sample that the first places of it are. --sample and --order of the command
// line.
//
// Every group is drawn for itself, so that the errors of groups are independent and figures of
// several layers or roles add up in quadrature. Drawing the same experts for all roles of a layer
// would keep an expert's gate, up and down together, but errors of a layer would then agree in
// sign, and nothing that is stored relates one expert's matrices to each other.
#pragma once
#include "model/model_index.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

/// What is drawn. Names a sample for good: the draw depends on nothing else but the model's groups.
struct SampleChoice {
  std::int64_t experts = 0;  ///< of each group of routed experts; 0: all of them
  std::uint64_t seed = 0;
};

/// Reads "N" or "N:SEED" of --sample, N >= 1; the seed is 0 where none is given. Errors: UsageError
/// E-SAMPLE.
SampleChoice parse_sample(const std::string& text);

/// The places 0 .. count-1 in the order in which the group (layer, block, role) draws them without
/// replacement: Fisher and Yates' shuffle from the front, so that what is drawn first does not
/// depend on how many are taken. Step i exchanges place i with place i + u(count - i), where u(m)
/// is uniform below m: the high half of m times a 64-bit number (Lemire 2019, with his rejection).
/// These numbers are the words 0 (low) and 1 of the Philox4x32-10 blocks 0, 1, 2, ... of key
/// `seed`; the counter's upper half is the first 8 bytes (little-endian) of SHA-256("LAYER BLOCK
/// ROLE").
std::vector<std::int32_t> drawn_order(std::uint64_t seed, std::int32_t layer, Block block,
                                      std::string_view role, std::int32_t count);

/// Gives every record of /matrix/ its place in the draw of its group (MatrixRecord::draw,
/// draw_of). A group's places are those of its records in row order.
void draw_groups(ModelIndex& index, std::uint64_t seed);

/// What a sample takes of a selection.
struct SampledSelection {
  std::vector<std::int64_t> selected;  ///< indices into ModelIndex::matrices, ascending
  std::int64_t before = 0;             ///< indices selected before the draw
  std::int32_t least = 0, most = 0;    ///< matrices of the groups that it draws from; 0: none
};

/// Of `selected` what is no routed expert, what is derived, and the first `experts` of every group
/// of routed experts, of which there must be draws. `experts` 0: everything.
SampledSelection keep_sample(const ModelIndex& index, std::vector<std::int64_t> selected,
                             const SampleChoice& sample);

/// "sample: 16 of 384 experts of each layer and role (seed 0), 48 of 1152 matrices", one line.
std::string sample_text(const SampledSelection& kept, const SampleChoice& sample);

}  // namespace vindex::model
