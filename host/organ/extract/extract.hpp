// Owns taking a model apart: every tensor a file of its own, a valid GGUF of one tensor, in a
// folder of its class, or by reference without a copy; and manifest.json, from which the model can
// be put together again byte for byte (docs/organs/organs.md, docs/files/organ-schemas.md).
#pragma once

#include "organ/manifest/manifest.hpp"
#include <vindex/error.hpp>

#include <array>
#include <cstdint>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

struct ExtractSettings {
  std::string model;   ///< GGUF file, set or folder; a safetensors file or folder
  std::string output;  ///< folder, new or empty
  bool by_reference = false;
  bool digests = false;  ///< by reference: read all bytes for their digests
  std::string types;     ///< parse_classes(); empty: all
  std::string layers;    ///< "0-3,7" (-1: outside of blocks); empty: all
  std::string tool;      ///< program and version, for the manifest
  std::int32_t threads = 0;
  std::stop_token stop = {};
};

struct ExtractReport {
  ClassCounts classes = {};
  std::uint64_t tensors = 0;
  std::uint64_t tensors_total = 0;  ///< of the model
  std::uint64_t bytes = 0;          ///< of tensors, as stored
  std::uint64_t cloned = 0;         ///< of these share their blocks with the source
  double seconds = 0.0;
  bool stopped = false;  ///< nothing was written
  std::vector<Warning> warnings = {};
};

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
