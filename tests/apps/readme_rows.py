"""Commands of README.md's table, run as they are printed: readme_rows.py PROGRAM README GOLDEN FOLDER; GOLDEN is tests/data/trace.

What stands in capitals (MODEL, DUMP, A.gguf) lies in the folder of the run under that name: a small mixture that can be traced, what
the row of `trace` writes of it, two models of one shape."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import trace_golden
from test_script import call, fresh_folder

PROGRAM, README, GOLDEN, FOLDER = map(os.path.abspath, sys.argv[1:])
# Each by what it begins with, in an order in which one finds what another has written.
ROWS = ("vindex trace MODEL --ids prompts.jsonl -o dump", "vindex activations DUMP", "vindex routing DUMP", "vindex organ graft")

text = Path(README).read_text(encoding="utf-8")
section = text[text.index("## Which command"):]
section = section[:section.index("\n## ", 1)]
printed = [command for row in section.splitlines() if row.startswith("|") for command in re.findall(r"`(vindex [^`]*)`", row)]

fresh_folder(FOLDER)
folder = Path(FOLDER)
golden = trace_golden.Golden(Path(GOLDEN) / "deepseek_v3.json")
trace_golden.write_model(folder / "MODEL", golden.config, golden.tensors)
(folder / "prompts.jsonl").write_text(golden.prompts_file.read_text())
(folder / "DUMP").symlink_to("dump")
call(PROGRAM, "-q", "synth", "kimi-k2-mini-q8_0", "-o", "synthetic", cwd=folder)
written = list((folder / "synthetic").glob("*.gguf"))
assert len(written) == 1, written
# Models that are not related are refused; these are.
for name in ("A", "B"):
    (folder / f"{name}.gguf").write_bytes(written[0].read_bytes())

for begin in ROWS:
    commands = [command for command in printed if command.startswith(begin)]
    assert len(commands) == 1, (begin, commands)
    call(PROGRAM, *shlex.split(commands[0])[1:], cwd=folder)
    print(commands[0])

def routed(dump, out, *more):
    """(rows, rule) of a run of `vindex routing`."""
    call(PROGRAM, "-q", "routing", dump, "-o", out, *more, cwd=folder)
    shown = json.loads(call(PROGRAM, "show", out, "--json", cwd=folder).stdout)
    return shown["rows"], shown["attributes"]["rule"]


# The rule that the dump carries is the model's, biases too: the same rows. One file carries it too; without it the rule is asked for.
own = routed("DUMP", "own.h5")
assert own == routed("DUMP", "model.h5", "--model", "MODEL")
call(PROGRAM, "-q", "trace", "MODEL", "--ids", "prompts.jsonl", "-o", "one.safetensors", "--keep", "router_logits", cwd=folder)
assert own == routed("one.safetensors", "one.h5")
(folder / "dump" / "router_rule.json").unlink()
refused = call(PROGRAM, "-q", "routing", "DUMP", "-o", "none.h5", code=64, cwd=folder).stderr
assert "E-ROUTER-RULE" in refused and not (folder / "none.h5").exists(), refused
