// Owns what `show` says of an adapter: of what rank its products are.
#pragma once

#include "spectra_view.hpp"

#include <cstddef>
#include <string>

namespace vindex::report {

/// Of what rank an adapter is: numerical, effective and stable rank of the products, each beside
/// what noise of those factors gives, by role and, where they are few, by layer.
std::string ranks_text(const std::string& path, const ShowQuery& query, std::size_t width);

}  // namespace vindex::report
