#!/usr/bin/env python3
"""The pipeline that --print-pipeline prints makes the program that the compiler makes for the same strategy."""
import os
import unittest

import e2e


class Lowering(unittest.TestCase):
    def lowered(self, folder, model, ranks, strategy):
        """The program of the plan, and what the printed pipeline makes of the same training step."""
        words = [e2e.tool("dpc-opt"), e2e.model(model), "--global-batch=8", "--verify=off"]
        chosen = [f"--cluster=local:{ranks}", f"--strategy={strategy}"]
        step = os.path.join(folder, "step.mlir")
        with open(step, "w") as file:
            file.write(e2e.must([*words, "--emit=mlir"]))
        pipeline = e2e.must([*words, *chosen, "--print-pipeline"]).strip()
        self.assertTrue(pipeline.startswith("builtin.module(dpc-shard{"), pipeline)
        e2e.must([*words, *chosen, "--emit=plan,mlir", "-o", os.path.join(folder, "plan")])
        with open(os.path.join(folder, "plan", "program.mlir")) as file:
            compiled = file.read()
        piped = e2e.must([e2e.tool("dpc-opt"), step, f"--pass-pipeline={pipeline}"])
        return compiled, piped

    def compare(self, model, ranks, strategy):
        with e2e.scratch() as folder:
            compiled, piped = self.lowered(folder, model, ranks, strategy)

            def bodies(text):
                return [line for line in text.splitlines() if "dpc." in line and not line.startswith(("module", "#"))]
            self.assertGreater(len(bodies(piped)), 20)
            self.assertEqual(bodies(compiled), bodies(piped))

    def test_tensor_and_data_parallel(self):
        self.compare("mlp", 4, "dp=2,tp=2")

    def test_recomputation_and_micro_batches(self):
        self.compare("gpt2-tiny", 4, "dp=2,tp=2,zero=3,micro_batch=2,recompute=full")

    def test_pipeline(self):
        self.compare("gpt2-tiny", 4, "dp=2,pp=2,micro_batch=1,schedule=zb-h1")

    def test_needs_a_strategy_that_fits(self):
        done = e2e.call([e2e.tool("dpc-opt"), e2e.model("mlp"), "--global-batch=8", "--cluster=local:4", "--strategy=dp=3", "--print-pipeline"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("dp=3 does not divide the 4 ranks", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
