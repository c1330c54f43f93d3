// Owns what a merge is given: folders, parts and files sorted out, parts by their standing, and
// what is missing among them.
#pragma once

#include "results/rows/stored_row.hpp"
#include "results/schema/run_description.hpp"

#include <span>
#include <string>
#include <vector>

namespace vindex::results {

struct MergeInputs {
  std::vector<std::string> runs;     ///< descriptions: tensors, selection, texts
  std::vector<std::string> files;    ///< published results files
  std::vector<std::string> parts;    ///< rows; with `others` every part that was given
  std::vector<std::string> others;   ///< parts of folders with records that none of them names
  std::vector<std::string> lost;     ///< parts that a record names and that are not there
  std::vector<std::string> folders;  ///< as given
};

/// Sorts out what was given for a merge into `output`. Errors: MissingInputError E-MERGE-MISSING
/// (a path that does not exist), E-MERGE-EMPTY (a folder without parts); FormatError as
/// verify_part() and ResultsReader.
MergeInputs sort_inputs(const std::vector<std::string>& given, const std::string& output);

/// Throws MissingInputError E-PART-MISSING where a part is lost, or rows have no outcome: which,
/// and whose they were. `rows` are all rows of the merge.
void require_complete(const MergeInputs& inputs, std::span<const StoredRow* const> rows,
                      FileSchema schema);

}  // namespace vindex::results
