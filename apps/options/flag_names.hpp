// Owns the flags that mean the same in every command: which part of a model is meant, what may be
// replaced, what is overridden.
#pragma once

#include "command.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace vindex::apps {

/// --layers or --layer, --blocks or --block, --roles or --role: one spelling is as good as the
/// other in every command.
CLI::Option* add_layers(Command& command, std::string& target,
                        const std::string& help = "Layers, for example 0,1,15-20");
CLI::Option* add_blocks(Command& command, std::string& target,
                        const std::string& help = "Blocks, for example routed_expert,router");
CLI::Option* add_roles(Command& command, std::string& target,
                       const std::string& help = "Roles, for example down_proj,gate_up_proj");

/// -o: the results file of a job, which it needs.
void add_results_file(Command& command, std::string& target);

/// --model-config, for a model that is one file without its configuration beside it.
void add_model_config(Command& command, std::string& target,
                      const std::string& help = "config.json of a single .safetensors");

/// --report: what the command found, as a JSON document (reporting/report_file.hpp).
void add_report(Command& command, std::string& target, const std::string& what = "report");

/// --force: what is at the place of an output is replaced. Says so where the former --replace
/// stands.
void add_force(Command& command, bool& target,
               const std::string& help = "Replace files that are there");

/// --accept-findings: go on in spite of what the command itself found.
void add_accept_findings(Command& command, bool& target, const std::string& help);

/// The option --reshape into `choice` ("none", "out").
void add_reshape(Command& command, std::string& choice);

}  // namespace vindex::apps
