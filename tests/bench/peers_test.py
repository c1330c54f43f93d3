"""bench/peers.py end to end on small matrices: the peers that are here agree with float64 LAPACK, those that are not are
rows with a note, and the document follows the form. Usage: peers_test.py PROGRAM. Exit 77 without numpy and scipy."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy  # noqa: F401
    import scipy  # noqa: F401
except ImportError as missing:
    print("skipped:", missing)
    sys.exit(77)

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
import check_form  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "peers.json")
    done = subprocess.run(
        [sys.executable, os.path.join(BENCH, "peers.py"), "--program", sys.argv[1], "--rows", "192", "--cols", "128",
         "--samples", "1", "--files", "2", "--spectra", "gaussian,spiked", "--peers",
         "scipy.svdvals,numpy.gram+eigvalsh,weightwatcher-like", "-o", out], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open(out, encoding="utf-8") as file:
        document = json.load(file)
assert check_form.problems(document) == [], check_form.problems(document)
rows = document["rows"]


def found(name, peer):
    return [row for row in rows if row["name"] == name and row["peer"] == peer]


assert len(found("spectra.default", None)) == 1 and len(found("end_to_end", None)) >= 1
for peer in ("scipy.svdvals", "numpy.gram+eigvalsh"):
    assert found("spectra.default", peer)[0]["samples"], rows
    assert peer.split(".")[0] in found("spectra.default", peer)[0]["note"], rows
    assert len(found("probe.cpu_time", peer)[0]["samples"]) == len(found("spectra.default", peer)[0]["samples"])
    errors = found("probe.error.var_64", peer)[0]["samples"]
    assert len(errors) == 2 and max(errors) < 1e-5, errors
    assert max(found("probe.error.sigma_1", peer)[0]["samples"]) < 1e-5
ours = found("end_to_end", "weightwatcher-like")[0]
assert ours["samples"] or ours["note"], ours
assert {row["note"].split()[-1] for row in found("probe.cpu_time", None)} == \
    {"spectra.default", "spectra.strict", "spectra.fast"}
assert document["host"]["blas"].startswith("OpenBLAS"), document["host"]
for row in found("probe.error.var_64", None):
    assert max(row["samples"]) < 1e-6, row
print(done.stderr)
