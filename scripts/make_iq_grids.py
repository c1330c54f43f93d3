#!/usr/bin/env python3
"""Writes the codebook headers host/decode/iq{1,2,3}_grid*.hpp from the tables of the PyPI package `gguf`.

    pip install gguf numpy; python3 scripts/make_iq_grids.py OUTPUT_FOLDER

An entry of eight values becomes sixteen bits, two per value; an entry of four values twelve, three per value; the
value that comes first in the lowest bits.
"""
import pathlib
import sys

import gguf.quants as quants

PER_LINE = 12

# file, what it owns, tables: (function, class of gguf, what a code means)
FILES = {
    "iq1_grid.hpp": ("the ggml codebook of 1.6 bits per weight (IQ1_S, IQ1_M)",
                     [("iq1_entry", "IQ1_S", "value = code - 1")]),
    "iq2_grids.hpp": ("the ggml codebooks of two bits per weight (IQ2_XXS, IQ2_XS, IQ2_S)",
                      [("iq2_xxs_entry", "IQ2_XXS", "values 8, 25, 43"), ("iq2_xs_entry", "IQ2_XS", "values 8, 25, 43"),
                       ("iq2_s_entry", "IQ2_S", "values 8, 25, 43")]),
    "iq3_grids.hpp": ("the ggml codebooks of three bits per weight (IQ3_XXS, IQ3_S)",
                      [("iq3_xxs_entry", "IQ3_XXS", "values 4, 12, 20, 28, 36, 44, 52, 62"),
                       ("iq3_s_entry", "IQ3_S", "value = 2 code + 1")]),
}


def words_of(name):
    table = getattr(quants, name)
    table.init_grid()
    grid = table.grid.reshape(table.grid_shape)
    levels = list(table.grid_map)
    bits = 2 if len(levels) <= 4 else 3
    return [sum(levels.index(int(v)) << (bits * i) for i, v in enumerate(entry)) for entry in grid], bits


def main(folder):
    for file, (what, tables) in FILES.items():
        lines = [f"// Owns {what}: an offline search",
                 "// made them, there is no formula. Packed anew: a code per value, the first in the lowest bits.",
                 "// Made by scripts/make_iq_grids.py. Source of the values: ggml src/ggml-common.h",
                 "// (Copyright (c) 2023-2026 The ggml authors, MIT).",
                 "#pragma once", "", "#include \"core/portable.hpp\"", "", "#include <cstdint>", "",
                 "namespace vindex::decode {", "", "// clang-format off"]
        for function, name, meaning in tables:
            words, bits = words_of(name)
            lines += ["", f"/// Entry `index` (0..{len(words) - 1}) of {name}: {8 if bits == 2 else 4} codes of "
                      f"{bits} bits; {meaning}.",
                      f"VINDEX_HD inline std::uint32_t {function}(std::uint32_t index) {{",
                      f"  static constexpr std::uint16_t kEntries[{len(words)}] = {{"]
            for at in range(0, len(words), PER_LINE):
                lines.append("    " + ", ".join(f"0x{w:04x}" for w in words[at:at + PER_LINE]) + ",")
            lines += ["  };", "  return kEntries[index];", "}"]
        lines += ["", "// clang-format on", "", "}  // namespace vindex::decode", ""]
        pathlib.Path(folder, file).write_text("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1])
