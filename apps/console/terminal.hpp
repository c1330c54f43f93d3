// Owns what is printed and said: results on standard output, a line on standard error, and what the
// program knows of the terminal it talks to.
#pragma once

#include "apps/process/session.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace vindex::apps {

/// Writes to standard output. A reader that has gone (`| head`) is no error; a full disk is a
/// SystemError (74).
void print_result(const std::string& text);

/// One line on standard error, unless --quiet.
void say(const Session& session, const std::string& line);
void say_warnings(const Session& session, const std::vector<Warning>& warnings);

/// "vindex 0.1.0 (commit)": what a document says of the program that wrote it.
std::string program_name();

/// Columns of the terminal behind `descriptor`, asked anew at every call, so that a resized window
/// is followed. Where it is no terminal or does not say: those that COLUMNS names, else 80.
std::size_t text_width(int descriptor);

/// True where one line of `descriptor` can be written again and again: a terminal that knows how to
/// erase.
bool is_live(int descriptor);

}  // namespace vindex::apps
