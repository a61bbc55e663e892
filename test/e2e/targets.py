#!/usr/bin/env python3
"""--for=TARGET searches only what the target can express, with its times and memory, and writes its configuration;
--headroom leaves memory free."""
import os
import re
import unittest

import e2e

# By target: the exported file, and the software profile.
TARGETS = {"megatron": ("megatron.sh", "megatron-core-2024"), "torchtitan": ("torchtitan.py", "pytorch-fsdp-2024"),
           "deepspeed": ("ds_config.json", "megatron-deepspeed-2022"), "accelerate": ("accelerate.yaml", "pytorch-fsdp-2024"),
           "colossalai": ("colossalai.json", "pytorch-fsdp-2024"), "galvatron": ("galvatron.json", "megatron-core-2024"),
           "maxtext": ("maxtext.yml", "pytorch-fsdp-2024")}
# Keys that a user may fix; not every target accepts each.
KEYS = ("zero=0", "tp=2", "recompute=full", "micro_batch=1")
CLUSTERS = ("a100-2x8", "dgx-h100-1")


def cluster(name):
    return f"--cluster={e2e.SOURCE}/examples/clusters/{name}.json"


class Planner:
    def __init__(self, folder):
        self.folder = folder
        self.llama = f"{folder}/llama.onnx"
        e2e.must([e2e.tool("dpc-model"), "llama", "--layers=8", "--hidden=1024", "--heads=16", "--kv-heads=4", "--ffn=2816", "--vocab=32000", "--seq=1024", "-o", self.llama])

    def call(self, model, name, *words):
        self.out = f"{self.folder}/out"
        return e2e.call([e2e.tool("dpc-opt"), model, cluster(name), "--global-batch=64", "--precision=bf16", "--verify=off", "-o", self.out, *words])

    def report(self):
        return e2e.read_report(self.out)

    def time(self):
        chosen = self.report()["chosen"]
        return chosen["predicted"]["step_seconds"] if chosen["fits"] else float("inf")


class ForTargets(unittest.TestCase):
    """Each target plans two models on two clusters."""

    def check_plan(self, planner, model, name, target):
        done = planner.call(model, name, f"--for={target}")
        self.assertEqual((done.returncode, done.stderr), (0, ""), target)
        file, software = TARGETS[target]
        report = planner.report()
        for line in (done.stdout.splitlines()[0], report["software"]):
            self.assertRegex(line, f"^times and memory are those of .*{software}")
        index = e2e.read_json(f"{planner.out}/exports/index.json")
        self.assertIn(file, index["files"])
        self.assertEqual(index["strategies"], {target: index["strategy"]})
        self.assertFalse(os.path.exists(f"{planner.out}/plan.json"))
        chosen = report["chosen"]
        self.assertTrue(chosen["fits"])
        self.assertLessEqual(chosen["predicted"]["memory_bytes"]["peak"], report["cluster"]["usable_bytes_per_device"])
        return index["strategy"], planner.time(), chosen["predicted"]["memory_bytes"]["peak"]

    def check_again(self, planner, model, name, target, strategy, seconds, peak):
        """The strategy alone has the same price, under the target's profile as under --for; the rules accept it."""
        done = planner.call(model, name, f"--for={target}", f"--strategy={strategy}")
        self.assertEqual((done.returncode, done.stderr), (0, ""), target)
        self.assertAlmostEqual(planner.time(), seconds, delta=1e-3 * seconds)
        self.assertAlmostEqual(planner.report()["chosen"]["predicted"]["memory_bytes"]["peak"], peak, delta=1e-3 * peak)

    def check_fixed_keys(self, planner, model, name, target, seconds):
        """No fixed key makes a faster plan."""
        found = 0
        for key in KEYS:
            done = planner.call(model, name, f"--for={target}", f"--strategy={key}")
            if done.returncode == 0:
                found += 1
                self.assertGreaterEqual(planner.time(), 0.995 * seconds, f"{target} {key}")
            else:
                self.assertIn(f"--for={target}: ", done.stderr)
        self.assertGreaterEqual(found, 2)

    def test_every_target(self):
        with e2e.scratch() as folder:
            planner = Planner(folder)
            for i, target in enumerate(TARGETS):
                for j, (model, name) in enumerate((model, name) for model in (planner.llama, e2e.model("gpt2-tiny")) if (target, model) != ("maxtext", e2e.model("gpt2-tiny")) for name in CLUSTERS):
                    with self.subTest(f"{target} {os.path.basename(os.path.dirname(model))} {name}"):
                        strategy, seconds, peak = self.check_plan(planner, model, name, target)
                        if (i + j) % 4 == 0:
                            self.check_again(planner, model, name, target, strategy, seconds, peak)
                            self.check_fixed_keys(planner, model, name, target, seconds)

    def test_a_target_never_gets_what_it_lacks(self):
        """dpc's own runtime chooses zb-h1 for this pipeline, which Megatron-LM lacks."""
        with e2e.scratch() as folder:
            planner = Planner(folder)
            words = ["--strategy=pp=4", "--emit=report"]
            self.assertEqual(planner.call(planner.llama, "dgx-h100-1", *words).returncode, 0)
            self.assertEqual(planner.report()["chosen"]["strategy"]["schedule"], "zb-h1")
            done = planner.call(planner.llama, "dgx-h100-1", "--strategy=pp=4", "--for=megatron")
            self.assertEqual(done.returncode, 0, done.stderr)
            for candidate in planner.report()["candidates"]:
                self.assertIn(candidate["strategy"]["schedule"], ("1f1b", "interleaved"))

    def test_a_fixed_strategy_that_it_lacks_is_refused_with_a_report(self):
        with e2e.scratch() as folder:
            planner = Planner(folder)
            done = planner.call(planner.llama, "dgx-h100-1", "--strategy=dp=4,pp=2,schedule=zb-h1,micro_batch=1", "--for=megatron")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("cannot be expressed: Megatron-LM has these schedules: 1f1b, interleaved", done.stderr)
            self.assertEqual(planner.report()["chosen"]["strategy"]["schedule"], "zb-h1")

    def test_what_a_target_cannot_plan_for_is_said(self):
        with e2e.scratch() as folder:
            planner = Planner(folder)
            for words, expected in ((["--for=mesh"], "'mesh' is not software for which dpc can plan; accepted: dpc, accelerate, colossalai, deepspeed, galvatron, maxtext, megatron, torchtitan"),
                                    (["--for=megatron", "--precision=fp32"], "--precision=bf16 and fp16 are accepted"),
                                    (["--for=megatron", "--cluster=local:2"], "for which device cpu-local has no rates"),
                                    (["--for=megatron", "--infer"], "Megatron-LM trains")):
                command = [e2e.tool("dpc-opt"), planner.llama, "-o", f"{folder}/out", "--global-batch=8"]
                command += [cluster("dgx-h100-1")] * (not any(word.startswith("--cluster") for word in words)) + ["--precision=bf16"] * (not any(word.startswith("--precision") for word in words))
                done = e2e.call([*command, *words])
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertIn(expected, done.stderr)

    def test_software_of_the_cluster_file_points_to_its_target(self):
        with e2e.scratch() as folder:
            planner = Planner(folder)
            described = e2e.read_json(f"{e2e.SOURCE}/examples/clusters/dgx-h100-1.json")
            e2e.write_json(f"{folder}/megatron.json", {**described, "software": "megatron-core-2024"})
            said = e2e.must([e2e.tool("dpc-opt"), planner.llama, f"--cluster={folder}/megatron.json", "--global-batch=64", "--precision=bf16", "--verify=off",
                             "--strategy=pp=8,schedule=zb-h1", "--emit=report", "-o", f"{folder}/out"])
            self.assertTrue(said.startswith("times and memory are those of Megatron-LM (megatron-core-2024)\n"), said)
            self.assertTrue(any("--for=megatron searches only what it can express" in text for text in e2e.read_report(f"{folder}/out")["remarks"]))


class Nearest(unittest.TestCase):
    def test_a_free_search_writes_the_nearest_plan_with_one_remark(self):
        with e2e.scratch() as folder:
            planner = Planner(folder)
            done = planner.call(planner.llama, "dgx-h100-1", "--strategy=zero=1", "--emit=galvatron")
            self.assertEqual(done.returncode, 1)  # a key of the user that it lacks in every strategy
            self.assertIn("Galvatron has these ZeRO stages: 0, 2, 3", done.stderr)
            self.assertTrue(os.path.exists(f"{planner.out}/report.json"))
            done = planner.call(planner.llama, "dgx-h100-1", "--strategy=pp=4", "--emit=megatron")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("remark: --emit=megatron: the file has --strategy=", done.stdout)
            report, index = planner.report(), e2e.read_json(f"{planner.out}/exports/index.json")
            self.assertEqual(report["chosen"]["strategy"]["schedule"], "zb-h1")
            remarks = [text for text in report["remarks"] if text.startswith("--emit=megatron: the file has --strategy=")]
            self.assertEqual(len(remarks), 1, report["remarks"])
            self.assertIn("; --for=megatron searches only what it can express", remarks[0])
            self.assertEqual(re.search(r"--strategy=(\S+) ", remarks[0])[1], index["strategies"]["megatron"])
            self.assertNotIn("zb-h1", index["strategies"]["megatron"])
            self.assertIn("zb-h1", index["strategy"])
            self.assertEqual(index["files"], ["megatron.sh"])


class Headroom(unittest.TestCase):
    def write_cluster(self, folder, gibibytes):
        """Eight H100s with another size of memory."""
        path = f"{folder}/cluster.json"
        device = e2e.read_json(f"{e2e.SOURCE}/cost-model/devices/h100-sxm-80gb.json")
        device["memory_gibibytes"]["value"] = gibibytes
        e2e.write_json(f"{folder}/device.json", device)
        described = e2e.read_json(f"{e2e.SOURCE}/examples/clusters/dgx-h100-1.json")
        for group in described["groups"]:
            group["device"] = "device.json"
        e2e.write_json(path, described)
        return path

    def plan(self, folder, *words):
        return e2e.call([e2e.tool("dpc-opt"), f"{folder}/llama.onnx", f"--cluster={folder}/cluster.json", "--global-batch=64", "--precision=bf16", "--verify=off",
                         "--emit=report", "-o", f"{folder}/out", *words])

    def test_plans_leave_it_free(self):
        with e2e.scratch() as folder:
            Planner(folder)
            self.write_cluster(folder, 80)
            limits = {}
            for words, share in (((), 0.05), (("--headroom=20%",), 0.2), (("--headroom=0%",), 0)):
                done = self.plan(folder, *words)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = e2e.read_report(f"{folder}/out")
                self.assertEqual(report["cluster"]["headroom"], share)
                limits[share] = report["cluster"]["usable_bytes_per_device"]
                self.assertLessEqual(report["chosen"]["predicted"]["memory_bytes"]["peak"], limits[share])
                self.assertEqual(f"({100 * share:g} % headroom kept)" in " ".join(done.stdout.split()), share > 0, done.stdout)
            self.assertAlmostEqual(limits[0.05] / limits[0], 0.95, places=6)
            self.assertAlmostEqual(limits[0.2] / limits[0], 0.8, places=6)

    def test_a_fixed_plan_may_use_all_memory(self):
        with e2e.scratch() as folder:
            Planner(folder)
            self.write_cluster(folder, 80)
            fixed = "--strategy=dp=8,tp=1,zero=1,micro_batch=8"
            self.assertEqual(self.plan(folder, fixed).returncode, 0)
            report = e2e.read_report(f"{folder}/out")
            reserved = e2e.read_json(f"{folder}/device.json")["memory_reserved_gibibytes"]["value"]
            peak = report["chosen"]["predicted"]["memory_bytes"]["peak"]
            self.write_cluster(folder, reserved + peak / 2**30 / 0.98)
            for words in ((), ("--headroom=10%",)):
                done = self.plan(folder, fixed, *words)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = e2e.read_report(f"{folder}/out")
                self.assertTrue(report["chosen"]["fits"])
                self.assertTrue(any(text.startswith("the plan leaves 2 % of the memory free, less than the headroom of ") for text in report["remarks"]), report["remarks"])
            self.assertEqual(self.plan(folder).returncode, 0)  # a free search finds another plan
            report = e2e.read_report(f"{folder}/out")
            self.assertEqual(report["cluster"]["headroom"], 0.05)
            self.assertTrue(report["chosen"]["fits"])

    def test_a_headroom_that_the_user_gives_binds_a_search(self):
        with e2e.scratch() as folder:
            Planner(folder)
            self.write_cluster(folder, 80)
            self.assertEqual(self.plan(folder, "--objective=memory").returncode, 0)
            reserved = e2e.read_json(f"{folder}/device.json")["memory_reserved_gibibytes"]["value"]
            peak = e2e.read_report(f"{folder}/out")["chosen"]["predicted"]["memory_bytes"]["peak"]
            self.write_cluster(folder, reserved + peak / 2**30 / 0.98)
            self.assertEqual(self.plan(folder, "--objective=memory").returncode, 0)  # by default, all memory counts if nothing else fits
            self.assertTrue(any("less than the headroom of 5 %" in text for text in e2e.read_report(f"{folder}/out")["remarks"]))
            done = self.plan(folder, "--objective=memory", "--headroom=30%")
            self.assertEqual(done.returncode, 0, done.stderr)  # a report needs no plan that fits
            self.assertFalse(e2e.read_report(f"{folder}/out")["chosen"]["fits"])

    def test_bad_values(self):
        with e2e.scratch() as folder:
            for value in ("5", "0.05", "91%", "-1%", "x%"):
                done = e2e.call([e2e.tool("dpc-opt"), e2e.model("mlp"), "--cluster=local:1", f"--headroom={value}", "-o", f"{folder}/out"])
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertIn("a share from 0% to 90%, such as 8%", done.stderr)


if __name__ == "__main__":
    unittest.main()
