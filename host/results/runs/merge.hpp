// Owns merging what several workers or machines have measured into one results file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::results {

/// What a merge came to.
struct MergeOutcome {
  std::int64_t rows = 0;
  std::int64_t missing = 0;      ///< of them without an outcome, with `partial`
  std::int64_t same_twice = 0;   ///< rows found in two parts with the same bits
  std::int64_t passed_over = 0;  ///< rows measured twice, of which those of the record were taken
};

/// Merges part folders or files into one results file, whose rows are read and written a chunk at a
/// time. Errors as above, and naming the part:
///   MissingInputError E-PART-MISSING (66): a part that a record names, or rows that no part has,
///     with the workers that have not finished; not with `partial`, which leaves those rows
///     `skipped`
///   FormatError E-PART-DIGEST (65): damaged
///   ConfigurationError E-RESUME-FINGERPRINT (78): of another model, revision or setting
///   ConfigurationError E-PART-DOUBLED (78): another result of a row that a second part has too
MergeOutcome merge_parts(const std::vector<std::string>& parts, const std::string& path,
                         bool partial = false);

}  // namespace vindex::results
