"""Every kernel says above its `__global__` how it is launched and what binds it: grid, block, dynamic shared memory and the bound,
as `// Grid: ... Block: ... Shared: ... Bound by: ...`. Who reads a profile, or plans how many blocks share a multiprocessor,
need not look for the launch.

    kernel_comments_test.py SOURCE_FOLDER
"""
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
# What a comment has to speak of, in any order.
TOPICS = {"grid": r"\bgrid\b", "block": r"\bblock\b", "shared memory": r"\bshared\b", "bound": r"\b(bound|binds)\b"}


def comment_above(lines, at):
    """The comment that ends right above line `at`, over lines that declare a template."""
    found = []
    for line in reversed(lines[:at]):
        text = line.strip()
        if text.startswith("//"):
            found.append(text.lstrip("/ <"))
        elif found or not (text.startswith("template") or text.endswith((",", ">"))):
            break
    return " ".join(reversed(found))


def missing(comment):
    return [name for name, pattern in TOPICS.items() if not re.search(pattern, comment, re.I)]


def kernels_of(text):
    """Where each `__global__` stands that defines a kernel, with the kernel's name."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if re.search(r"(?<![`\w])__global__\b", line.split("//")[0]):
            name = re.search(r"\b(\w+)\s*\((?!\w*\s*<)", re.sub(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)", "", " ".join(lines[at:at + 6])))
            yield at, name.group(1) if name else "?", lines


class KernelComments(unittest.TestCase):
    def test_every_kernel_says_how_it_is_launched(self):
        count, wrong = 0, []
        for path in sorted((SOURCE / "kernels").rglob("*.cu")) + sorted((SOURCE / "kernels").rglob("*.hpp")):
            place = path.relative_to(SOURCE / "kernels").as_posix()
            for at, name, lines in kernels_of(path.read_text(encoding="utf-8")):
                count += 1
                lacking = missing(comment_above(lines, at))
                if lacking:
                    wrong.append(f"kernels/{place}:{at + 1}: {name} does not say its {', '.join(lacking)}")
        self.assertEqual(wrong, [])
        self.assertGreater(count, 50)

    def test_what_is_missing_is_found(self):
        text = "// A sum.\n// Grid: a block per matrix. Block: 256. Shared: none. Bound by: memory.\ntemplate <int k>\n" \
               "__global__ void __launch_bounds__(f(k), 1)\n    sum_kernel(int x) {\n}\n\n// Grid only.\n__global__ void other_kernel() {}\n" \
               "int unrelated;\n__global__ void bare_kernel() {}\n// not `__global__`, nor here: __global__\n"
        found = [(name, missing(comment_above(lines, at))) for at, name, lines in kernels_of(text)]
        self.assertEqual(found, [("sum_kernel", []), ("other_kernel", ["block", "shared memory", "bound"]),
                                 ("bare_kernel", ["grid", "block", "shared memory", "bound"])])


if __name__ == "__main__":
    unittest.main()
