#include "empty_values.hpp"

#include "help_text.hpp"

#include <vindex/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace vindex::apps {

void expect_values(const CLI::App& command, const std::string& path) {
  for (const CLI::Option* option : command.get_options()) {
    const bool takes_value = option->get_items_expected_min() > 0 && !option->get_positional();
    const auto& values = option->results();
    if (takes_value && std::find(values.begin(), values.end(), "") != values.end()) {
      throw UsageError(
          "E-USAGE", fmt::format("{}: {} has an empty value; give one, or leave the flag out", path,
                                 shown_name(*option)));
    }
  }
}

}  // namespace vindex::apps
