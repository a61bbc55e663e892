#!/usr/bin/env python3
"""Pipelines on heterogeneous devices, and ranks that are placed on them in another order.

There are two machines with two ranks each, one of which is declared half as fast. The stage there is smaller, the
report names it, and the plan trains like PyTorch, whichever machine comes first and also if the processes of an MPI job
have a different order than the ranks.
"""
import copy
import json
import os
import sys
import unittest

import e2e
import follow_curve

SOURCE = os.environ.get("DPC_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def write_cluster(folder, slowdown=2, slow_bytes=None, fast_bytes=None):
    """Two ranks of the local device's file, and two that are slower (none if `slowdown` is 0); plans have `fast_bytes`
    and `slow_bytes` on them."""
    with open(os.path.join(SOURCE, "cost-model", "devices", "cpu-local.json")) as file:
        fast = json.load(file)
    slow = copy.deepcopy(fast)
    slow["name"] = "cpu-slow"
    for peak in slow["peak_teraflops"].values():
        peak["value"] /= max(1, slowdown)
    slow["memory_gigabytes_per_second"]["value"] /= max(1, slowdown)
    slow["launch_microseconds"]["value"] *= max(1, slowdown)
    for device, size in ((fast, fast_bytes), (slow, slow_bytes)):
        if size:
            device["memory_gibibytes"]["value"] = device["memory_reserved_gibibytes"]["value"] + size / 2**30
    level = {"name": "memory", "span": "node", "gigabytes_per_second": 10, "latency_microseconds": 1, "kind": "switch"}
    path = os.path.join(folder, "cluster.json")
    with open(path, "w") as file:
        json.dump({"version": 1, "name": "fast and slow",
                   "groups": [{"nodes": 1, "devices_per_node": 2, "device": device} for device in ((fast, slow) if slowdown else (fast,))],
                   "levels": [level, dict(level, name="wire", span="cluster", gigabytes_per_second=5)]}, file)
    return path


def flops_of_stages(plan):
    """Floating-point operations of every stage's phases."""
    flops = {}
    for name, instructions in plan["phases"].items():
        stage = name.split(".")[0]
        flops[stage] = flops.get(stage, 0) + sum(op["flops"] for op in instructions)
    return [flops[stage] for stage in sorted(flops)]


class HeterogeneousDevices(unittest.TestCase):
    def follows(self, strategy, comm="local"):
        with e2e.scratch() as folder:
            case = follow_curve.Case(os.path.dirname(e2e.model("gpt2-tiny")), strategy, 4, comm)
            case.cluster = write_cluster(folder)
            self.assertTrue(case.follow())

    def test_fast_stage_first(self):
        self.follows("dp=2,pp=2,micro_batch=2,placement=@0.1")

    def test_slow_stage_first(self):
        self.follows("dp=2,pp=2,micro_batch=2,placement=@1.0")

    def test_processes_in_another_order(self):
        if not e2e.mpirun(1):
            self.skipTest("no mpirun on this machine")
        self.follows("dp=2,pp=2,micro_batch=2,placement=@1.0", "mpi")

    def plan(self, folder, *words, **cluster):
        e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={write_cluster(folder, **cluster)}",
                  "--global-batch=16", "--verify=off", "-o", f"{folder}/plan"] + list(words))
        return e2e.read_plan(f"{folder}/plan"), e2e.read_report(f"{folder}/plan")["chosen"]

    def test_stages_are_as_long_as_devices_are_fast(self):
        for groups, slow in (("0.1", 1), ("1.0", 0)):
            with e2e.scratch() as folder:
                plan, chosen = self.plan(folder, f"--strategy=dp=2,pp=2,micro_batch=2,placement=@{groups}")
            devices = [stage["device"] for stage in chosen["predicted"]["stages"]]
            self.assertEqual(devices[slow], "cpu-slow")
            self.assertEqual(devices[1 - slow], "cpu-local")
            flops = flops_of_stages(plan)
            self.assertLess(flops[slow], flops[1 - slow])

    def test_order_of_groups_is_chosen(self):
        with e2e.scratch() as folder:
            plan, chosen = self.plan(folder, "--strategy=dp=2,pp=2,micro_batch=2")
        best = chosen["predicted"]["step_seconds"]
        for groups in ("0.1", "1.0"):
            with e2e.scratch() as folder:
                _, fixed = self.plan(folder, f"--strategy=dp=2,pp=2,micro_batch=2,placement=@{groups}")
            self.assertLessEqual(best, fixed["predicted"]["step_seconds"] * (1 + 1e-9))

    def test_a_stage_is_no_fuller_than_its_device(self):
        """The best cut exceeds the slow stage's memory by a fifth, so the stage gets less."""
        words = ["--strategy=dp=2,pp=2,micro_batch=2,placement=@0.1"]
        with e2e.scratch() as folder:
            _, free = self.plan(folder, *words)
        taken = free["predicted"]["stages"][1]["memory_bytes"]
        with e2e.scratch() as folder:
            plan, tight = self.plan(folder, *words, slow_bytes=taken / 1.2)
        self.assertTrue(tight["fits"])
        stage = tight["predicted"]["stages"][1]
        self.assertLessEqual(stage["memory_bytes"], stage["usable_bytes"])
        self.assertLessEqual(plan["arena_bytes"][1], 1.02 * stage["usable_bytes"])

    def test_memory_is_that_of_the_fullest_stage(self):
        """Not the memory of the device that has the least left of a small memory."""
        words = ["--strategy=dp=2,pp=2,micro_batch=2,placement=@0.1"]
        with e2e.scratch() as folder:
            _, free = self.plan(folder, *words, slowdown=8)
        fast, slow = (stage["memory_bytes"] for stage in free["predicted"]["stages"])
        self.assertLess(19 * slow, 9 * fast)
        with e2e.scratch() as folder:
            _, tight = self.plan(folder, *words, slowdown=8, fast_bytes=10 * fast, slow_bytes=20 * slow)
        self.assertEqual(tight["predicted"]["memory_bytes"]["peak"], fast)

    def test_slow_devices_make_nothing_slower(self):
        seconds = {}
        for slowdown in (0, 50):
            with e2e.scratch() as folder:
                plan, chosen = self.plan(folder, slowdown=slowdown)
                seconds[slowdown] = chosen["predicted"]["step_seconds"]
                self.assertLessEqual(len(plan["schedule"]), 2)
        self.assertLessEqual(seconds[50], seconds[0] * (1 + 1e-9))

    def test_fast_ranks_take_more_of_the_batch(self):
        """The slow device takes about twice as long for a micro-batch."""
        with e2e.scratch() as folder:
            plan, chosen = self.plan(folder, "--strategy=dp=4,micro_batch=1")
            self.assertRegex(chosen["strategy"]["batch_shares"], r"^\d+(:\d+)+$")
            ddp = next(one for one in e2e.read_report(f"{folder}/plan")["baselines"] if one["name"] == "ddp")
            self.assertEqual(ddp["strategy"]["batch_shares"], "even")
        with e2e.scratch() as folder:
            _, even = self.plan(folder, "--strategy=dp=4,micro_batch=1,batch_shares=even")
        fast, slow = plan["batch_shares"][:2], plan["batch_shares"][2:]
        self.assertEqual(sum(fast) + sum(slow), 16)
        self.assertGreater(min(fast), max(slow))
        shares = chosen["predicted"]["batch_shares"]
        self.assertEqual(shares["even_step_seconds"], even["predicted"]["step_seconds"])
        self.assertLess(chosen["predicted"]["step_seconds"], 0.85 * even["predicted"]["step_seconds"])
        self.assertEqual({part["device"] for part in shares["ranks"]}, {"cpu-local", "cpu-slow"})
        for rank, share in enumerate(plan["batch_shares"]):
            own = {entry["micro_batch"] for entry in plan["schedule"][rank]}
            self.assertEqual(own, set(range(share)))

    def test_found_shares_are_what_the_strategy_says(self):
        with e2e.scratch() as folder:
            plan, chosen = self.plan(folder, "--strategy=dp=4,micro_batch=1")
        text = chosen["strategy"]["batch_shares"]
        with e2e.scratch() as folder:
            same, fixed = self.plan(folder, f"--strategy=dp=4,micro_batch=1,batch_shares={text}")
        self.assertEqual(plan["batch_shares"], same["batch_shares"])
        self.assertAlmostEqual(chosen["predicted"]["step_seconds"] / fixed["predicted"]["step_seconds"], 1, delta=1e-9)

    def test_shares_follow_the_curve(self):
        self.follows("dp=4,micro_batch=1,zero=1")

    def test_replicas_on_heterogeneous_devices(self):
        """Each pipeline runs on one machine."""
        self.follows("dp=2,pp=2,micro_batch=1,batch_shares=3:1,placement=pp.dp")

    def test_shares_that_cannot_be(self):
        for strategy, *words in (("dp=4,zero=2,micro_batch=1,batch_shares=3:1", "zero=0 or 1"),
                                 ("dp=4,micro_batch=2,batch_shares=2:1", "does not give whole micro-batches", "multiple of 6"),
                                 ("dp=4,batch_shares=3:2:1", "divisor of dp"), ("batch_shares=a", "such as 3:1")):
            with e2e.scratch() as folder:
                done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={write_cluster(folder)}",
                                 "--global-batch=16", f"--strategy={strategy}", "-o", f"{folder}/plan"])
            self.assertEqual(done.returncode, 1, strategy)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_unknown_group(self):
        with e2e.scratch() as folder:
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={write_cluster(folder)}",
                             "--global-batch=16", "--strategy=placement=@2", "-o", f"{folder}/plan"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("no group 2 of nodes", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
