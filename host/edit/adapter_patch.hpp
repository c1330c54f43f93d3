// Owns LoRA adapters read as patches.
#pragma once

#include <vindex/edit/patch.hpp>

namespace vindex::edit {

/// As open_patch() says of adapters.
std::unique_ptr<PatchFile> open_adapter(const std::string& path, bool force, const PatchBase* base);

}  // namespace vindex::edit
