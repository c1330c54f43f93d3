// Owns what the program says of itself.
#pragma once

#include <string>

namespace vindex::engine {

/// "0.1.0".
std::string program_version();
/// Commit of the build, "unknown" outside a checkout.
std::string program_commit();
/// "g++ 12.2.0".
std::string compiler_text();

/// Raised whenever numbers of an unchanged model may change; part of the resume fingerprint.
inline constexpr int kNumericVersion = 6;

}  // namespace vindex::engine
