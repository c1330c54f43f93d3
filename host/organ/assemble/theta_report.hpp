// Owns what a recipe reads of a report of thetas.
#pragma once

#include <map>
#include <string>

namespace vindex::organ {

/// Theta of every tensor of a report (organ-measure/1) that has one. Errors: FormatError E-THETA.
std::map<std::string, double> read_theta_report(const std::string& path);

}  // namespace vindex::organ
