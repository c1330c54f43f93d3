"""What scripts/include_reach.py must find: include_reach_test.py SCRIPT."""

import pathlib
import subprocess
import sys
import tempfile

SCRIPT = sys.argv[1]


def judged(files):
    """Exit code and complaints for a tree of `files` (path -> text)."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", SCRIPT, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


clean = {"host/core/a.cpp": '#include "core/a.hpp"\n', "host/core/a.hpp": "#include <vector>\n"}
assert judged(clean) == (0, ""), judged(clean)

direct = {**clean, "host/core/b.cpp": "#include <regex>\n"}
code, said = judged(direct)
assert code == 1 and "regex is reached by 1 of 2 sources" in said, said

through_a_header = {**clean, "host/core/near.hpp": "#include <regex>\n", "host/core/c.cpp": '#include "near.hpp"\n'}
code, said = judged(through_a_header)
assert code == 1 and "regex is reached by 1 of 2 sources" in said, said

shared = {**clean, "host/core/a.hpp": "#include <fmt/format.h>\n", "host/decode/b.cpp": '#include "core/a.hpp"\n'}
code, said = judged(shared)
assert code == 1 and "host/core/a.hpp includes fmt/format.h" in said, said
