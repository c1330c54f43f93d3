"""bench/peers/peers.py and its processes as a device is measured: peers one after the other, the strongest first, each in a process
that ends before the next one's begins, its errors asked for while it lives, and what it costs when one hangs. No device, no peer.
"""
import argparse
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers"))
import peer_processes  # noqa: E402
import peers  # noqa: E402


class MadeUp:
    """In the place of peer_processes.Children: notes what it is asked."""

    def __init__(self, failing=()):
        self.failing, self.asked = failing, []

    def ask(self, peer, batch, what, **_):
        self.asked.append((peer, batch, what))
        if peer in self.failing:
            return {"failure": "no answer within 45 s"}
        return {"ms": 10.0 * batch, "cpu_ms": 1.0} if what == "time" else {"errors": {"sigma_1": 0.0}}

    def stop_others(self, peer):
        self.asked.append(("stop all but", peer, ""))


def bench_of(**changed):
    options = argparse.Namespace(**{"device": "cuda", "rows": 7168, "cols": 2048, "encoding": "bf16", "batches": [16, 64],
                                    "spectra": ["noise"], "modes": ["default"], "files": 4, "samples": 1, "threads": 1, "output": None,
                                    "peer_seconds": 30.0, "time_limit": 60.0, "no_errors": False, "no_ours": True, "program": None,
                                    **changed})
    return peers.Bench(options, "/nowhere")


class Order(unittest.TestCase):
    def setUp(self):
        self.machine, peers.machine = peers.machine, lambda program: {"schema": "vindex-bench/1", "rows": []}

    def tearDown(self):
        peers.machine = self.machine

    def test_one_peer_after_the_other_and_its_errors_while_its_process_lives(self):
        bench, children = bench_of(), MadeUp()
        bench.time_peers(children, [("torch.gram32+eigvalsh", "spectra.default", "many"), ("cupy.svd", "spectra.default", "one")])
        self.assertEqual(children.asked, [
            ("stop all but", "torch.gram32+eigvalsh", ""),
            ("torch.gram32+eigvalsh", 16, "time"), ("torch.gram32+eigvalsh", 16, "time"),
            ("torch.gram32+eigvalsh", 64, "time"), ("torch.gram32+eigvalsh", 64, "time"),
            ("torch.gram32+eigvalsh", 1, "errors"), ("stop all but", "cupy.svd", ""),
            ("cupy.svd", 1, "time"), ("cupy.svd", 1, "time"), ("cupy.svd", 1, "errors")])
        self.assertEqual([row["samples"] for row in bench.peer_rows], [[10.0], [10.0], [10.0]])

    def test_one_that_hangs_is_a_note_and_is_asked_nothing_more(self):
        bench, children = bench_of(no_errors=True), MadeUp(failing=["jax.svd"])
        bench.time_peers(children, [("jax.svd", "spectra.default", "one"), ("torch.svdvals", "spectra.default", "one")])
        self.assertEqual([one for one in children.asked if one[2]],
                         [("jax.svd", 1, "time"), ("torch.svdvals", 1, "time"), ("torch.svdvals", 1, "time")])
        self.assertEqual(bench.peer_rows[0]["note"], "no answer within 45 s")

    def test_after_the_time_limit_the_rest_says_so(self):
        bench, children = bench_of(time_limit=-1.0), MadeUp()
        bench.time_peers(children, [("torch.svdvals", "spectra.default", "one")])
        self.assertEqual([one for one in children.asked if one[2]], [])
        self.assertIn("time limit", bench.peer_rows[0]["note"])

    def test_the_strongest_come_first_and_cupy_last(self):
        names = [peer for peer, _, _ in peers.CUDA_PEERS]
        self.assertEqual(names[:5], ["torch.svdvals.gesvd", "torch.svdvals.gesvda", "torch.svdvals.gesvdj", "torch.gram32+eigvalsh",
                                     "jax.gram32+eigvalsh"])
        packages = [name.split(".")[0] for name in names]
        self.assertEqual(packages.index("cupy"), len(names) - packages.count("cupy"))


class Processes(unittest.TestCase):
    ECHO = [sys.executable, "-c", """
import json, os, sys, time
for line in sys.stdin:
    wanted = json.loads(line)
    if wanted["peer"] == "torch.hangs":
        time.sleep(60)
    print(json.dumps({"pid": os.getpid()}), flush=True)
"""]

    def pid(self, children, peer):
        return children.ask(peer=peer, batch=1, what="time").get("pid")

    def test_a_process_each_where_asked_for_and_a_package_shares_one_otherwise(self):
        for one_each in (True, False):
            children = peer_processes.Children(self.ECHO, 20.0, one_each)
            try:
                first, second = self.pid(children, "torch.a"), self.pid(children, "torch.b")
                self.assertEqual(first != second, one_each)
                children.stop_others("torch.b")
                self.assertEqual(self.pid(children, "torch.b"), second)
                self.assertEqual(self.pid(children, "torch.a") != first, one_each, "it was stopped, and begins anew")
            finally:
                children.stop()

    def test_one_that_hangs_is_killed_at_its_limit(self):
        children = peer_processes.Children(self.ECHO, 1.0, True)
        try:
            self.assertIn("no answer", children.ask(peer="torch.hangs", batch=1, what="time")["failure"])
            self.assertIsNotNone(self.pid(children, "torch.other"))
        finally:
            children.stop()


if __name__ == "__main__":
    unittest.main()
