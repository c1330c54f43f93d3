// Owns synthetic models with known spectra in real layouts: what the quickstart measures and what
// tests compare with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::synth {

/// Writes the model `spec` to `folder` (created; must be empty or absent) with truth.json beside
/// the weights. spec: "kimi-k2-mini[-int4|-bf16|-q8_0]" or
/// "layer:EXPERTSxROWSxCOLS:fp8|int4|bf16[:gaussian|powerlaw|spiked|rowscale|trained]". Same spec
/// and seed: same bytes. Errors: UsageError for a spec it does not know (naming those it does),
/// OutputError, SystemError 74 on a full disk (nothing half-written stays).
void make_model(const std::string& spec, std::uint64_t seed, const std::string& folder);

/// The specs it knows, for help texts.
std::vector<std::string> known_specs();

/// One matrix of such a layer in memory, before encoding: `rows` x `cols` weights, row-major, to
/// `out`. kind: "gaussian", "powerlaw", "spiked", "rowscale" or "trained" (a down_proj in the
/// middle of its ranges). Same arguments: same bits. Errors: UsageError for another kind.
void draw_matrix(const std::string& kind, std::uint64_t seed, std::int64_t rows, std::int64_t cols,
                 std::span<float> out);

}  // namespace vindex::synth
