#!/usr/bin/env python3
"""JAX expressions on the CPU runtime, on 1, 2 and 3 ranks, compared with JAX's results (test/fixtures/stablehlo)."""
import math
import os
import unittest

import e2e

STABLEHLO = os.path.join(e2e.SOURCE, "test", "fixtures", "stablehlo")
TOLERANCE = 3e-5  # relative to the largest element: f32 rounding in another order
CODES = {"float32": "f4", "int32": "i4", "bool": "b1"}


def number(value):
    return float(value) if isinstance(value, str) else value


class Expressions(unittest.TestCase):
    def check(self, got, want, name):
        dtype, shape, values = got
        self.assertEqual(list(shape), want["shape"], name)
        expected = [number(v) for v in want["data"]]
        if want["kind"] == "i":
            self.assertEqual([int(v) for v in values], [int(v) for v in expected], name)
            return
        scale = max((abs(v) for v in expected if math.isfinite(v)), default=1) or 1
        for place, (a, b) in enumerate(zip(values, expected)):
            if math.isfinite(b):
                self.assertLessEqual(abs(a - b) / scale, TOLERANCE, f"{name} at {place}: {a}, expected {b}")
            else:
                self.assertTrue(a == b or (math.isnan(a) and math.isnan(b)), f"{name} at {place}: {a}, expected {b}")

    def run_family(self, family, ranks):
        case = e2e.read_json(os.path.join(STABLEHLO, f"{family}.json"))
        with e2e.scratch() as folder:
            os.mkdir(f"{folder}/in")
            for n, array in enumerate(case["inputs"]):
                e2e.write_npy(f"{folder}/in/arg{n}.npy", CODES[array["dtype"]], tuple(array["shape"]), array["data"])
            e2e.must([e2e.tool("dpc-opt"), os.path.join(STABLEHLO, f"{family}.mlir"), "--infer", f"--cluster=local:{ranks}",
                      f"--strategy=dp={ranks}", "--verify=off", "-o", f"{folder}/plan"])
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", f"--inputs={folder}/in", f"--outputs={folder}/out", "--poison"])
            for n, want in enumerate(case["outputs"]):
                self.check(e2e.read_npy(f"{folder}/out/result.{n}.npy"), want, f"{family} on {ranks}, result {n}")
            return len(case["outputs"])


def add(family):
    def test(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                self.assertGreater(self.run_family(family, ranks), 10)
    setattr(Expressions, f"test_{family}", test)


for found in sorted(os.listdir(STABLEHLO)):
    if found.endswith(".mlir"):
        add(found[:-len(".mlir")])

if __name__ == "__main__":
    unittest.main()
