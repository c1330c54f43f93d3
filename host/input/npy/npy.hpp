// Owns the .npy container: the header of one array, read and validated. Byte layout:
//   "\x93NUMPY" | major u8, minor u8 | header length u16 (version 1.0) or u32 (2.0, 3.0),
//   little-endian | that many bytes of a Python dict, spaces and a line feed | data
//   dict: exactly 'descr': string, 'fortran_order': True or False, 'shape': tuple of integers
// The data fill the rest of the file exactly. Nothing is evaluated: the dict is read by a scanner
// that knows these three keys and no other Python. Source: numpy/lib/format.py, "Format Version".
#pragma once

#include "decode/encoding/element_type.hpp"
#include "input/local/file_source.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::input {

struct NpyHeader {
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::int64_t> shape;  ///< outermost first; may be empty or hold 0
  std::uint64_t offset = 0;         ///< of the data, absolute in the file
  std::uint64_t bytes = 0;          ///< of the data
  std::string header_sha256;        ///< of bytes [0, offset)
};

/// Whether the file begins as a .npy file does.
bool is_npy(ByteSource& source);

/// Reads and validates the header of a C-ordered array of little-endian floats (f2 f4 f8) or
/// integers (i1 i2 i4 i8, u1 u2 u4 u8) or booleans. Errors: FormatError E-NPY-* naming file and
/// byte, with what to do for the kinds that numpy writes and this does not read (Fortran order, big
/// endian, objects, structures, bfloat16).
NpyHeader read_npy_header(ByteSource& source);

/// Errors: FormatError E-NPY-DTYPE for booleans.
void require_npy_numbers(const ByteSource& source, const NpyHeader& header);

/// The numbers of the array that `header` is of, in their order, wider ones rounded to nearest. The
/// caller bounds header.bytes. Errors: those of require_npy_numbers() and ByteSource::read().
std::vector<float> read_npy_floats(ByteSource& source, const NpyHeader& header);

}  // namespace vindex::input
