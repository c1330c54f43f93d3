// Owns the groups of the help, each with the functions that declare its commands.
#include "command_table.hpp"

#include <cstddef>
#include <vector>

namespace vindex::apps {

/// Declares a command of a file of this folder.
using AddCommand = void(Command& app, Session& session);

AddCommand add_inspect;
AddCommand add_decode;
AddCommand add_plan;
AddCommand add_measure;
AddCommand add_cka;
AddCommand add_compare;
AddCommand add_edit;
AddCommand add_lookup;
AddCommand add_trace;
AddCommand add_experts;
AddCommand add_activations;
AddCommand add_routing;
AddCommand add_show;
AddCommand add_report;
AddCommand add_merge;
AddCommand add_validate;
AddCommand add_export;
AddCommand add_commands_command;
AddCommand add_status;
AddCommand add_organ;
AddCommand add_synth;
AddCommand add_bench;

namespace {

/// The commands of one group of the help, in its order.
struct CommandGroup {
  const char* name;
  std::vector<AddCommand*> add;
};

}  // namespace

void add_commands(Command& app, Session& session) {
  const std::vector<CommandGroup> groups = {
      {"Measure",
       {add_inspect, add_plan, add_measure, add_show, add_report, add_status, add_merge,
        add_validate, add_export}},
      {"Analyse",
       {add_compare, add_experts, add_cka, add_activations, add_routing, add_lookup, add_trace}},
      {"Edit", {add_edit, add_organ}},
      {"Tools", {add_decode, add_synth, add_bench}},
      {"", {add_commands_command}}};
  for (const CommandGroup& group : groups) {
    const std::size_t earlier = app.get_subcommands({}).size();
    for (const auto add : group.add) {
      add(app, session);
    }
    const std::vector<CLI::App*> commands = app.get_subcommands({});
    for (std::size_t i = earlier; i < commands.size(); ++i) {
      commands[i]->group(group.name);
    }
  }
}

}  // namespace vindex::apps
