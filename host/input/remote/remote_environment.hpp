// Owns the environment variables that remote stores follow, as the program hands them over: a
// library reads no environment of its own accord.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace vindex::input {

/// The value of the variable `name`; empty where it is not set.
using Variables = std::function<std::string(const char* name)>;

/// From now on variable() asks `variables`, which must be thread-safe. Until then nothing is set:
/// no credentials, the public hosts, the usual limits. Thread-safe.
void set_remote_environment(Variables variables);

/// Thread-safe.
std::string variable(const char* name);
/// 1, ON, YES or TRUE, in letters of either size.
bool is_on(const char* name);
/// A number of seconds from 1 to 3600; `otherwise` where the variable holds none.
double seconds_of(const char* name, double otherwise);
/// `path` with the user's home (HOME) for a ~ at its beginning.
std::string without_tilde(const std::string& path);
/// The first `most` bytes of a file that a variable names, or that lies where its tools expect it;
/// empty where it cannot be read. Errors: MissingInputError `id` for a pipe, socket or device,
/// which might never answer.
std::string text_of_file(const std::string& path, std::size_t most, const char* id);
/// `text` without the white space at its ends.
std::string trimmed(std::string_view text);

}  // namespace vindex::input
