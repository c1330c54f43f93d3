// Owns what a merge must find again of a run whose rows are cells: attributes of the root
// (/resume/attribute_name, _type and _value) and which optional columns there are
// (/resume/optional_columns).
#pragma once

#include "file_description.hpp"
#include "schema.hpp"

#include "results/hdf5/hdf5.hpp"

#include <vector>

namespace vindex::results {

void write_cell_resume(h5::File& file, const FileDescription& description);
/// None where the file has none. Errors: FormatError.
std::vector<RunAttribute> read_attributes(const h5::File& file);
/// Optional columns, attributes and scales of `file`. Errors: FormatError, also where an array
/// lacks one of its scales.
void describe_cells(const h5::File& file, const Schema& schema, FileDescription& out);

}  // namespace vindex::results
