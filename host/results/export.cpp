#include <vindex/core/error.hpp>
#include <vindex/results/export.hpp>

namespace vindex::results {

void export_file(const std::string& /*path*/, const std::string& format,
                 const std::string& /*target*/) {
  throw UsageError("E-EXPORT-FORMAT", "export format '" + printable(format) + "' is unknown");
}

}  // namespace vindex::results
