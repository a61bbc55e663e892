#!/usr/bin/env python3
"""The search's output besides the winner: the Pareto front, idle devices, and progress on a terminal."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

import e2e


def write_cluster(folder, devices, gigabytes_per_second, more=()):
    """A node with `devices`, and more nodes with `more`, behind a link of a given speed."""
    path = os.path.join(folder, f"{devices}.json")
    with open(path, "w") as file:
        json.dump({"version": 1, "name": "toys",
                   "groups": [{"nodes": 1, "devices_per_node": size, "device": "cpu-local"} for size in (devices, *more)],
                   "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": gigabytes_per_second,
                               "latency_microseconds": 100, "kind": "switch", "in_network_reduction": False}],
                   "host": {"memory_gibibytes": 8, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}}, file)
    return path


class Search(unittest.TestCase):
    def compile(self, folder, cluster, *words):
        said = e2e.must([e2e.tool("dpc-opt"), e2e.model("mlp"), f"--cluster={cluster}", "--global-batch=8", "--verify=off",
                         "-o", f"{folder}/plan", *words])
        return said, e2e.read_report(f"{folder}/plan")

    def test_pareto_front(self):
        with e2e.scratch() as folder:
            said, report = self.compile(folder, "local:4", "--emit=report")
            front = [(point["step_seconds"], point["memory_bytes"]) for point in report["pareto"]]
            self.assertGreater(len(front), 1)
            self.assertEqual(front, sorted(front))
            self.assertEqual([bytes for _, bytes in front], sorted((bytes for _, bytes in front), reverse=True))
            self.assertEqual(front[0][0], report["chosen"]["predicted"]["step_seconds"])
            self.assertIn(f"Pareto front, {len(front)} strategies", said)
            _, least = self.compile(folder, "local:4", "--emit=report", "--objective=memory")
            peak = least["chosen"]["predicted"]["memory_bytes"]["peak"]
            self.assertEqual(peak, least["pareto"][-1]["memory_bytes"])
            self.assertLess(peak, front[-1][1])  # with offloading
            self.assertNotEqual(least["chosen"]["strategy"]["offload"], "none")

    def test_no_plan_where_nothing_fits(self):
        """A report shows the nearest strategy; a plan that cannot run is not written."""
        with e2e.scratch() as folder:
            cluster = write_cluster(folder, 2, 100)
            description = e2e.read_json(cluster)
            device = e2e.read_json(os.path.join(e2e.SOURCE, "cost-model", "devices", "cpu-local.json"))
            device["memory_gibibytes"]["value"] = device["memory_reserved_gibibytes"]["value"] + 1e-6
            description["groups"][0]["device"] = device
            with open(cluster, "w") as file:
                json.dump(description, file)
            words = [e2e.tool("dpc-opt"), e2e.model("mlp"), f"--cluster={cluster}", "--global-batch=8", "--strategy=dp=2"]
            done = e2e.call([*words, "-o", f"{folder}/plan"])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("no strategy fits; nearest: dp=2", done.stderr)
            self.assertFalse(os.path.exists(f"{folder}/plan"))
            said = e2e.must([*words, "--emit=report", "-o", f"{folder}/report"])
            self.assertIn("no strategy fits; nearest: dp=2", said)

    def test_models_without_attention_have_pipelines(self):
        with e2e.scratch() as folder:
            _, report = self.compile(folder, "local:2", "--emit=report", "--top=1000", "--strategy=ranks=2")
            degrees = {candidate["strategy"]["pp"] for candidate in report["candidates"]}
            self.assertEqual(degrees, {1, 2})

    def test_nodes_of_unlike_size_are_all_used(self):
        with e2e.scratch() as folder:
            cluster = write_cluster(folder, 2, 100, more=(1,))
            _, report = self.compile(folder, cluster, "--strategy=ranks=3,dp=3")
            self.assertEqual((report["chosen"]["devices"], report["chosen"]["strategy"]["dp"]), (3, 3))
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2"])
            _, report = self.compile(folder, cluster, "--strategy=dp=3")
            self.assertEqual(report["chosen"]["devices"], 3)

    def test_slow_links_leave_devices_idle(self):
        with e2e.scratch() as folder:
            said, report = self.compile(folder, write_cluster(folder, 4, 0.001))
            self.assertEqual(report["chosen"]["devices"], 1)
            self.assertIn("uses 1 of 4 devices: the best plan on all 4 devices,", said)
            self.assertIn("slower", report["chosen"]["idle"])
            # The plan is for one rank.
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2"])

    def test_a_small_batch_on_many_devices(self):
        # With 16 samples, most of 64 devices have no work. To shard a sample over them is slower.
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-model"), "gpt", "--layers=12", "--hidden=768", "--heads=12", "--vocab=50257", "--seq=1024",
                      "-o", f"{folder}/gpt.onnx"])
            seconds = []
            for strategy in ("auto", "ranks=8"):
                e2e.must([e2e.tool("dpc-opt"), f"{folder}/gpt.onnx", "--global-batch=16", "--precision=fp16", "--emit=report",
                          f"--cluster={e2e.SOURCE}/examples/clusters/p3-16xlarge-8.json", f"--strategy={strategy}", "-o", f"{folder}/r"])
                seconds.append(e2e.read_report(f"{folder}/r")["chosen"]["predicted"]["step_seconds"])
            self.assertLessEqual(seconds[0], seconds[1] * (1 + 1e-9))

    def test_as_many_as_are_asked_for(self):
        with e2e.scratch() as folder:
            _, report = self.compile(folder, "local:4", "--strategy=ranks=3,dp=3")
            self.assertEqual((report["chosen"]["devices"], report["chosen"]["strategy"]["dp"]), (3, 3))
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2"])
            refused = e2e.call([e2e.tool("dpc-opt"), e2e.model("mlp"), f"--cluster={e2e.write_two_machines(folder, 2)}",
                                "--global-batch=8", "--strategy=ranks=3", "-o", f"{folder}/other"])
            self.assertEqual(refused.returncode, 1)
            self.assertIn("ranks=3 does not divide evenly over nodes", refused.stderr)


class Progress(unittest.TestCase):
    def run_on(self, columns, term, stderr_is_terminal=True):
        """Returns what dpc-opt writes to a terminal with this many columns, and to its stdout."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with e2e.scratch() as folder:
            words = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", "--verify=off",
                     "--emit=report", "-o", f"{folder}/plan"]
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs if stderr_is_terminal else subprocess.PIPE,
                                     env=dict(e2e.environment(), TERM=term))
            os.close(theirs)
            shown = e2e.read_terminal(ours) if stderr_is_terminal else b""
            out, err = child.communicate(timeout=e2e.TIMEOUT_SECONDS)
            os.close(ours)
            self.assertEqual(child.returncode, 0)
            return (shown if stderr_is_terminal else err).decode(), out.decode()

    def test_one_line_in_place(self):
        shown, out = self.run_on(60, "xterm")
        self.assertNotIn("\n", shown)
        self.assertTrue(shown.endswith("\r\x1b[K"), shown[-80:])  # the progress line is cleared
        lines = [line.removesuffix("\x1b[K") for line in shown.split("\r") if line not in ("", "\x1b[K")]
        self.assertTrue(lines)
        for line in lines:
            self.assertLess(len(line), 60)
            self.assertRegex(line, r"^(reading /|writing$|verifying$|reporting$|searching: \d+ of \d+ candidates, )")
        self.assertTrue(lines[0].startswith("reading "), lines)
        self.assertEqual([line for line in lines[-3:] if line[0] != "s"], ["writing", "verifying", "reporting"])
        done = [int(found[1]) for line in lines if (found := re.match(r"searching: (\d+)", line))]
        self.assertTrue(done)
        self.assertEqual(done, sorted(done))
        self.assertNotIn("searching", out)
        self.assertNotIn("\x1b", out)

    def test_narrow(self):
        shown, _ = self.run_on(20, "xterm")
        for line in shown.replace("\x1b[K", "").split("\r"):
            self.assertLess(len(line), 20)

    def test_nothing_elsewhere(self):
        self.assertEqual(self.run_on(60, "dumb")[0], "")
        self.assertEqual(self.run_on(60, "xterm", stderr_is_terminal=False)[0], "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
