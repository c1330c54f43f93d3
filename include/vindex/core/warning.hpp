// Owns the warning record: something accepted that a user should know of, with a stable id for
// scripts.
#pragma once

#include <string>

namespace vindex {

struct Warning {
  std::string id;    ///< stable, for example "W-INDEX-TOTAL-SIZE"
  std::string text;  ///< one line; names from files already printable()
};

}  // namespace vindex
