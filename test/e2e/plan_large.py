#!/usr/bin/env python3
"""A model with 175 billion parameters is planned for 1,024 GPUs without its weights.

Planning needs no weights and little memory, finds what fits and says why other strategies do not. bench/plan-gpt3
measures its time. The strategy is still verified, on a model with the same graph, fewer layers and smaller sizes, on
fewer ranks.
"""
import math
import os
import resource
import unittest

import e2e

LIMIT_MIB = 2048


class PlanLarge(unittest.TestCase):
    def test_gpt3_on_1024_gpus(self):
        with e2e.scratch() as folder:
            model, plan = f"{folder}/gpt3.onnx", f"{folder}/plan"
            e2e.must([e2e.tool("dpc-model"), "gpt", "--layers=96", "--hidden=12288", "--heads=96", "--seq=2048", "-o", model])
            text = e2e.must([e2e.tool("dpc-opt"), model, "--precision=bf16", "--global-batch=1536", "--emit=report",
                             f"--cluster={os.path.join(e2e.SOURCE, 'examples', 'clusters', 'dgx-a100-128.json')}", "-o", plan])
            used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            self.assertLess(used, LIMIT_MIB)
            self.assertFalse(os.path.exists(f"{plan}/plan.json"))
            report = e2e.read_json(f"{plan}/report.json")
        chosen = report["chosen"]
        self.assertGreater(report["parameters"]["count"], 174e9)
        self.assertTrue(chosen["fits"])
        strategy = chosen["strategy"]
        tp = math.prod(int(factor) for factor in str(strategy["tp"]).split("x"))
        self.assertEqual(strategy["dp"] * tp * strategy["pp"] * strategy["cp"], 1024)
        self.assertLess(chosen["predicted"]["memory_bytes"]["peak"], 80 * 2**30)
        # With data parallelism alone, every GPU stores 175 billion parameters, which takes terabytes.
        ddp = next(baseline for baseline in report["baselines"] if baseline["name"] == "ddp")
        self.assertFalse(ddp["fits"])
        self.assertRegex(ddp["rejected"], r"^memory .* TiB > ")
        self.assertIn("rejected: memory", text)
        self.check_verification(report)

    def check_verification(self, report):
        verification, chosen = report["verification"], report["chosen"]["strategy"]
        self.assertEqual(verification["scope"], "shrunk", verification)
        self.assertEqual([layer["before"] for layer in verification["shrunk"]["layers"]], [96])
        self.assertLessEqual(verification["ranks"], 16)
        self.assertGreater(verification["compared_tensors"], 50)
        self.assertLess(verification["tolerance_share"], 1)
        sizes = {size["before"]: size["after"] for size in verification["shrunk"]["sizes"]}
        for size in (2048, 12288, 49152, 50257):
            self.assertLess(max(sizes[size]), 512)
        self.assertEqual(sizes[50257][0] % 2, 1)
        # Sharded dimensions stay sharded, and other dimensions stay whole.
        for key in ("dp", "tp", "pp", "cp", "ep", "vpp"):
            self.assertEqual(str(verification["strategy"][key]) == "1", str(chosen[key]) == "1", key)
        for key in ("zero", "recompute", "schedule", "sp", "cp_kind"):
            self.assertEqual(verification["strategy"][key], chosen[key], key)


if __name__ == "__main__":
    unittest.main(verbosity=2)
