// Owns a dump as one file: when it is one, and how arrays of a folder become it.
#pragma once

#include "trace_dump.hpp"

#include <span>
#include <string>

namespace vindex::commands {

/// Whether a dump called `output` is one file: a name in .safetensors that no folder has.
bool is_one_file(const std::string& output);

/// Copies the .safetensors files of `plan` in `folder`, and the rule of routers that lies there,
/// into one, `to`, which is durable under its
/// name at the return; what lay there is replaced. A few MiB of memory. Errors: FormatError (65)
/// E-TRACE-STATE for a file of another size than planned; those of reading and of AtomicFile.
void join_dump(std::span<const DumpArrayPlan> plan, const std::string& folder,
               const std::string& to);

}  // namespace vindex::commands
