"""bench/peers/peers.py end to end on small matrices: the peers that are here agree with float64 LAPACK, those that are not are
rows with a note, and the document follows the form. Usage: peers_test.py PROGRAM."""
import json
import os
import subprocess
import sys
import tempfile

import numpy  # noqa: F401
import scipy  # noqa: F401

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, os.path.join(BENCH, "records"))
import check_form  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "peers.json")
    done = subprocess.run(
        [sys.executable, os.path.join(BENCH, "peers", "peers.py"), "--program", sys.argv[1], "--rows", "192", "--cols", "128",
         "--samples", "1", "--files", "2", "--spectra", "trained,noise", "--peers",
         "scipy.svdvals,numpy.gram+eigvalsh,weightwatcher-like", "-o", out], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open(out, encoding="utf-8") as file:
        document = json.load(file)
assert check_form.problems(document) == [], check_form.problems(document)
rows = document["rows"]


def found(name, peer):
    return [row for row in rows if row["name"] == name and row["peer"] == peer]


def spectra(name, peer):
    return [row["spectrum"] for row in found(name, peer)]


assert spectra("spectra.default", None) == ["trained", "noise"] and len(found("end_to_end", None)) >= 1, rows
for peer in ("scipy.svdvals", "numpy.gram+eigvalsh"):
    assert spectra("spectra.default", peer) == ["trained", "noise"], rows
    for index, row in enumerate(found("spectra.default", peer)):
        assert row["samples"] and peer.split(".")[0] in row["note"], row
        assert len(found("probe.cpu_time", peer)[index]["samples"]) == len(row["samples"])
    assert spectra("probe.error.var_64", peer) == ["trained", "noise"], rows
    assert max(row["samples"][0] for row in found("probe.error.var_64", peer)) < 1e-5, rows
    assert max(row["samples"][0] for row in found("probe.error.sigma_1", peer)) < 1e-5, rows
ours = found("end_to_end", "weightwatcher-like")[0]
assert ours["samples"] or ours["note"], ours
assert {row["note"].split()[-1] for row in found("probe.cpu_time", None)} == \
    {"spectra.default", "spectra.strict", "spectra.fast"}
assert document["host"]["blas"].startswith("OpenBLAS"), document["host"]
assert len(found("probe.error.var_64", None)) == 6  # three modes
for row in found("probe.error.var_64", None):
    assert max(row["samples"]) < (1e-5 if row["route"] == "spectra.fast" else 1e-6), row
for row in found("probe.error.sigma_max_absolute", None):
    assert row["route"] == "spectra.fast" or max(row["samples"]) < 1e-5, row
print(done.stderr)
