#!/usr/bin/env python3
"""What the CUDA compiler made of the kernels, checked without a GPU: compiler_checks.py [BUILD] (default build/cuda).

  - ptxas serialised no wgmma (C7510 to C7519: it would still be right, at a fraction of the speed);
  - no kernel has a stack or spills beyond the table below: a change of a line can cost a factor of two here and nowhere else;
  - nothing touches the accumulators of a wgmma between its issue and its wait (SASS; requires cuobjdump, which a toolkit has and
    PyPI's nvidia-cuda-cuobjdump brings).

Reads what scripts/toolchain/keep_compiler_output.sh kept when the kernels were built. Ends with 1 where a check fails, with 2 where there
is nothing to check.
"""
import pathlib
import re
import shutil
import subprocess
import sys

# Known, by kernel: bytes of stack, and of spills, that are accepted on every architecture. Panels of 2048 rows in float32, which
# the goals rest on, are not here: they have none.
ACCEPTED = [
    (r"factor_panel_kernel<float, 16, 2>", 312, 640),
    (r"factor_panel_kernel<float, 2, 32>", 16, 48),
    (r"factor_panel_kernel<double, 16, 1>", 64, 128),
    (r"factor_panel_kernel<double, 2, 16>", 16, 48),
    (r"sum_products_kernel<.*DoubleArithmetic", 8, 16),
    (r"operand_kernel<.*OperandSource\)3, .*Element\)2, true", 96, 240),  # a third block per multiprocessor instead
    (r"update_and_multiply_halves_kernel<true", 136, 272),  # scalars; fragments of a strip fill the registers
    (r"update_and_multiply_kernel<", 16, 32),  # scalars, in plain float32 on sm_80 and in float64 on sm_90a
    (r"decode_kernel<", 24, 64),  # 4-bit look-ups on sm_90a
    (r"operand_kernel<", 80, 0),  # an array that is indexed at run time
]
# Where wgmma is used.
WARPGROUP_OBJECTS = ("gram_products_sm90.cu.o", "code_slices_sm90.cu.o")
ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SERIALISED = re.compile(r"\(C75\d\d\).*")


def demangled(names):
    """Names as C++ writes them, where binutils are there."""
    if not names or not shutil.which("c++filt"):
        return list(names)
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return text.splitlines()


def kernels_in(text):
    """(mangled name, architecture, stack, stores, loads) of every kernel in what ptxas said."""
    found, entry = [], None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
        elif (match := STACK.search(line)) and entry:
            found.append((*entry, *(int(number) for number in match.groups())))
            entry = None
    return found


def beyond(name, stack, spills):
    """Whether a kernel has more than the table accepts."""
    for pattern, most_stack, most_spills in ACCEPTED:
        if re.search(pattern, name):
            return stack > most_stack or spills > most_spills
    return stack > 0 or spills > 0


def check_output(folder):
    """Complaints about the output of ptxas, and the number of kernels in it."""
    complaints, count = [], 0
    for path in sorted(folder.rglob("*.cu.o.said")):
        text = path.read_text(errors="replace")
        source = path.name.removesuffix(".o.said")
        complaints += [f"{source}: {match.group(0)}" for match in SERIALISED.finditer(text)]
        kernels = kernels_in(text)
        count += len(kernels)
        for name, (_, architecture, stack, stores, loads) in zip(demangled([one[0] for one in kernels]), kernels):
            if beyond(name, stack, stores + loads):
                complaints.append(f"{source}: {architecture}: {stack} bytes of stack, {stores} + {loads} of spills: {name[:200]}")
    return complaints, count


def early_touches(sass):
    """(kernel, number of HGMMA and IGMMA, instructions that touch accumulators in flight) of a disassembly.

    The accumulators of one, 64 registers from its destination, are in flight until a wait for group 0."""
    found = []
    for part in sass.split("Function :")[1:]:
        name, _, body = part.partition("\n")
        flying, count, early = range(0), 0, []
        for instruction in re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(.*?);", body):
            if match := re.search(r"[HI]GMMA\S* R(\d+),", instruction):
                flying, count = range(int(match.group(1)), int(match.group(1)) + 64), count + 1
            elif "DEPBAR.LE gsb0, 0x0" in instruction:
                flying = range(0)
            elif any(int(register) in flying for register in re.findall(r"\bR(\d+)\b", instruction)):
                early.append(instruction.strip())
        if count:
            found.append((name.strip(), count, early))
    return found


def disassembler():
    """cuobjdump of the PATH, of the toolkit or of a Python package, or None."""
    if found := shutil.which("cuobjdump"):
        return found
    places = [pathlib.Path("/usr/local/cuda/bin/cuobjdump")]
    for root in [*map(pathlib.Path, sys.path), *pathlib.Path("build/python").glob("lib/python*/site-packages")]:
        places += sorted(root.glob("nvidia/*/bin/cuobjdump"))
    return next((str(place) for place in places if place.is_file()), None)


def check_sass(folder):
    """Complaints about the SASS of the wgmma kernels, and a line that says what was looked at."""
    program = disassembler()
    if program is None:
        return [], "wgmma's accumulators in SASS: NOT CHECKED, no cuobjdump here (a whole toolkit or nvidia-cuda-cuobjdump has it)"
    complaints, all_kernels = [], []
    for name in WARPGROUP_OBJECTS:
        objects = sorted(folder.rglob(name))
        if not objects:
            return [f"{name} is not in the build"], ""
        sass = subprocess.run([program, "-arch", "sm_90a", "-sass", str(objects[0])], capture_output=True, text=True, check=True).stdout
        kernels = early_touches(sass)
        complaints += [f"{kernel[:120]}: touches accumulators in flight: {early[0]} and {len(early) - 1} more"
                       for kernel, _, early in kernels if early]
        if not kernels:
            complaints.append(f"{name}: no wgmma in it")
        all_kernels += kernels
    return complaints, f"wgmma's accumulators in SASS: {len(all_kernels)} kernels, {sum(one[1] for one in all_kernels)} products"


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/cuda")
    folder = build / "kernels"
    complaints, count = check_output(folder)
    if count == 0:
        print(f"compiler_checks: no *.cu.o.said under {folder}: build the preset cuda first", file=sys.stderr)
        return 2
    more, looked = check_sass(folder)
    print(f"{count} kernels: stacks, spills, serialised wgmma\n{looked}")
    for complaint in complaints + more:
        print("compiler_checks: " + complaint, file=sys.stderr)
    return 1 if complaints or more else 0


if __name__ == "__main__":
    sys.exit(main())
