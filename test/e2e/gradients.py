#!/usr/bin/env python3
"""Gradients in f64 through import, differentiation, codegen and the CPU runtime, against finite differences of the compiled loss and against torch."""
import json
import os
import subprocess
import sys
import unittest

import e2e

FOLDER = os.path.join(e2e.SOURCE, "test", "fixtures", "gradients")
sys.path.insert(0, FOLDER)

import numpy as np  # noqa: E402  (in the tests' environment)

from cases import all_cases  # noqa: E402

LONG = bool(os.environ.get("DPC_TEST_LONG"))
TOLERANCE = 1e-5

# Operators that a training compiler must support (tiers 1 and 2).
TIERS = """
Add Sub Mul Div Neg Pow Sqrt Reciprocal Exp Log Erf Tanh Sigmoid Relu Gelu Swish Sin Cos Clip Min Max MatMul Gemm Einsum Softmax LogSoftmax
LayerNormalization RMSNormalization Attention RotaryEmbedding Dropout Reshape Transpose Squeeze Unsqueeze Flatten Concat Split Slice Gather Expand
Identity Cast CastLike Trilu Where Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Constant ConstantOfShape Shape Size Range ReduceSum
ReduceMean ReduceMax SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss Conv ConvTranspose MaxPool AveragePool GlobalAveragePool GlobalMaxPool
BatchNormalization GroupNormalization InstanceNormalization LpNormalization MeanVarianceNormalization Pad Resize DepthToSpace SpaceToDepth LeakyRelu
Elu Selu Celu PRelu HardSwish HardSigmoid Softplus Softsign Mish ThresholdedRelu Hardmax Shrink Abs Sign Floor Ceil Round Mod Sum Mean Xor IsNaN IsInf
Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh TopK ArgMax ArgMin OneHot CumSum Tile GatherElements GatherND ScatterElements ScatterND TensorScatter
EyeLike ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare
""".split()

# Operators without a gradient, because their result is not a float or does not depend on floats.
WITHOUT = {
    **dict.fromkeys("Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Xor IsNaN IsInf".split(), "gives booleans"),
    **dict.fromkeys("ArgMax ArgMin Shape Size".split(), "gives integers"),
    **dict.fromkeys("Constant ConstantOfShape Range OneHot EyeLike".split(), "depends on no float tensor"),
}

# Ops of the dialect that declare a gradient although no gradient passes through them, with the reason.
UNREACHED = {
    **dict.fromkeys("dpc.unary logical_not,dpc.binary logical_and,dpc.binary logical_or,dpc.binary logical_xor".split(","), "takes no floats"),
    **dict.fromkeys("dpc.unary gelu_grad,dpc.unary gelu_tanh_grad,dpc.unary silu_grad".split(","), "a derivative itself: refused"),
}


def agreement(got, want):
    """The largest relative error of two arrays; errors of small elements are relative to the largest element."""
    scale = np.maximum(np.abs(want), 1e-3 * max(np.abs(want).max(initial=0), 1e-3))
    return float((np.abs(got - want) / scale).max(initial=0)) if np.isfinite(got).all() else float("inf")


class Run:
    """The cases of one list, differentiated on `ranks` ranks."""

    def __init__(self, folder, cases, ranks):
        self.folder, self.cases = folder, cases
        lines = [self.prepare(case, ranks > 1) for case in cases]
        listed = os.path.join(folder, "cases.txt")
        with open(listed, "w", encoding="utf-8") as file:
            file.writelines(lines)
        words = [e2e.tool("dpc-cases"), listed, "--gradients", f"--ranks={ranks}", "--jobs=" + os.environ.get("DPC_JOBS", "2")]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        self.why = dict(line.split("\t", 1) for line in done.stdout.splitlines())

    def prepare(self, case, split):
        folder = os.path.join(self.folder, case.name)
        os.makedirs(os.path.join(folder, "in"))
        model = case.write(folder, split)
        for name, value in case.feeds(split).items():
            np.save(os.path.join(folder, "in", name + ".npy"), value)
        return f"{case.name}\t{model}\t{folder}\n"

    def gradient(self, case, name, kind):
        return np.load(os.path.join(self.folder, case.name, kind, name + ".npy"))

    def problems(self, expected):
        """Returns a line for every missing or wrong gradient; `expected` holds torch's: {case: {parameter: flat gradient}}."""
        for case in self.cases:
            if self.why.get(case.name, "was not run"):
                yield f"{case.name}: {self.why.get(case.name, 'was not run')}"
                continue
            for name in case.parameters:
                got = self.gradient(case, name, "gradient")
                numeric = agreement(got, self.gradient(case, name, "numeric"))
                torch = agreement(got.ravel(), np.array(expected[case.name][name])) if case.name in expected else 0
                if max(numeric, torch) > TOLERANCE:
                    yield f"{case.name}: gradient in {name} is off by {numeric:.1e} from finite differences, {torch:.1e} from torch"

    def ops(self):
        """Returns the ops of the dialect that gradients passed through."""
        found = set()
        for case in self.cases:
            path = os.path.join(self.folder, case.name, "ops.txt")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    found |= set(file.read().splitlines())
        return found


def references():
    with open(os.path.join(FOLDER, "torch.json"), encoding="utf-8") as file:
        return json.load(file)


class Gradients(unittest.TestCase):
    cases = all_cases()
    maxDiff = None

    def test_every_operator_has_a_case_or_a_reason(self):
        tried = set().union(*(case.operators() for case in self.cases))
        self.assertEqual([op for op in TIERS if op not in tried and op not in WITHOUT], [])
        self.assertEqual(len(self.cases), len({case.name for case in self.cases}))

    def test_torch_was_asked_for_all_that_it_has(self):
        expected = references()
        self.assertEqual([case.name for case in self.cases if (case.torch is None) == (case.name in expected)], [])
        self.assertEqual(set(expected) - {case.name for case in self.cases}, {"stops.pt2", "saturated.pt2", "kinks.pt2"})

    def test_on_one_rank(self):
        with e2e.scratch() as folder:
            run = Run(folder, self.cases, 1)
            self.assertEqual(list(run.problems(references())), [])
            differentiable = e2e.must([e2e.tool("dpc-cases"), "--list-differentiable"]).split("\n")[:-1]
            self.assertEqual([op for op in differentiable if op not in run.ops() and op not in UNREACHED], [])
            self.assertEqual([op for op in UNREACHED if op in run.ops() or op not in differentiable], [])

    def program(self, name, inputs, ranks):
        """Compares the gradients of NAME.pt2 with torch's; returns them."""
        with e2e.scratch() as folder:
            os.makedirs(os.path.join(folder, "in"))
            for key, value in inputs.items():
                np.save(os.path.join(folder, "in", key + ".npy"), value)
            listed = os.path.join(folder, "cases.txt")
            with open(listed, "w", encoding="utf-8") as file:
                file.write(f"{name}\t{FOLDER}/{name}.pt2\t{folder}\n")
            self.assertEqual(e2e.must([e2e.tool("dpc-cases"), listed, "--gradients", f"--ranks={ranks}"]), f"{name}\t\n")
            found = {}
            for key, want in references()[name + ".pt2"].items():
                found[key] = np.load(os.path.join(folder, "gradient", key + ".npy"))
                self.assertLessEqual(agreement(found[key].ravel(), np.array(want)), TOLERANCE, f"{key} on {ranks} ranks")
            return found

    def test_a_program_that_stops_gradients(self):
        """Expects torch's gradients instead of finite differences: zero for the padding row of an embedding, and none through detach and no_grad."""
        for ranks in (1, 2):
            found = self.program("stops", {"ids": np.array([[0, 1, 2], [4, 1, 0]])}, ranks)
            self.assertEqual(list(found["table.weight"][1]), [0, 0, 0])

    def test_a_program_whose_losses_saturate(self):
        """Expects torch's gradients, which are not those of the clamped logarithms."""
        for ranks in (1, 2):
            self.program("saturated", {"x": np.array([[1.0, 0, 1, 0], [0, 1, 0.5, 1]])}, ranks)

    def test_a_program_at_its_kinks(self):
        """Where functions have kinks, gradients are those that torch chooses."""
        for ranks in (1, 2):
            self.program("kinks", {"x": np.array([[1, 0.5], [0.25, 0.125]])}, ranks)

    def run_on(self, ranks, first, step):
        with e2e.scratch() as folder:
            cases = [case for case in self.cases if case.parameters][first::1 if LONG else step]
            self.assertEqual(list(Run(folder, cases, ranks).problems(references())), [])

    def test_over_two_ranks(self):
        self.run_on(2, 0, 5)

    def test_over_three_ranks(self):
        self.run_on(3, 3, 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
