// Owns reading such a file, and which of its lines the command line overrides.
#include "configuration.hpp"

#include "core/secrets.hpp"
#include "engine/opening.hpp"
#include <vindex/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace vindex::apps {

namespace {
std::string configuration_text(const std::string& path) {
  constexpr std::size_t kLargest = 1U << 20U;
  std::string text = engine::beginning_of_file(path, kLargest + 1);
  if (text.size() > kLargest) {
    throw UsageError("E-CONFIG", fmt::format("{}: more than {} bytes: no configuration file",
                                             printable(path), kLargest));
  }
  return text;
}
}  // namespace

std::vector<std::string> with_configuration(std::vector<std::string> arguments) {
  const std::string flag = "--config";
  std::string path;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == flag && i + 1 < arguments.size()) {
      path = arguments[i + 1];
    } else if (arguments[i].rfind(flag + "=", 0) == 0) {
      path = arguments[i].substr(flag.size() + 1);
    }
  }
  if (path.empty() || arguments.size() < 2) {
    return arguments;
  }
  std::istringstream file(configuration_text(path));
  // "layers" of a file is given by --layer too, which is the same flag.
  const auto other_spelling = [](const std::string& name) {
    const auto is_one = [&](const char* stem) {
      return name == stem || name == stem + std::string("s");
    };
    const bool has_two = is_one("layer") || is_one("block") || is_one("role");
    return !has_two ? name : (name.back() == 's' ? name.substr(0, name.size() - 1) : name + "s");
  };
  const auto is_spelt = [&](const std::string& name) {
    return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
      return argument == "--" + name || argument.rfind("--" + name + "=", 0) == 0 ||
             (name == "output" && argument.rfind("-o", 0) == 0);
    });
  };
  const auto is_given = [&](const std::string& name) {
    return is_spelt(name) || is_spelt(other_spelling(name));
  };
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigBase().from_config(file);
  } catch (const CLI::Error& error) {
    throw UsageError("E-CONFIG", fmt::format("{}: {}", printable(path), error.what()));
  }
  std::vector<std::string> flags;
  for (const CLI::ConfigItem& item : items) {
    std::string value;
    for (const std::string& input : item.inputs) {
      value += (value.empty() ? "" : ",") + input;
    }
    if (item.name == "model") {
      flags.push_back(value);
    } else if (!is_given(item.name) && value != "false") {
      flags.push_back(value == "true" ? "--" + item.name
                                      : fmt::format("--{}={}", item.name, value));
    }
  }
  // Behind a nested verb, too.
  const std::ptrdiff_t behind =
      (arguments[1] == "organ" || arguments[1] == "edit") && arguments.size() > 2 ? 3 : 2;
  arguments.insert(arguments.begin() + behind, flags.begin(), flags.end());
  return arguments;
}

}  // namespace vindex::apps
