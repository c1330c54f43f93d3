// Owns what a merge must find again of a run whose rows are cells: attributes of the root
// (/resume/attribute_name, _type and _value) and which optional columns there are
// (/resume/optional_columns).
#pragma once

#include "file_description.hpp"

#include "results/hdf5/hdf5.hpp"

#include <vector>

namespace vindex::results {

void write_cell_resume(h5::File& file, const FileDescription& description);
/// None where the file has none. Errors: FormatError.
std::vector<std::string> optional_columns_in(const h5::File& file);
std::vector<RunAttribute> read_attributes(const h5::File& file);

}  // namespace vindex::results
