// Owns the flags that mean the same in every verb: which part of a model is meant, what may be
// replaced, what is overridden; what their former spellings say; and that no flag has an empty
// value.
#pragma once

#include "apps/process/session.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace vindex::apps {

/// Makes `app` (a verb) choose `run` when the user names it.
void on_choice(CLI::App& app, Session& session, std::function<Ending()> run);

/// --layers or --layer, --blocks or --block, --roles or --role: one spelling is as good as the
/// other in every verb.
CLI::Option* add_layers(CLI::App& verb, std::string& target,
                        const std::string& help = "Layers, for example 0,1,15-20");
CLI::Option* add_blocks(CLI::App& verb, std::string& target,
                        const std::string& help = "Blocks, for example routed_expert,router");
CLI::Option* add_roles(CLI::App& verb, std::string& target,
                       const std::string& help = "Roles, for example down_proj,gate_up_proj");

/// --force: what is at the place of an output is replaced. Says so where the former --replace
/// stands.
void add_force(CLI::App& verb, bool& target,
               const std::string& help = "Replace files that are there");

/// --accept-findings: go on in spite of what the verb itself found.
void add_accept_findings(CLI::App& verb, bool& target, const std::string& help);

/// A former spelling, not shown: UsageError E-USAGE "`former` is `now` now".
void add_former_flag(CLI::App& verb, const std::string& former, const std::string& now);

/// The option --reshape into `choice` ("none", "out").
void add_reshape(CLI::App& verb, std::string& choice);

}  // namespace vindex::apps
