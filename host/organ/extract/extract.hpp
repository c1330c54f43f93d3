// Owns taking a model apart: every tensor a file of its own, a valid GGUF of one tensor, in a
// folder of its class, or by reference without a copy; and manifest.json, from which the model can
// be put together again byte for byte (docs/organs/organs.md, docs/files/organ-schemas.md).
#pragma once

#include "extract_settings.hpp"

namespace vindex::organ {

/// Nothing appears before all of it is on the device, the manifest last. Errors: UsageError
/// E-ORGAN-TYPE, E-SELECTION; MissingInputError E-ORGAN-NONE where nothing is selected; FormatError
/// E-ORGAN-NAME for names that are not UTF-8, of a GGUF model also for those of more than 63 bytes;
/// OutputError E-OUTPUT-*; ConfigurationError E-ORGAN-REFERENCE for a safetensors model by
/// reference; those of open_gguf() and input::open_model().
ExtractReport extract(const ExtractSettings& settings);

/// What extract() would say of `settings.output`, an extracted folder, without its time. Errors:
/// OutputError E-OUTPUT-NOT-EMPTY where it holds other organs than `settings` ask for: of other
/// files, another selection, or another storage; those of read_manifest() and of opening the model.
ExtractReport extracted_before(const ExtractSettings& settings);

}  // namespace vindex::organ
