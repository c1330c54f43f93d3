// Owns LoRA adapters read as patches.
#pragma once

#include <vindex/edit/patch.hpp>

namespace vindex::edit {

/// As read_patch() says of adapters.
Patch read_adapter(const std::string& path, bool force, const PatchBase* base);

}  // namespace vindex::edit
