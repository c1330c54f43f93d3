// Owns the names in a parts folder: who works there and what has been published, so that a list
// that broke off is an error and never a shorter list.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace vindex::results {

/// The names in `folder` that are `wanted`, sorted; an absent folder has none. Errors: SystemError
/// E-PART-FOLDER.
std::vector<std::string> names_in(const std::string& folder,
                                  const std::function<bool(const std::string&)>& wanted);

}  // namespace vindex::results
