#!/usr/bin/env python3
"""Which GEMMs --precision=fp8 computes in fp8, what it refuses, and how estimates and exports treat it.

follow_curve.py checks that such plans train like PyTorch, with the runtime's loops on CPUs.
"""
import collections
import os
import re
import sys
import unittest

import e2e

CLUSTERS = os.path.join(e2e.SOURCE, "examples", "clusters")


def compile_plan(folder, model, *words, ranks=1):
    e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster=local:{ranks}", "--global-batch=12", "--precision=fp8",
              "-o", f"{folder}/plan", *words])
    return e2e.read_plan(f"{folder}/plan")


def formats(plan):
    """Counts the GEMMs per pair of element types, by phase; None is bf16."""
    found = collections.Counter()
    for phase, instructions in plan["phases"].items():
        for instruction in instructions:
            if instruction["op"] == "matmul":
                codes = instruction["fp8"]
                found[phase, codes and (codes["a"], codes["b"])] += 1
    return found


class Products(unittest.TestCase):
    def test_linear_layers_and_their_gradients(self):
        with e2e.scratch() as folder:
            found = formats(compile_plan(folder, "gpt2-tiny", "--strategy=dp=1", "--verify=off"))
        value, gradient = "f8e4m3fn", "f8e5m2"
        # Each of the four layers has four GEMMs. The two of attention and the one of the last layer are in bf16.
        self.assertEqual(found.pop(("forward", (value, value))), 16)
        self.assertEqual(found.pop(("forward", None)), 4 * 2 + 1)
        self.assertEqual(found.pop(("backward", None)), 4 * 5 + 2)
        self.assertEqual(found.pop(("backward", (gradient, value)), 0) + found.pop(("backward", (value, gradient)), 0), 32)
        self.assertFalse(found)

    def test_gpus_have_the_same(self):
        with e2e.scratch() as folder:
            here = formats(compile_plan(folder, "gpt2-tiny", "--strategy=dp=1", "--verify=off"))
            there = formats(compile_plan(folder, "gpt2-tiny", "--strategy=dp=1", "--verify=off", "--target-gpu=sm_90"))
        coded = lambda found: {key: count for key, count in found.items() if key[1]}
        self.assertEqual(coded(here), coded(there))

    def test_none(self):
        """A rank has 22 columns or fewer, so nothing is a multiple of 16. The plan for one device has fp8 GEMMs."""
        for strategy, ranks in (("tp=3", 3), ("cp=5", 5)):
            with self.subTest(strategy=strategy), e2e.scratch() as folder:
                plan = compile_plan(folder, "llama-tiny", f"--strategy={strategy}", "--verify=on", ranks=ranks)
                self.assertEqual({key[1] for key in formats(plan)}, {None})
                report = e2e.read_report(f"{folder}/plan")
                self.assertIn("all GEMMs of this plan are in bf16", " ".join(report["remarks"]))
                self.assertEqual(report["verification"]["scope"], "full")
                self.assertFalse(report["verification"]["magnifies_rounding"])

    def test_no_experts(self):
        """On any number of ranks, two layers of attention and an MLP have four GEMMs each."""
        for strategy in ("dp=4", "dp=4,ep=4"):
            with self.subTest(strategy=strategy), e2e.scratch() as folder:
                plan = compile_plan(folder, "moe-tiny", f"--strategy={strategy}", "--verify=off", ranks=4)
                coded = [i["name"] for i in plan["phases"]["forward"] if i["op"] == "matmul" and i["fp8"]]
                self.assertEqual(len(coded), 8, coded)
                self.assertFalse([name for name in coded if "Einsum" in name])

    def test_none_is_told_wherever_a_plan_goes(self):
        for emit in ("report", "mlir", "plan", "plan,report"):
            with self.subTest(emit=emit), e2e.scratch() as folder:
                done = e2e.call([e2e.tool("dpc-opt"), e2e.model("llama-tiny"), "--cluster=local:3", "--global-batch=12", "--precision=fp8",
                                 "--strategy=tp=3", f"--emit={emit}", "--verify=off", "-o", f"{folder}/plan"])
                text = " ".join(done.stdout.split())
                self.assertIn("all GEMMs of this plan are in bf16", text)
                self.assertNotIn("operations in fp8", text)
                if "report" in emit:
                    self.assertEqual(e2e.read_report(f"{folder}/plan")["step"]["fp8_fraction"], 0)

    def test_ranks_compute_what_one_device_does(self):
        for model, ranks, strategy in (("gpt2-tiny", 4, "dp=2,tp=2,zero=3,micro_batch=2"), ("llama-tiny", 2, "pp=2,micro_batch=2"),
                                       ("bert-tiny", 3, "dp=3"), ("moe-tiny", 2, "dp=2,ep=2"), ("gpt2-tiny", 3, "tp=3"),
                                       ("dit-tiny", 2, "cp=2")):
            with self.subTest(model=model, strategy=strategy), e2e.scratch() as folder:
                plan = compile_plan(folder, model, f"--strategy={strategy}", "--verify=on", ranks=ranks)
                self.assertTrue(any(codes for _, codes in formats(plan)))
                self.assertEqual(e2e.read_report(f"{folder}/plan")["verification"]["scope"], "full")


class Refusals(unittest.TestCase):
    def refused(self, *words):
        with e2e.scratch() as folder:
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--global-batch=16", "--precision=fp8", "--verify=off",
                             "-o", f"{folder}/plan", *words])
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            return done.stderr

    def test_devices_without(self):
        self.assertRegex(self.refused(f"--cluster={CLUSTERS}/a100-2x8.json"),
                         "--precision=fp8: device a100-sxm-[48]0gb has no fp8 GEMMs; --precision=bf16 is accepted here")
        self.assertIn("--precision=fp8: sm_80 has no fp8 GEMMs; sm_89 and later are accepted",
                      self.refused("--cluster=local:1", "--target-gpu=sm_80"))

    def test_scale(self):
        self.assertIn("--loss-scale=dynamic: gradients of --precision=fp8", self.refused("--cluster=local:1", "--loss-scale=dynamic"))


class Estimates(unittest.TestCase):
    def test_large_layers_take_less_time(self):
        seconds, fractions = {}, {}
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-model"), "llama", "--layers=8", "--hidden=8192", "--heads=64", "--seq=4096", "-o", f"{folder}/llama.onnx"])
            for precision in ("bf16", "fp8"):
                e2e.must([e2e.tool("dpc-opt"), f"{folder}/llama.onnx", f"--cluster={CLUSTERS}/dgx-h100-16.json", "--global-batch=256",
                          "--strategy=dp=128,tp=1,pp=1,zero=1,micro_batch=1", f"--precision={precision}", "--emit=report", "--verify=off", "-o", f"{folder}/plan"])
                report = e2e.read_report(f"{folder}/plan")
                seconds[precision] = report["chosen"]["predicted"]["compute_seconds"]
                fractions[precision] = report["step"].get("fp8_fraction", 0)
        print(seconds, fractions)
        self.assertEqual(fractions["bf16"], 0)
        self.assertGreater(fractions["fp8"], 0.7)
        # GEMMs take half the time. Attention, the last layer and quantization take as long as before.
        self.assertLess(seconds["fp8"], 0.9 * seconds["bf16"])
        self.assertGreater(seconds["fp8"], 0.5 * seconds["bf16"])


    def test_share_of_deep_models(self):
        """The evaluation of a deep model is extrapolated from few of its layers."""
        fractions, most = [], []
        with e2e.scratch() as folder:
            for layers in (4, 12, 24):
                e2e.must([e2e.tool("dpc-model"), "llama", f"--layers={layers}", "--hidden=1024", "--heads=8", "--seq=512", "-o", f"{folder}/llama.onnx"])
                e2e.must([e2e.tool("dpc-opt"), f"{folder}/llama.onnx", f"--cluster={CLUSTERS}/dgx-h100-16.json", "--global-batch=256",
                          "--strategy=dp=128", "--precision=fp8", "--emit=report", "--verify=off", "-o", f"{folder}/plan"])
                step = e2e.read_report(f"{folder}/plan")["step"]
                fractions.append(step["fp8_fraction"])
                most.append(step["fp8_fraction_at_most"])
        print(fractions, most)
        self.assertEqual(most, sorted(most))
        self.assertGreater(most[2], 0.8)
        for share, bound in zip(fractions, most):
            self.assertAlmostEqual(share, bound, delta=0.02)


class Exports(unittest.TestCase):
    def test_megatron_has_it_and_others_say_that_they_do_not(self):
        others = ("accelerate", "calculon", "colossalai", "deepspeed", "galvatron", "maxtext", "torchtitan")
        with e2e.scratch() as folder:
            words = [e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:2", "--global-batch=16", "--precision=fp8",
                     "--verify=off", "--strategy=dp=2", "-o", f"{folder}/out"]
            done = e2e.call([*words, "--emit=" + ",".join(("report", "megatron", *others))])
            self.assertEqual(done.returncode, 1)
            for target in others:
                self.assertRegex(done.stderr, rf"--emit={target}: .* computes in bf16, (fp16, )?fp32 \(--precision\)")
            with open(f"{folder}/out/exports/megatron.sh", encoding="utf-8") as file:
                flags = dict(re.findall(r"^  --([\w-]+)(?: (\S+))?", file.read(), re.M))
        self.assertEqual((flags["fp8-format"], flags["fp8-recipe"]), ("hybrid", "tensorwise"))
        self.assertIn("bf16", flags)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv)
