// Owns writing a model again with some of its tensors replaced: the same files under the same
// names, every other tensor copied byte for byte in bounded memory. Containers are written as their
// own libraries write them, so a source in that form comes out bit for bit; of another one is
// normalised:
//   GGUF          container of version 1 or 2 or of the other byte order -> version 3,
//                 little-endian; data in another order than the table's, gaps, padding that is not
//                 zero or absent at the end, bytes after the last tensor -> as ggml writes them.
//                 Keys keep order, types and values, also those of every split.
//   safetensors   header with white space, another order of entries than the data's, metadata that
//                 do not come first, escapes that need not be, no padding to 8 bytes -> as
//                 huggingface/safetensors writes them. Data and metadata keep their order.
// Everything else of a folder is copied as it is (configuration, tokenizer, index, ...), except
// hidden files, folders, and weights that are not the model's.
#pragma once

#include "model_edit.hpp"

#include "decode/encode/rewrite_matrix.hpp"
#include "input/model_files.hpp"

#include <stop_token>
#include <string>
#include <vector>

namespace vindex::write {

struct RewriteOptions {
  bool replace = false;       ///< a single file may take the place of one that lies there
  std::stop_token stop = {};  ///< requested: nothing appears
};

struct RewriteReport {
  std::vector<std::string> files;  ///< written, without their folder, in order
  decode::RewriteCounts counts;    ///< of NewWeights
  bool stopped = false;            ///< as was asked: nothing was written
};

/// Writes `model` with `edit` to `target`: a file where the model is one file that was given as
/// such, else a folder (new or empty). Nothing appears before all of it is written; a kill leaves
/// nothing but temporary names. Memory: some 32 MiB, headers, and for NewWeights a row.
/// Errors: OutputError E-OUTPUT-SOURCE where the target is the source or a part of it, E-OUTPUT-*
/// as OutputFolder, AtomicFile and require_free_target() say, SystemError E-OUT-SPACE (74) where
/// the disk is too small; UsageError E-EDIT for a tensor that is not there, a range outside it or
/// two that overlap; those of decode::rewrite_matrix(), gguf::Writer and SafetensorsWriter;
/// SystemError E-INPUT-CHANGED (74) where the source changed meanwhile; those of ModelStore.
RewriteReport rewrite_model(const input::ModelFiles& model, const std::string& target,
                            const ModelEdit& edit = {}, const RewriteOptions& options = {});

}  // namespace vindex::write
