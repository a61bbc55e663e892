#!/usr/bin/env python3
"""Offloaded tensors are not on the device: counts them in the plan, buffer by buffer.

follow_curve.py checks that offloading does not change the results. This test checks the bytes per rank and memory space
under every ZeRO stage, the size of the device's arena, how much of the offloaded data is on the device at once, the
search with little memory, and the message for an unusable folder.
"""
import json
import os
import tempfile
import unittest

import e2e


def compiled(folder, strategy, ranks, *words, model="gpt2-tiny"):
    e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", "--global-batch=8",
              f"--strategy={strategy}", "--verify=off", "-o", folder, *words])
    return e2e.read_plan(folder)


def tensors_in(plan, space):
    """Returns the bytes of a rank's parameters and states in a memory space."""
    found = {"parameter": 0, "state": 0}
    for tensor in plan["tensors"]:
        buffer = plan["buffers"][tensor["buffer"]]
        if buffer["space"] == space and tensor["role"] in found:
            found[tensor["role"]] += buffer["bytes"]
    return found


def transfers(plan):
    """Yields (phase, bytes, to the device?) for all transfers in a step's phases."""
    for phase, instructions in plan["phases"].items():
        for i in instructions:
            if i["op"] == "transfer":
                into = plan["buffers"][i["out"]]
                yield phase, into["bytes"], into["space"] == "device"


def traffic(plan, phase, to_device):
    return sum(size for at, size, into in transfers(plan) if at == phase and into == to_device)


class Bytes(unittest.TestCase):
    RANKS = 4

    def plans(self, zero, choices):
        """The plans by what they offload."""
        with e2e.scratch() as folder:
            return {what: compiled(f"{folder}/{what}", f"dp={self.RANKS},zero={zero},offload={what}", self.RANKS)
                    for what in choices}

    def check(self, zero, choices):
        plans = self.plans(zero, ("none",) + choices)
        stored = tensors_in(plans["none"], "device")
        self.assertEqual(sum(plans["none"]["host_bytes"] + plans["none"]["disk_bytes"]), 0)
        whole = sum(4 * int_product(t["global_shape"]) for t in plans["none"]["tensors"] if t["role"] == "parameter")
        # Uneven shards are padded. In these plans, padding adds less than a tenth.
        for role, share in (("parameter", whole / (self.RANKS if zero == 3 else 1)),
                            ("state", 2 * whole / (self.RANKS if zero else 1))):
            self.assertTrue(share <= stored[role] <= 1.1 * share, f"zero={zero}: {role} {stored[role]}, share {share}")
        for what, plan in plans.items():
            away = {"parameter": what in ("parameters", "all"), "state": what in ("optimizer", "all")}
            here, there = tensors_in(plan, "device"), tensors_in(plan, "host")
            for role, moves in away.items():
                self.assertEqual((here[role], there[role]), (0, stored[role]) if moves else (stored[role], 0),
                                 f"zero={zero},offload={what}: {role}")
            self.assertGreaterEqual(plan["host_bytes"][0], sum(there.values()))
            self.assertLess(plan["host_bytes"][0], sum(there.values()) + 64 * len(plan["tensors"]))
            self.check_traffic(plan, stored, away)
        return plans

    def check_traffic(self, plan, stored, away):
        # Each state is copied to the device once and back once. Parameters are copied in update as well.
        for to_device in (True, False):
            least = sum(stored[role] for role, moves in away.items() if moves)
            self.assertGreaterEqual(traffic(plan, "update", to_device), least)
            self.assertLessEqual(traffic(plan, "update", to_device), 1.1 * least)
        for phase in ("forward", "backward"):
            self.assertEqual(traffic(plan, phase, False), 0)
            if not away["parameter"]:
                self.assertEqual(traffic(plan, phase, True), 0)
        if away["parameter"]:
            self.assertGreaterEqual(traffic(plan, "forward", True), stored["parameter"])

    def test_zero_0(self):
        plans = self.check(0, ("optimizer", "parameters", "all"))
        # With whole states, the arena shrinks by their bytes, except for the copies that are live at the peak.
        states = tensors_in(plans["none"], "device")["state"]
        arenas = {what: plan["arena_bytes"][0] for what, plan in plans.items()}
        print("arenas", arenas, "states", states)
        self.assertLess(arenas["optimizer"], arenas["none"] - 0.95 * states)
        self.assertLess(arenas["all"], arenas["optimizer"])

    def test_zero_1(self):
        self.check(1, ("optimizer",))

    def test_zero_2(self):
        self.check(2, ("all",))

    def test_zero_3(self):
        self.check(3, ("parameters", "all"))

    def test_masters_go_with_the_states(self):
        with e2e.scratch() as folder:
            plan = compiled(f"{folder}/plan", "dp=2,zero=1,offload=optimizer", 2, "--precision=bf16")
        self.assertEqual(tensors_in(plan, "device"), {"parameter": 0, "state": 0})
        there = tensors_in(plan, "host")
        self.assertEqual(there["state"], 2 * there["parameter"])

    def test_disk_is_a_space_of_its_own(self):
        with e2e.scratch() as folder:
            plan = compiled(f"{folder}/plan", "dp=2,zero=3,offload=all,offload_to=disk", 2)
        self.assertEqual(plan["host_bytes"], [0])
        self.assertEqual(tensors_in(plan, "device"), {"parameter": 0, "state": 0})
        self.assertGreaterEqual(plan["disk_bytes"][0], sum(tensors_in(plan, "disk").values()))

    def test_stages_keep_their_own(self):
        with e2e.scratch() as folder:
            plan = compiled(f"{folder}/plan", "pp=2,micro_batch=2,offload=all", 2)
        self.assertEqual(tensors_in(plan, "device"), {"parameter": 0, "state": 0})
        self.assertEqual(len(plan["host_bytes"]), 2)
        self.assertTrue(all(plan["host_bytes"]))


def int_product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


class Search(unittest.TestCase):
    def cluster(self, folder, memory):
        """A cluster with one GPU of this memory for a plan."""
        device = e2e.read_json(os.path.join(e2e.SOURCE, "cost-model", "devices", "a100-sxm-80gb.json"))
        device["memory_gibibytes"]["value"] = memory / 2**30
        device["memory_reserved_gibibytes"]["value"] = 0
        path = f"{folder}/cluster.json"
        with open(path, "w") as file:
            json.dump({"version": 1, "groups": [{"nodes": 1, "devices_per_node": 1, "device": device}],
                       "levels": [{"name": "none", "span": "cluster", "gigabytes_per_second": 1,
                                   "latency_microseconds": 1, "kind": "switch"}],
                       "host": {"memory_gibibytes": 1, "pcie_gigabytes_per_second": 20, "nvme_gigabytes_per_second": 3}}, file)
        return path

    def chosen(self, memory):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={self.cluster(folder, memory)}",
                      "--global-batch=8", "--strategy=auto", "--emit=report", "-o", f"{folder}/plan"])
            return e2e.read_report(f"{folder}/plan")["chosen"]

    def test_offloads_where_nothing_fits_without(self):
        rich = self.chosen(2**30)
        self.assertEqual(rich["strategy"]["offload"], "none")
        with e2e.scratch() as folder:
            plan = compiled(f"{folder}/plan", "dp=1,micro_batch=1,recompute=full", 1)
        states = sum(tensors_in(plan, "device").values())
        # Parameters, states and gradients need more memory than this.
        poor = self.chosen(1.2 * states)
        self.assertTrue(poor["fits"])
        self.assertNotEqual(poor["strategy"]["offload"], "none")
        self.assertGreater(poor["predicted"]["offloaded_bytes"]["host"], 0)


class Folders(unittest.TestCase):
    def test_nothing_is_left_and_the_folder_is_named(self):
        with e2e.scratch() as folder:
            compiled(f"{folder}/plan", "dp=2,zero=3,offload=all,offload_to=disk", 2)
            before = sorted(os.listdir(f"{folder}/plan"))
            with tempfile.TemporaryDirectory() as files:
                e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2", f"--offload-dir={files}"])
                self.assertEqual(os.listdir(files), [])
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2"])
            self.assertEqual(sorted(os.listdir(f"{folder}/plan")), before)
            done = e2e.call([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2", "--offload-dir=/nonexistent"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("/nonexistent: no file for offloading can be created there: No such file", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
