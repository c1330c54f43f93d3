// Owns access to what a page is made of beside data: the files of host/report/page and the modules
// of Vega, which the build puts into the program (page/assets.cmake).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vindex::report {

enum class AssetKind : std::uint8_t {
  kTemplate,       ///< page.html
  kNotice,         ///< licences of what is built in
  kStyle,          ///< a style sheet
  kScript,         ///< runs as it is
  kModule,         ///< a CommonJS module; `name` is what others require
  kSpecification,  ///< a Vega specification, a module whose exports it is
};

/// A file as it was when the program was built.
struct PageAsset {
  AssetKind kind;
  std::string_view name;
  std::string_view text;
};

/// In the order of assets.cmake.
std::span<const PageAsset> page_assets();

}  // namespace vindex::report
