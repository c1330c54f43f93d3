// Owns how losses, and what two models differ by, are told: a few lines for people, an object for
// programs.
#pragma once

#include "trace_logits.hpp"

#include "core/json/json_document.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace vindex::commands {

/// What the tokens cost, in a sentence of one model, or (findings.comparison) of both and what lies
/// between them; wrapped to `columns`. `vocabulary`: of the null, ln of it.
std::string loss_text(const LogitsFindings& findings, std::int64_t vocabulary, std::size_t columns);

/// Adds the members `loss` and `against` (null of one model); figures as in
/// statistics/activations/token_losses.hpp, in nats.
void add_losses(const LogitsFindings& findings, std::int64_t vocabulary, Json& out);

}  // namespace vindex::commands
