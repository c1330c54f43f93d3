// Owns how those flags are declared.
#include "flag_names.hpp"

namespace vindex::apps {

CLI::Option* add_layers(Command& command, std::string& target, const std::string& help) {
  return command.add_value("--layers,--layer", target, help);
}

CLI::Option* add_blocks(Command& command, std::string& target, const std::string& help) {
  return command.add_value("--blocks,--block", target, help);
}

CLI::Option* add_roles(Command& command, std::string& target, const std::string& help) {
  return command.add_value("--roles,--role", target, help);
}

void add_results_file(Command& command, std::string& target) {
  command.add_output("-o,--output", target, "{inputs}.h5", "Results file (HDF5)")->required();
}

void add_model_config(Command& command, std::string& target, const std::string& help) {
  command.add_input("--model-config", target, help);
}

void add_report(Command& command, std::string& target, const std::string& what) {
  command.add_output("--report", target, "report.json",
                     "Write the " + what + " as JSON to this file");
}

void add_force(Command& command, bool& target, const std::string& help) {
  command.add_flag("--force", target, help);
  command.add_former_flag("--replace", "--force");
}

void add_accept_findings(Command& command, bool& target, const std::string& help) {
  command.add_flag("--accept-findings", target, help);
}

void add_reshape(Command& command, std::string& choice) {
  command
      .add_value("--reshape", choice,
                 "out: tensors of rank 3 and more (convolutions) as out x rest")
      ->check(CLI::IsMember({"none", "out"}))
      ->capture_default_str();
}

}  // namespace vindex::apps
