// Owns what is asked of taking a model apart, and what it reports.
#pragma once

#include "organ/manifest/manifest_write.hpp"
#include <vindex/error.hpp>

#include <cstdint>
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

}  // namespace vindex::organ
