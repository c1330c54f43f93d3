// Owns reading what a person named and a command wants at once: a configuration, the first bytes of
// an earlier report.
#pragma once

#include <cstddef>
#include <string>

namespace vindex::engine {

/// The first `most` bytes of the regular local file `path`, or all there are. Neither a pipe nor a
/// device is waited for. Errors: those of shard::open_file_source().
std::string beginning_of_file(const std::string& path, std::size_t most);

}  // namespace vindex::engine
