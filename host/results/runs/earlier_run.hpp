// Owns what an earlier run has left where a run is to write: whether it is the same run, and how it
// is discarded.
#pragma once

#include "results/schema/file_description.hpp"

#include <string>

namespace vindex::results {

/// Throws ConfigurationError where results file `path`, or a run description in `folder`, is of
/// another run than `description`: E-RESUME-FINGERPRINT, E-RESULTS-KIND, E-RESULTS-VERSION.
void require_same_run(const std::string& path, const std::string& folder,
                      const FileDescription& description);

/// Errors: OutputError E-OUT-CREATE, SystemError.
void make_parts_folder(const std::string& folder);

/// Removes results file `path` and what of its run is in `folder`. Errors: SystemError.
void discard_run(const std::string& path, const std::string& folder);

}  // namespace vindex::results
