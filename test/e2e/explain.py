#!/usr/bin/env python3
"""--explain shows how a weight is sharded and what alternatives cost; --diff shows the differences between two plans."""
import json
import os
import re
import unittest

import e2e


def report_into(folder, name, *words):
    path = os.path.join(folder, name)
    e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", "--emit=report", "--verify=off", "-o", path, *words])
    return path


def explain(name, strategy):
    return e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", f"--strategy={strategy}", f"--explain={name}"])


def seconds(text):
    number, unit = re.search(r"([\d.]+) (s|ms|us) a step", text).groups()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]


class Explain(unittest.TestCase):
    def test_alternatives_of_a_weight(self):
        done = explain("body.blocks.1.qkv.weight", "dp=2,tp=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "dp=2,tp=2,micro_batch=4")
        self.assertRegex(lines[1], r"^body\.blocks\.\*\.qkv\.weight: weight of a matmul, .*, 4 alike$")
        self.assertIn("column parallel (tp)", lines[2])
        ways = [line for line in lines if re.match(r"    (not split|dimension \d)", line)]
        self.assertEqual(len(ways), 3, done.stdout)
        planned = [way for way in ways if "(as planned)" in way]
        self.assertEqual(len(planned), 1, done.stdout)
        self.assertIn("(as fast)", planned[0])
        self.assertIn("(as much)", planned[0])
        # A weight that is not split takes more memory on every rank.
        whole = next(way for way in ways if "not split" in way)
        self.assertRegex(whole, r"KiB more\)|MiB more\)")
        self.assertGreaterEqual(seconds(whole), seconds(planned[0]))

    def test_a_part_of_a_name_is_enough(self):
        done = explain("proj.weight", "tp=4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("row parallel (tp)", done.stdout.splitlines()[2])

    def test_without_tensor_axes(self):
        done = explain("wte", "dp=4,zero=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the strategy has tp=1", done.stdout)

    def test_unknown_names(self):
        for name, mention in (("attn", "no parameter, state, input or operator has this name; operators with weights: body.wte.weight, "),
                              ("QKV.weights", "no parameter, state, input or operator has this name; near: body.blocks.*.qkv.weight"),
                              ("weight", "several operators have this name")):
            done = explain(name, "tp=4")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(mention, done.stderr)


    def test_near_names(self):
        done = explain("blocks.1.qkv.wieght", "dp=4")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertRegex(done.stderr.split("near: ")[1], r"^body\.blocks\.\*\.qkv\.weight, ")

    def test_what_does_not_fit_says_so(self):
        """On devices with little more memory than ZeRO-3 needs on a rank. Of 2.5 MiB, a plan may use 95 %."""
        devices = os.path.join(e2e.SOURCE, "cost-model", "devices", "cpu-local.json")
        with e2e.scratch() as folder:
            device = e2e.read_json(devices)
            device["memory_gibibytes"]["value"] = device["memory_reserved_gibibytes"]["value"] + 2.5 / 1024
            path = os.path.join(folder, "small.json")
            with open(path, "w") as file:
                json.dump({"version": 1, "name": "small", "groups": [{"nodes": 1, "devices_per_node": 4, "device": device}],
                           "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": 10, "latency_microseconds": 3, "kind": "switch",
                                       "in_network_reduction": False}],
                           "host": {"memory_gibibytes": 8, "pcie_gigabytes_per_second": 10, "nvme_gigabytes_per_second": 1}}, file)
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={path}", "--global-batch=8", "--strategy=dp=4,zero=3",
                             "--explain=body.blocks.2.fc.bias"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^    zero=0: .* more\), does not fit: more than 2\.38 MiB$")
        self.assertNotRegex(done.stdout, r"planned: .*does not fit")
        self.assertNotIn("does not fit", explain("body.blocks.2.fc.bias", "dp=4,zero=3").stdout)

    def test_a_plan_that_does_not_fit_is_explained(self):
        device = e2e.read_json(os.path.join(e2e.SOURCE, "cost-model", "devices", "cpu-local.json"))
        device["memory_gibibytes"]["value"] = device["memory_reserved_gibibytes"]["value"] + 1e-3
        with e2e.scratch() as folder:
            path = os.path.join(folder, "small.json")
            e2e.write_json(path, {"version": 1, "groups": [{"nodes": 1, "devices_per_node": 4, "device": device}],
                                  "levels": [{"name": "wire", "span": "cluster", "gigabytes_per_second": 10, "latency_microseconds": 3, "kind": "switch"}]})
            done = e2e.call([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={path}", "--global-batch=8", "--strategy=dp=4", "--explain=qkv.weight"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout.splitlines()[0], r"^dp=4,tp=1,micro_batch=\d+, which does not fit: memory [\d.]+ MiB > ")
        self.assertRegex(done.stdout, r"(?m)^body\.blocks\.\*\.qkv\.weight: ")

    def check(self, name, strategy, title, *lines):
        """Expects the title and the lines, among them the costs of keys that would place it differently."""
        done = explain(name, strategy)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[1], title)
        for line in lines:
            self.assertRegex(done.stdout, "(?m)^" + line)
        return done.stdout

    def test_a_small_parameter(self):
        text = self.check("body.blocks.2.fc.bias", "dp=4,zero=3", "body.blocks.*.fc.bias: a parameter, 4 alike",
                          r"  planned: 256 f32 sharded as \[dp\]: 256 B of 1\.00 KiB on a rank; read by ",
                          r"    zero=0: .* a step \(.*\), .* \(.* more\)$", r"    zero=1: ", r"    zero=2: ")
        self.assertNotIn("zero=3:", text)

    def test_an_optimizer_state(self):
        self.check("body.wte.weight.exp_avg", "dp=4,zero=1", "body.wte.weight.exp_avg: an optimizer state",
                   r"  planned: 512 x 64 f32 sharded as \[dp, -\]: 32\.0 KiB of 128 KiB on a rank", r"    zero=0: .* \(.* more\)$",
                   r"    offload=optimizer: .* \(.* less\)$")

    def test_an_input(self):
        self.check("labels", "dp=2,tp=2", "labels: an input", r"  planned: 8 x 32 i\d+ sharded as \[dp, -\]: ", r"  an input is split along the batch")

    def test_an_operator_by_its_name_and_by_its_result(self):
        text = self.check("/body/blocks.1/qkv/MatMul", "dp=2,tp=2", "/body/blocks.*/qkv/MatMul: an operator, 4 alike",
                          r"  planned: matmul of \[dp, -, -\] and \[tp, -\], result .* sharded as \[dp, -, tp\]: .* \(4 times\)$",
                          r"    sp=true: ", r"    recompute=full: .* slower\), ")
        self.assertEqual(text, explain("/body/blocks.1/qkv/MatMul_output_0", "dp=2,tp=2").stdout)

    def test_an_activation_that_is_moved(self):
        self.check("blocks.3/proj/MatMul", "dp=2,tp=2", "/body/blocks.*/proj/MatMul: an operator, 4 alike",
                   r"  planned: matmul .*, partial over tp: .*; then resharded to \[dp, -, -\] ")


class Diff(unittest.TestCase):
    def test_two_strategies(self):
        with e2e.scratch() as folder:
            before, after = report_into(folder, "a", "--strategy=dp=4"), report_into(folder, "b", "--strategy=dp=2,tp=2,zero=1")
            text = e2e.must([e2e.tool("dpc-opt"), "--diff", before, after])
            first, second = e2e.read_report(before)["chosen"]["predicted"], e2e.read_report(after)["chosen"]["predicted"]
        self.assertIn("  dp: 4 -> 2\n  tp: 1 -> 2\n", text)
        self.assertIn("  zero: 0 -> 1\n", text)
        self.assertNotIn("  pp:", text)
        change = (second["memory_bytes"]["optimizer"] / first["memory_bytes"]["optimizer"] - 1) * 100
        self.assertLess(change, 0)
        self.assertRegex(text, rf"  optimizer: .* -> .*, (\d+\.?\d* % less)\n")
        for word in ("predicted", "step: ", "memory of the fullest rank", "all_reduce over tp: none -> ", "operators", "column parallel (tp)"):
            self.assertIn(word, text)

    def test_the_same(self):
        with e2e.scratch() as folder:
            path = report_into(folder, "a", "--strategy=dp=4")
            self.assertEqual(e2e.must([e2e.tool("dpc-opt"), "--diff", path, path + "/report.json"]), "no difference\n")

    def test_no_report(self):
        with e2e.scratch() as folder:
            done = e2e.call([e2e.tool("dpc-opt"), "--diff", folder, folder])
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn("report.json: cannot be read", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
