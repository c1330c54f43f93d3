// Owns bytes written to standard output, and what it means when nobody reads them any more.
#pragma once

#include <vindex/core/error.hpp>

#include <cstddef>
#include <span>

namespace vindex {

/// Writes all of `bytes` to standard output, past the buffer of <cstdio>. Errors: SystemError
/// E-STDOUT.
void write_standard_output(std::span<const std::byte> bytes);

/// Whether `error` says that the reader of standard output has gone (`| head`): no fault of the
/// writer, which then ends quietly. A full disk is no such case.
bool is_closed_output(const Error& error);

}  // namespace vindex
