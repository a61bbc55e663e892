#!/usr/bin/env python3
"""What dpc-opt says of models with a typical mistake, and that it says nothing of the same models without it."""
import math
import struct
import unittest

import e2e

try:
    import onnx
except ImportError:
    e2e.run_in_build_environment("onnx")

CLASSES = """
  func.func @forward(%w: tensor<{classes}x16xf32> {{dpc.name = "w", dpc.role = "parameter"}},
                     %x: tensor<8x16xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %y: tensor<8xi64> {{dpc.name = "y", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %z: tensor<8x4xf32> {{dpc.name = "z", dpc.role = "input", dpc.batch_dim = 0 : i64}})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}) {{
    %h = dpc.matmul %x, %w tb : (tensor<8x16xf32>, tensor<{classes}x16xf32>) -> tensor<8x{classes}xf32>
    {scores}
    %losses, %lse = dpc.cross_entropy %s, %y ignore_index = -100 : (tensor<8x{classes}xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
    {weights}
    %total = dpc.reduce sum %rows dims = [0] : tensor<8xf32> -> tensor<f32>
    %share = dpc.constant dense<{share}> : tensor<f32> -> tensor<f32>
    %loss = dpc.binary mul %total, %share : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
  }}
"""


def binary(name, kind, a, b, shape):
    return f"%{name} = dpc.binary {kind} %{a}, %{b} : (tensor<{shape}>, tensor<{shape}>) -> tensor<{shape}>\n"


def number(name, value, shape):
    return f"%{name} = dpc.constant dense<{value}> : tensor<{shape}> -> tensor<{shape}>\n"


def keep(name, of, shape):
    return f"%{name} = dpc.reshape %{of} : tensor<{shape}> -> tensor<{shape}>\n"


def classes(scores=keep("s", "h", "8x4xf32"), weights=keep("rows", "losses", "8xf32"), count=4, share=0.125):
    return CLASSES.format(classes=count, scores=scores, weights=weights, share=share)


def unary(name, kind, of, shape):
    return f"%{name} = dpc.unary {kind} %{of} : tensor<{shape}> -> tensor<{shape}>\n"


def compared(other, square=True):
    """The squared or absolute error of h and `other`, added to the scores."""
    error = binary("e", "mul", "d", "d", "8x4xf32") if square else unary("e", "abs", "d", "8x4xf32")
    return (f"%q = dpc.convert %h {{dpc.stop_gradient}} : tensor<8x4xf32> -> tensor<8x4xf32>\n" + binary("d", "sub", "h", other, "8x4xf32") + error
            + binary("s", "add", "h", "e", "8x4xf32"))


def normalized(kind, size):
    """A norm over `size` of the 4 scores."""
    shape = f"8x{4 // size}x{size}xf32"
    rows = f"tensor<8x{4 // size}xf32>"
    return (f"%g = dpc.reshape %h : tensor<8x4xf32> -> tensor<{shape}>\n"
            f"%n, %mean, %rstd = dpc.norm {kind} %g eps = 1.0e-5 : (tensor<{shape}>) -> (tensor<{shape}>, {rows}, {rows})\n"
            f"%s = dpc.reshape %n : tensor<{shape}> -> tensor<8x4xf32>\n")


def softened(size):
    shape = f"8x{4 // size}x{size}xf32"
    return (f"%g = dpc.reshape %h : tensor<8x4xf32> -> tensor<{shape}>\n%p = dpc.softmax %g : tensor<{shape}> -> tensor<{shape}>\n"
            f"%f = dpc.reshape %p : tensor<{shape}> -> tensor<8x4xf32>\n" + binary("s", "mul", "f", "h", "8x4xf32"))


ATTENTION = """
  func.func @forward(%w: tensor<32x16xf32> {{dpc.name = "w", dpc.role = "parameter"}}{buffer},
                     %ids: tensor<4x8xi64> {{dpc.name = "ids", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %labels: tensor<4x8xi64> {{dpc.name = "labels", dpc.role = "input", dpc.batch_dim = 0 : i64}})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}) {{
    {ids}
    %x = dpc.embedding %w, %read : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>
    %q = dpc.reshape %x : tensor<4x8x16xf32> -> tensor<4x1x8x16xf32>
    {mask}
    %o, %lse = dpc.attention %q, %q, %q {operand} scale = 0.25 {causal} : ({types}) -> (tensor<4x1x8x16xf32>, tensor<4x1x8xf32>)
    %z = dpc.reshape %o : tensor<4x1x8x16xf32> -> tensor<4x8x16xf32>
    %y = dpc.matmul %z, %w tb : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    %few = dpc.slice %y offsets = [0, {scored}, 0] strides = [1, 1, 1] : tensor<4x8x32xf32> -> tensor<4x7x32xf32>
    %next = dpc.slice %{target} offsets = [0, 1] strides = [1, 1] : tensor<4x8xi64> -> tensor<4x7xi64>
    %scores = dpc.reshape %few : tensor<4x7x32xf32> -> tensor<28x32xf32>
    %classes = dpc.reshape %next : tensor<4x7xi64> -> tensor<28xi64>
    %losses, %ls = dpc.cross_entropy %scores, %classes ignore_index = -100 : (tensor<28x32xf32>, tensor<28xi64>) -> (tensor<28xf32>, tensor<28xf32>)
    %total = dpc.reduce sum %losses dims = [0] : tensor<28xf32> -> tensor<f32>
    %share = dpc.constant dense<0.0357142857> : tensor<f32> -> tensor<f32>
    %loss = dpc.binary mul %total, %share : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
  }}
"""
HIDDEN = "0xFF800000"
SQUARE = "1x1x8x8x"


def triangle(diagonal, hidden=HIDDEN, kept="0.0"):
    """A mask that has `hidden` from `diagonal` on, and `kept` before."""
    return (f"%t = dpc.iota dim = 2 : tensor<{SQUARE}i64>\n%c = dpc.iota dim = 3 : tensor<{SQUARE}i64>\n" + number("k", diagonal, SQUARE + "i64")
            + binary("first", "add", "t", "k", SQUARE + "i64")
            + f"%hit = dpc.compare ge %c, %first : (tensor<{SQUARE}i64>, tensor<{SQUARE}i64>) -> tensor<{SQUARE}i1>\n" + number("hidden", hidden, SQUARE + "f32")
            + number("kept", kept, SQUARE + "f32")
            + f"%m = dpc.select %hit, %hidden, %kept : (tensor<{SQUARE}i1>, tensor<{SQUARE}f32>, tensor<{SQUARE}f32>) -> tensor<{SQUARE}f32>\n")


# As F.softmax over a mask of tokens.
PADDING = """%one = dpc.reshape %labels : tensor<4x8xi64> -> tensor<4x1x1x8xi64>
    %m = dpc.convert %one : tensor<4x1x1x8xi64> -> tensor<4x1x1x8xf32>"""
# The ids as they are, after those that are hidden, and one position later.
READ = keep("read", "ids", "4x8xi64")
HIDES = """%none = dpc.constant dense<31> : tensor<4x8xi64> -> tensor<4x8xi64>
    %over = dpc.compare gt %labels, %none : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi1>
    %read = dpc.select %over, %none, %ids : (tensor<4x8xi1>, tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>"""
LATER = """%start = dpc.constant dense<0> : tensor<4x1xi64> -> tensor<4x1xi64>
    %early = dpc.slice %ids offsets = [0, 0] strides = [1, 1] : tensor<4x8xi64> -> tensor<4x7xi64>
    %read = dpc.concat %start, %early dim = 1 : (tensor<4x1xi64>, tensor<4x7xi64>) -> tensor<4x8xi64>"""


def attention(mask="", causal=False, target="ids", scored=0, shape=SQUARE, ids=READ, buffer=""):
    query = "tensor<4x1x8x16xf32>"
    types = ", ".join([query] * 3 + ([f"tensor<{shape}f32>"] if mask else []))
    return ATTENTION.format(mask=mask, operand="mask %m" if mask else "", causal="causal" if causal else "", types=types, target=target, scored=scored,
                            ids=ids, buffer=buffer)


TWICE = "'dpc.cross_entropy' applies a softmax to the result of '{}', which is a {} already"
CUT = "'dpc.cross_entropy' gets scores that 'dpc.unary' cuts off at 0 (relu): classes below 0 get no gradient"
TANH = "'dpc.cross_entropy' gets scores of 'dpc.unary', which are between -1.0 and 1.0: with 4 classes, the loss cannot fall below 0.34"
NEGATED = "'dpc.cross_entropy' has a negative factor in the loss: training makes the labels less likely"
ONE_CLASS = "'dpc.cross_entropy' gets scores of one class: the loss is always 0 and trains nothing"
NO_LABELS = "'dpc.cross_entropy' gives its labels the weight 0 (label_smoothing=1): the loss does not depend on them"
ZERO = "'dpc.binary' multiplies the loss by 0: it trains nothing"
ITSELF = "'dpc.binary' compares a value with itself: the error is always 0 and trains nothing"
ONE = "'dpc.softmax' is a softmax of one element: its result is always 1"
BIAS = "'dpc.norm' normalizes groups of one element: its result is its bias, whatever its input is"
SIGN = "'dpc.norm' normalizes groups of one element: its result has only the sign of its input"
SUM = ("'dpc.reduce' sums the loss over the batch and divides by no number of samples: the loss and its gradients grow with the batch, and losses of "
       "other batches do not compare; reduction='mean' divides")
NEXT = ("'dpc.attention' has a mask that keeps the keys up to t + 1 for position t: each position reads the next one; a causal mask keeps the keys "
        "up to t, as with torch.triu(diagonal=1) of -inf")
FIRST = ("'dpc.attention' has a mask that hides the keys from t on for position t: the first position has no key; a causal mask hides those from "
         "t + 1 on, as with torch.triu(diagonal=1) of -inf")
NUMBERS = "'dpc.attention' adds {} to the scores, which hides nothing; add 0 and -inf, or use a mask of type bool"

# label_smoothing: the loss of the labels gets one factor, and a mean over all classes is added.
SMOOTHED = (number("k", "{}", "8xf32") + binary("part", "mul", "losses", "k", "8xf32") + "%mean = dpc.reduce sum %h dims = [1] : tensor<8x4xf32> -> tensor<8xf32>\n"
            + binary("rows", "add", "part", "mean", "8xf32"))
WHOLE = number("k", "{}", "8xf32") + unary("minus", "neg", "losses", "8xf32") + binary("more", "sub", "losses", "minus", "8xf32") + binary("rows", "mul", "more", "k", "8xf32")
ZEROS = "'dpc.cross_entropy' compares samples with each other, but the label of each one is 0; row i usually has the label i"


def labelled(count):
    """A loss of `count` classes in which all labels are 0."""
    return between_samples(keep("s", "h", f"8x{count}xf32"), count)


def between_samples(scores, count=8):
    """A loss of `scores`, with one class for each sample if they are 8, in which all labels are 0."""
    zeros = "%zeros = dpc.constant dense<0> : tensor<8xi64> -> tensor<8xi64>\n"
    return classes(zeros + scores, count=count).replace("%s, %y", "%s, %zeros")


DROPPED = "'dpc.cross_entropy' gets scores of which a dropout sets some to 0"
DROPS = "'dpc.select' drops {} % of its elements: were p and 1 - p swapped?"


def dropped(name, scale):
    """A dropout of the scores: a select by numbers that depend on the step."""
    return (f"%draw = dpc.broadcast %step dims = [] : tensor<f32> -> tensor<8x4xf32>\n%limit = dpc.constant dense<0.5> : tensor<8x4xf32> -> tensor<8x4xf32>\n"
            f"%kept = dpc.compare ge %draw, %limit : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xi1>\n" + number("k", scale, "8x4xf32")
            + binary("large", "mul", "h", "k", "8x4xf32") + number("none", "0.0", "8x4xf32")
            + f"%{name} = dpc.select %kept, %large, %none : (tensor<8x4xi1>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>\n")


def with_step(model):
    return model.replace("%x: tensor<8x16xf32>", '%step: tensor<f32> {dpc.name = "step", dpc.role = "scalar"}, %x: tensor<8x16xf32>', 1)


QUERIES = "'dpc.matmul' sums the results of a softmax over another dimension than that of the softmax: the softmax of attention is over the keys, as its sum"


def summed(flag, rows=8):
    """Scores of `rows` queries for 8 keys; with `ta`, the last product sums over the queries."""
    query = "h" if rows == 8 else "q"
    return ((f"%q = dpc.slice %h offsets = [0, 0] strides = [1, 1] : tensor<8x4xf32> -> tensor<{rows}x4xf32>\n" if rows < 8 else "")
            + f"%scores = dpc.matmul %{query}, %h tb : (tensor<{rows}x4xf32>, tensor<8x4xf32>) -> tensor<{rows}x8xf32>\n"
            + f"%p = dpc.softmax %scores : tensor<{rows}x8xf32> -> tensor<{rows}x8xf32>\n"
            + f"%s = dpc.matmul %p, %{query} {flag} : (tensor<{rows}x8xf32>, tensor<{rows}x4xf32>) -> tensor<8x4xf32>\n")


# A term of the loss that a factor switches off is no mistake, unless it is all that trains a weight.
UNTRAINED = "the gradients of 'u' are always 0: the loss multiplies what they compute by 0"


def off(weight, factor="0.0"):
    """A second weight that only a term times `factor` reads."""
    model = classes(weights=f"%e = dpc.matmul %x, %{weight} tb : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>\n"
                    "%sum = dpc.reduce sum %e dims = [1] : tensor<8x4xf32> -> tensor<8xf32>\n" + number("k", factor, "8xf32")
                    + binary("none", "mul", "sum", "k", "8xf32") + binary("rows", "add", "losses", "none", "8xf32"))
    return model.replace("%x: tensor<8x16xf32>", '%u: tensor<4x16xf32> {dpc.name = "u", dpc.role = "parameter"}, %x: tensor<8x16xf32>', 1)


OTHER = "output 'accuracy' compares numbers with 'o', but the loss with 'y': is it a metric of the same labels?"


def with_accuracy(labels):
    """A second output, the share of `labels` that are 0."""
    metric = (number("first", "0", "8xi64") + f"%hit = dpc.compare eq %{labels}, %first : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>\n"
              "%hits = dpc.convert %hit : tensor<8xi1> -> tensor<8xf32>\n%right = dpc.reduce sum %hits dims = [0] : tensor<8xf32> -> tensor<f32>\n")
    model = classes().replace("%x: tensor<8x16xf32>", '%o: tensor<8xi64> {dpc.name = "o", dpc.role = "input", dpc.batch_dim = 0 : i64}, %x: tensor<8x16xf32>', 1)
    model = model.replace('dpc.name = "loss"})', 'dpc.name = "loss"}, tensor<f32> {dpc.name = "accuracy"})')
    return model.replace("return %loss : tensor<f32>", metric + "return %loss, %right : tensor<f32>, tensor<f32>")


MISTAKES = {
    "an accuracy of other labels": (with_accuracy("o"), OTHER),
    "a weight behind a factor of 0": (off("u"), UNTRAINED),
    "a softmax over the queries": (classes(summed("ta")), QUERIES),
    "dropout of the scores": (with_step(classes(dropped("s", 2.0))), DROPPED),
    "dropout of most elements": (with_step(classes(dropped("d", 10.0) + binary("s", "mul", "d", "h", "8x4xf32"))), DROPS.format(90)),
    "one label": (between_samples("%s = dpc.matmul %h, %h tb : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"), ZEROS),
    "softmax": (classes("%s = dpc.softmax %h : tensor<8x4xf32> -> tensor<8x4xf32>"), TWICE.format("dpc.softmax", "softmax")),
    "sigmoid": (classes(unary("s", "sigmoid", "h", "8x4xf32")), TWICE.format("dpc.unary", "sigmoid")),
    "relu": (classes(unary("s", "relu", "h", "8x4xf32")), CUT),
    "tanh": (classes(unary("s", "tanh", "h", "8x4xf32")), TANH),
    "a negated loss": (classes(share=-0.125), NEGATED),
    "one class": (classes(keep("s", "h", "8x1xf32"), count=1), ONE_CLASS),
    "label smoothing": (classes(weights=SMOOTHED.format("0.0")), NO_LABELS),
    "loss times 0": (classes(weights=WHOLE.format("0.0")), ZERO),
    "squared error": (classes(compared("h")), ITSELF),
    "absolute error": (classes(compared("h", square=False)), ITSELF),
    "error of what is detached": (classes(compared("q")), ITSELF),
    "softmax of one": (classes(softened(1)), ONE),
    "layer norm of one": (classes(normalized("layer", 1)), BIAS),
    "rms norm of one": (classes(normalized("rms", 1)), SIGN),
    "a sum over the batch": (classes(share=1.0), SUM),
    "twice a sum over the batch": (classes(share=2.0), SUM),
    "one key too many": (attention(triangle(2)), NEXT),
    "large negative numbers": (attention(triangle(2, "-1.0e9")), NEXT),
    "one key too few": (attention(triangle(0)), FIRST),
    "a mask of numbers": (attention(triangle(1, "0.0", "1.0")), NUMBERS.format("a mask of 0 and 1")),
    "a mask of integers": (attention(PADDING, shape="4x1x1x8x", causal=True), NUMBERS.format("the integers of an input")),
}
RIGHT = {
    "an accuracy of the labels": with_accuracy("y"),
    "a weight behind a small factor": off("u", "0.01"),
    "a softmax over the keys": classes(summed("")),
    "pooled clusters": classes(summed("ta", 4)),
    "dropout of few elements": with_step(classes(dropped("d", 2.0) + binary("s", "mul", "d", "h", "8x4xf32"))),
    "the first class is right": labelled(4),
    "as many classes as samples": labelled(8),
    "scores": classes(),
    "less label smoothing": classes(weights=SMOOTHED.format("0.9")),
    "a share of the sum": classes(share=0.0625),
    "capped scores": classes(unary("c", "tanh", "h", "8x4xf32") + number("cap", "30.0", "8x4xf32") + binary("s", "mul", "c", "cap", "8x4xf32")),
    "scaled loss": classes(weights=WHOLE.format("0.5")),
    "a term times 0": classes(weights=number("k", "0.0", "8xf32") + "%sum = dpc.reduce sum %h dims = [1] : tensor<8x4xf32> -> tensor<8xf32>\n"
                              + binary("none", "mul", "sum", "k", "8xf32") + binary("rows", "add", "losses", "none", "8xf32")),
    "another error": classes(compared("z")),
    "straight-through": classes("%q = dpc.convert %h {dpc.stop_gradient} : tensor<8x4xf32> -> tensor<8x4xf32>\n" + binary("d", "sub", "h", "q", "8x4xf32")
                                + binary("s", "add", "d", "z", "8x4xf32")),
    "softmax of two": classes(softened(2)),
    "layer norm of two": classes(normalized("layer", 2)),
    "rms norm of two": classes(normalized("rms", 2)),
    "causal": attention(causal=True),
    "causal mask": attention(triangle(1)),
    "scores of the same position": attention(scored=1),
    "hidden tokens": attention(ids=HIDES),
    "tokens one position later": attention(triangle(1), ids=LATER),
    "a bias of the scores": attention(triangle(1, "0.5", "1.5"), causal=True),
}


class SuspicionTest(e2e.ScratchTest):
    """Compiles models for their remarks."""

    def remarks(self, model, *words):
        with open(self.path("model.mlir"), "w") as file:
            file.write("module {" + model + "}")
        words = words or ("--train=sgd", "--lr=0.1")
        e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:1", "--strategy=dp=1", *words, "--emit=report", "--verify=off", "-o",
                  self.path("plan")])
        # A matmul of samples with samples reads the whole batch.
        others = ("is not read", "micro-batches", "is not trained, but saved", "are not trained, but saved")
        return [text for text in e2e.read_report(self.path("plan"))["remarks"] if not any(other in text for other in others)]

    def check_named(self, mistakes):
        for name, (model, remark) in mistakes.items():
            with self.subTest(name):
                self.assertEqual(self.remarks(model), [remark])

    def check_silent(self, models):
        for name, model in models.items():
            with self.subTest(name):
                self.assertEqual(self.remarks(model), [])


class Suspicions(SuspicionTest):
    def test_mistakes_are_named(self):
        self.check_named(MISTAKES)

    def test_nothing_is_said_without_a_mistake(self):
        self.check_silent(RIGHT)

    def test_rates_that_cannot_train_are_said(self):
        for words, text in ((("--train=sgd", "--lr=3", "--weight-decay=0.4"), "--lr times --weight-decay is 1.2: each step multiplies the weights by -0.2"),
                            (("--train=adamw", "--lr=1e-12"), "--lr=1e-12: updates of this size are lost in the rounding of fp32 weights"),
                            (("--train=adamw", "--eps=1"), "--eps=1 is larger than most gradients: AdamW then does not normalize them"),
                            (("--train=adamw", "--lr=1e-5", "--weight-decay=0.1", "--eps=1e-6"), None)):
            with self.subTest(words):
                self.assertEqual(self.remarks(classes(), *words), [text] if text else [])

    def test_a_weight_of_one_number_is_said(self):
        source = f'dpc.source = {{file = "{self.path("w.bin")}", offset = 0 : i64, bytes = 256 : i64, dtype = "f32"}}'
        model = classes().replace('dpc.role = "parameter"', f'dpc.role = "parameter", {source}', 1)
        for values, isSaid in (([0.01] * 64, True), ([1.0] * 64, False), ([0.01] * 63 + [0.02], False)):
            with open(self.path("w.bin"), "wb") as file:
                file.write(struct.pack("<64f", *values))
            with open(self.path("model.mlir"), "w") as file:
                file.write("module {" + model + "}")
            e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:1", "--strategy=dp=1", "--train=sgd", "--lr=0.1", "--verify=off", "-o",
                      self.path("compiled")])
            said = " ".join(e2e.read_report(self.path("compiled"))["remarks"])
            self.assertEqual("all values of 'w' are one number in" in said, isSaid)

    def test_masks_in_files_are_read(self):
        source = f'dpc.source = {{file = "{self.path("mask.bin")}", offset = 0 : i64, bytes = 256 : i64, dtype = "f32"}}'
        buffer = f',\n    %buffer: tensor<8x8xf32> {{dpc.name = "buffer", dpc.role = "buffer", {source}}}'
        model = attention("%m = dpc.reshape %buffer : tensor<8x8xf32> -> tensor<1x1x8x8xf32>", buffer=buffer, causal=True)
        for hidden, remarks in ((1.0, [NUMBERS.format("a mask of 0 and 1")]), (0.0, []), (-1e9, [])):
            with open(self.path("mask.bin"), "wb") as file:
                file.write(struct.pack("<64f", *([hidden] + [0.0] * 63)))
            self.assertEqual(self.remarks(model), remarks)

    def test_gates_in_files_are_read(self):
        source = f'dpc.source = {{file = "{self.path("gate.bin")}", offset = 0 : i64, bytes = 16 : i64, dtype = "f32"}}'
        gate = f'%gate: tensor<4xf32> {{dpc.name = "gate", dpc.role = "parameter", dpc.frozen, {source}}},\n%x:'
        model = classes("%wide = dpc.broadcast %gate dims = [1] : tensor<4xf32> -> tensor<8x4xf32>\n" + binary("part", "mul", "h", "wide", "8x4xf32")
                        + binary("s", "add", "part", "h", "8x4xf32")).replace("%x:", gate, 1)
        said = "'dpc.binary' multiplies by 'gate', a weight of zeros that is not trained: what it multiplies has no effect"
        for values, text in (((0, 0, 0, 0), said), ((0, 0, 0, 1), None)):
            with open(self.path("gate.bin"), "wb") as file:
                file.write(struct.pack("<4f", *values))
            self.assertEqual([remark for remark in self.remarks(model) if not remark.startswith("frozen: ")], [text] if text else [])
        with open(self.path("gate.bin"), "wb") as file:
            file.write(bytes(16))
        # A running mean starts at zero.
        self.assertEqual(self.remarks(model.replace('"parameter", dpc.frozen', '"buffer"')), [])

    def test_initializers_that_are_probably_constants(self):
        """The model standardizes x, adds a table and trains `scale`."""
        from onnx import TensorProto, helper
        sines = [math.sin(row) if column % 2 == 0 else math.cos(row) for row in range(4) for column in range(6)]
        words = ("trained, although probably constants: 'mean' (it scales or shifts an input), 'table' (it is a table of sines); ONNX does not say which "
                 "weights are buffers; --frozen=table keeps one constant")
        for table, remarks in ((sines, [words]), ([0.5 * value for value in sines], [words.replace(", 'table' (it is a table of sines)", "").replace("=table", "=mean")])):
            nodes = [helper.make_node("Sub", ["x", "mean"], ["a"]), helper.make_node("Mul", ["a", "scale"], ["b"]), helper.make_node("Tanh", ["b"], ["c"]),
                     helper.make_node("Mul", ["c", "scale"], ["d"]), helper.make_node("Add", ["d", "table"], ["e"]),
                     helper.make_node("ReduceMean", ["e"], ["loss"], keepdims=0)]
            weights = [helper.make_tensor(name, TensorProto.FLOAT, shape, values)
                       for name, shape, values in (("mean", [6], [0.5] * 6), ("scale", [6], [0.3] * 6), ("table", [4, 6], table))]
            graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 6])],
                                      [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], weights)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path("model.onnx"))
            e2e.must([e2e.tool("dpc-opt"), self.path("model.onnx"), "--cluster=local:1", "--global-batch=8", "--emit=report", "--verify=off", "-o", self.path("plan")])
            self.assertEqual(e2e.read_report(self.path("plan"))["remarks"], remarks)

    def test_queries_and_keys(self):
        """Queries and keys that are scaled before attention scales them, or multiplied by a table of positions."""
        model, query = attention(causal=True), "4x1x8x16xf32"
        rows = [[math.cos(row / 10 ** (column / 8)) for column in range(16)] for row in range(8)]
        table = f"%rows = dpc.constant dense<{rows}> : tensor<8x16xf32> -> tensor<8x16xf32>\n%t = dpc.broadcast %rows dims = [2, 3] : tensor<8x16xf32> -> tensor<{query}>\n"

        def after(ops, operands):
            return model.replace("%o, %lse =", ops + "%o, %lse =").replace("dpc.attention %q, %q, %q", f"dpc.attention {operands}, %q")

        scaled = lambda factor: number("c", factor, query) + binary("a", "mul", "q", "c", query)  # noqa: E731
        rotated = table + binary("a", "mul", "q", "t", query)
        self.check_named({"scaled": (after(scaled(0.25), "%a, %q"), "'dpc.attention' divides its scores by the root of the 16 features of a head, which its queries "
                                     "or keys are divided by already"),
                          "rotated": (after(rotated, "%a, %q"), "'dpc.attention' has a table of positions as a factor of its queries, but not its keys: the scores "
                                      "of rotary embeddings depend on distances only if both are rotated")})
        self.check_silent({"scaled otherwise": after(scaled(0.5), "%a, %q"), "both rotated": after(rotated, "%a, %a")})

    def standardized(self, mean, deviation):
        """A model that subtracts a weight from x and divides by another one, with these values in the file."""
        with open(self.path("stored.bin"), "wb") as file:
            file.write(struct.pack("<32f", *([mean] * 16 + [deviation] * 16)))
        source = 'dpc.source = {{file = "{}", offset = {} : i64, bytes = 64 : i64, dtype = "f32"}}'
        weights = "".join(f'%{name}: tensor<16xf32> {{dpc.name = "{name}", dpc.role = "parameter", {source.format(self.path("stored.bin"), at)}}},\n'
                          for name, at in (("mean", 0), ("std", 64)))
        ops = "".join(f"%{name}s = dpc.broadcast %{name} dims = [1] : tensor<16xf32> -> tensor<8x16xf32>\n" for name in ("mean", "std"))
        ops += binary("c", "sub", "x", "means", "8x16xf32") + binary("n", "div", "c", "stds", "8x16xf32")
        return classes().replace("%x:", weights + "%x:", 1).replace("%h = dpc.matmul %x", ops + "%h = dpc.matmul %n")

    def test_standardizing_weights_of_inputs_are_said(self):
        said = ("trained, although probably constants: 'mean' (it scales or shifts an input), 'std' (it scales or shifts an input); register_buffer or "
                "--frozen=std keeps one constant")
        self.assertEqual(self.remarks(self.standardized(0.5, 2.0)), [said])
        # A learned shift starts at 0, and a learned scale at 1.
        self.check_silent({"learned shift": self.standardized(0.0, 2.0), "learned scale": self.standardized(0.5, 1.0)})

    def test_equal_remarks_are_grouped(self):
        ops = softened(1).replace("tensor<8x4x1xf32>\n%f", 'tensor<8x4x1xf32> loc("{}")\n%f')
        more = ops.replace("%s", "%last").replace("%g", "%g2").replace("%p", "%p2").replace("%f", "%f2").replace("%h", "%one")
        scores = ops.replace("%s", "%one").format("first") + more.format("second") + binary("s", "add", "h", "last", "8x4xf32")
        self.assertEqual(self.remarks(classes(scores)), [ONE.replace("'dpc.softmax'", "node 'first'") + " (and 1 more like it)"])

    def test_a_failed_verification_names_the_mistake(self):
        ops = unary("n", "log", "h", "8x4xf32") + '%s = dpc.softmax %n : tensor<8x4xf32> -> tensor<8x4xf32> loc("probabilities")'
        model = classes(ops).replace("(tensor<8xf32>, tensor<8xf32>)\n", '(tensor<8xf32>, tensor<8xf32>) loc("loss")\n')
        with open(self.path("model.mlir"), "w") as file:
            file.write("module {" + model + "}")
        done = e2e.call([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:2", "--strategy=dp=2", "--train=sgd", "--lr=0.1", "--init=random:1",
                         "-o", self.path("plan")])
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a number on one device", done.stderr)
        self.assertIn("; remark: node 'loss' applies a softmax to the result of node 'probabilities', which is a softmax already\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
