#!/usr/bin/env python3
"""What dpc-opt says of losses that compare the wrong values, of outputs beside them and of noise, and when it says nothing."""
import math
import random
import unittest

import e2e
import suspicions
from suspicions import DROPPED, binary, classes, dropped, keep, number, unary


def program(arguments, body, results):
    """@forward with `arguments`, (name, type, role, more attributes), and `results`, (value, name, type, more attributes)."""
    words = [f'%{name}: tensor<{type}> {{dpc.name = "{name}", dpc.role = "{role}"{", dpc.batch_dim = 0 : i64" if role == "input" else ""}{more}}}'
             for name, type, role, more in arguments]
    types = [f'tensor<{type}> {{{more}dpc.name = "{name}"}}' for _, name, type, more in results]
    values = ", ".join(f"%{value}" for value, _, _, _ in results) + " : " + ", ".join(f"tensor<{type}>" for _, _, type, _ in results)
    return f"func.func @forward({', '.join(words)}) -> ({', '.join(types)}) {{\n{body}\nreturn {values}\n}}"


LOSS = ("loss", "loss", "f32", "dpc.loss, ")
STEP = ("step", "f32", "scalar", "")


def mean(name, of, shape):
    """The mean over all dimensions."""
    sizes = [int(size) for size in shape.split("x")[:-1]]
    return (f"%{name}_sum = dpc.reduce sum %{of} dims = {list(range(len(sizes)))} : tensor<{shape}> -> tensor<f32>\n"
            + number(f"{name}_share", 1 / math.prod(sizes), "f32") + binary(name, "mul", f"{name}_sum", f"{name}_share", "f32"))


def layer(name, of, weight):
    return f"%{name} = dpc.matmul %{of}, %{weight} tb : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>\n"


def squares(a, b, name="loss", shape="8x4xf32"):
    """The mean squared error of a and b."""
    return binary(f"{name}_d", "sub", a, b, shape) + binary(f"{name}_q", "mul", f"{name}_d", f"{name}_d", shape) + mean(name, f"{name}_q", shape)


def products(name, of):
    """Each sample times each sample."""
    return f"%{name} = dpc.matmul %{of}, %{of} tb : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>\n"


def stop(name, of, shape="8x4xf32"):
    return f"%{name} = dpc.convert %{of} {{dpc.stop_gradient}} : tensor<{shape}> -> tensor<{shape}>\n"


def errors(body, results=(LOSS,)):
    """A model of two layers, h and g, of two inputs, x and y, and targets z."""
    arguments = [("w", "4x16xf32", "parameter", ""), ("u", "4x16xf32", "parameter", ""), ("x", "8x16xf32", "input", ""), ("y", "8x16xf32", "input", ""),
                 ("z", "8x4xf32", "input", ""), STEP]
    return program(arguments, layer("h", "x", "w") + layer("g", "y", "u") + body, results)


DROPPED_ERROR = DROPPED.replace("cross_entropy", "binary")


def normed(share):
    """A batch norm whose running mean keeps `share` of its value."""
    channels = "tensor<4xf32>"
    body = layer("h", "x", "w") + f"%y, %mean, %var = dpc.batch_norm %h, %scale, %bias eps = 1.0e-5 : (tensor<8x4xf32>, {channels}, {channels}) -> (tensor<8x4xf32>, {channels}, {channels})\n"
    body += number("k", share, "4xf32") + number("rest", 1 - share, "4xf32") + binary("old", "mul", "running", "k", "4xf32") + binary("new", "mul", "mean", "rest", "4xf32")
    body += binary("next", "add", "old", "new", "4xf32") + squares("y", "z")
    arguments = [("w", "4x16xf32", "parameter", ""), ("scale", "4xf32", "parameter", ""), ("bias", "4xf32", "parameter", ""), ("running", "4xf32", "buffer", ""),
                 ("x", "8x16xf32", "input", ""), ("z", "8x4xf32", "input", "")]
    return program(arguments, body, [LOSS, ("next", "running", "4xf32", "dpc.ties = 3 : i64, ")])


FORGETS = ("'dpc.batch_norm' keeps {} % of its running statistics in each step, so that they are those of the last batch; PyTorch's momentum is the share "
           "of the new batch: 0.01 for what other frameworks call 0.99")
TOTAL = "output 'total' adds terms to the loss that is trained; --loss-output=total trains it"


def with_total(total):
    """A model with a second output of one number."""
    return errors(squares("h", "z") + squares("g", "z", "aux") + total, [LOSS, ("total", "total", "f32", ""), ("aux", "aux", "f32", "")])


def half_more(term, kind="add"):
    return number("half", 0.5, "f32") + binary("part", "mul", term, "half", "f32") + binary("total", kind, "loss", "part", "f32")


FREE = ("'dpc.binary' compares two results that are both trained, and the loss compares nothing with data: equal constants minimize it; compute a target "
        "without gradient (torch.no_grad or detach)")


def unit(name, of):
    """Rows of length 1."""
    return (binary(f"{name}_q", "mul", of, of, "8x4xf32") + f"%{name}_sum = dpc.reduce sum %{name}_q dims = [1] : tensor<8x4xf32> -> tensor<8xf32>\n"
            + unary(f"{name}_n", "sqrt", f"{name}_sum", "8xf32") + f"%{name}_b = dpc.broadcast %{name}_n dims = [0] : tensor<8xf32> -> tensor<8x4xf32>\n"
            + binary(name, "div", of, f"{name}_b", "8x4xf32"))


def cosines(a, b, sign="neg"):
    return unit("a1", a) + unit("b1", b) + binary("c", "mul", "a1", "b1", "8x4xf32") + mean("m", "c", "8x4xf32") + unary("loss", sign, "m", "f32")


def tagged(scores):
    """Classes of positions, %h, or other `scores` [4, 8, 8] of them, for 8 labels of each sample."""
    body = "%e = dpc.embedding %w, %ids : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>\n"
    body += "%h = dpc.matmul %e, %u tb : (tensor<4x8x16xf32>, tensor<8x16xf32>) -> tensor<4x8x8xf32>\n" + scores
    body += (f"%s = dpc.reshape %z : tensor<4x8x8xf32> -> tensor<32x8xf32>\n%y = dpc.reshape %labels : tensor<4x8xi64> -> tensor<32xi64>\n"
             f"%rows, %lse = dpc.cross_entropy %s, %y ignore_index = -100 : (tensor<32x8xf32>, tensor<32xi64>) -> (tensor<32xf32>, tensor<32xf32>)\n")
    arguments = [("w", "32x16xf32", "parameter", ""), ("u", "8x16xf32", "parameter", ""), ("ids", "4x8xi64", "input", ""), ("labels", "4x8xi64", "input", "")]
    return program(arguments, body + mean("loss", "rows", "32xf32"), [LOSS])


TURNED = "%z = dpc.transpose %h perm = [0, 2, 1] : tensor<4x8x8xf32> -> tensor<4x8x8xf32>\n"
PAIRS = "%z = dpc.matmul %h, %h tb : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>\n"
QUERIES = ("%all = dpc.broadcast %u dims = [1, 2] : tensor<8x16xf32> -> tensor<4x8x16xf32>\n"
           "%z = dpc.matmul %all, %e tb : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x8xf32>\n")
MIXED = "'dpc.cross_entropy' takes the positions of 'ids' as classes, and features as positions: do the scores need transpose(1, 2) before it?"


def shifted(scores, labels, left=7):
    """A loss of labels one position later, and an accuracy of `left` positions of both from these on."""
    body = ("%e = dpc.embedding %w, %ids : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>\n"
            "%z = dpc.matmul %e, %w tb : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>\n"
            "%few = dpc.slice %z offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<4x8x32xf32> -> tensor<4x7x32xf32>\n"
            "%next = dpc.slice %labels offsets = [0, 1] strides = [1, 1] : tensor<4x8xi64> -> tensor<4x7xi64>\n"
            "%s = dpc.reshape %few : tensor<4x7x32xf32> -> tensor<28x32xf32>\n%y = dpc.reshape %next : tensor<4x7xi64> -> tensor<28xi64>\n"
            "%rows, %lse = dpc.cross_entropy %s, %y ignore_index = -100 : (tensor<28x32xf32>, tensor<28xi64>) -> (tensor<28xf32>, tensor<28xf32>)\n"
            "%best, %at = dpc.topk %z : tensor<4x8x32xf32> -> tensor<4x8x1xf32>, tensor<4x8x1xi64>\n%all = dpc.reshape %at : tensor<4x8x1xi64> -> tensor<4x8xi64>\n")
    body += mean("loss", "rows", "28xf32")
    body += "".join(f"%{name} = dpc.slice %{of} offsets = [0, {first}] strides = [1, 1] : tensor<4x8xi64> -> tensor<4x{left}xi64>\n"
                    for name, of, first in (("chosen", "all", scores), ("right", "labels", labels)))
    body += f"%hit = dpc.compare eq %chosen, %right : (tensor<4x{left}xi64>, tensor<4x{left}xi64>) -> tensor<4x{left}xi1>\n"
    body += f"%hits = dpc.convert %hit : tensor<4x{left}xi1> -> tensor<4x{left}xf32>\n" + mean("accuracy", "hits", f"4x{left}xf32")
    arguments = [("w", "32x16xf32", "parameter", ""), ("ids", "4x8xi64", "input", ""), ("labels", "4x8xi64", "input", "")]
    return program(arguments, body, [LOSS, ("accuracy", "accuracy", "f32", "")])


SHIFT = "output 'accuracy' compares the scores of a position with 'labels' {}, but the loss 1 position later"


def table(name, rows, shape="8x16xf32"):
    return f"%{name} = dpc.constant dense<{rows}> : tensor<{shape}> -> tensor<{shape}>\n"


RANDOM = random.Random(1)
NOISE = [[RANDOM.gauss(0, 1) for _ in range(16)] for _ in range(8)]
SHARES = [[RANDOM.random() for _ in range(16)] for _ in range(8)]
SINES = [[math.sin(row / 10 ** (column / 8)) for column in range(16)] for row in range(8)]
BITS = [[float(RANDOM.random() < 0.5) for _ in range(16)] for _ in range(8)]
SHIFTED = [[value + 2 for value in row] for row in NOISE]


def noisy(rows, kind="add", of="x"):
    """An error of a layer of x and numbers."""
    wide = "%t = dpc.matmul %z, %u : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>\n" + unary("s", "exp", "t", "8x16xf32")
    mixed = binary("m", kind, of, "n", "8x16xf32") + (binary("i", "add", "m", "x", "8x16xf32") if kind == "mul" else keep("i", "m", "8x16xf32"))
    return errors(wide + table("n", rows) + mixed + layer("o", "i", "w") + squares("o", "z"))


def added_means(target):
    """The same 16 numbers are added to each sample; with `target`, the loss compares a result with them."""
    body = table("n", [NOISE[0]] * 8) + binary("i", "add", "x", "n", "8x16xf32") + layer("o", "i", "w") + squares("o", "z", "loss" if not target else "rest")
    if target:
        body += "%t = dpc.matmul %o, %w : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>\n" + squares("t", "n", "aim", "8x16xf32")
        body += binary("loss", "add", "aim", "rest", "f32")
    return errors(body)


def aimed_at(rows):
    """An error of a result and numbers."""
    wide = "%t = dpc.matmul %h, %w : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>\n"
    return errors(wide + table("n", rows) + squares("t", "n", shape="8x16xf32"))


OVER_BATCH = "'dpc.binary' is a cosine of two results over the batch: the loss of a sample depends on the others; sum over the features (dim=-1)"


def norm(name, of, dim):
    """The norms over a dimension."""
    shape = "4xf32" if dim == 0 else "8xf32"
    return (binary(f"{name}_q", "mul", of, of, "8x4xf32") + f"%{name}_sum = dpc.reduce sum %{name}_q dims = [{dim}] : tensor<8x4xf32> -> tensor<{shape}>\n"
            + unary(name, "sqrt", f"{name}_sum", shape))


def centered(name, of):
    """Values minus their means over the batch."""
    return (f"%{name}_sum = dpc.reduce sum %{of} dims = [0] : tensor<8x4xf32> -> tensor<4xf32>\n" + number(f"{name}_k", 0.125, "4xf32")
            + binary(f"{name}_m", "mul", f"{name}_sum", f"{name}_k", "4xf32") + f"%{name}_b = dpc.broadcast %{name}_m dims = [1] : tensor<4xf32> -> tensor<8x4xf32>\n"
            + binary(name, "sub", of, f"{name}_b", "8x4xf32"))


def cosines_over(dim, a="h", b="g"):
    """The mean of the cosines, and an error so that constants are no minimum."""
    shape = "4xf32" if dim == 0 else "8xf32"
    body = binary("p", "mul", a, b, "8x4xf32") + f"%dot = dpc.reduce sum %p dims = [{dim}] : tensor<8x4xf32> -> tensor<{shape}>\n" + norm("na", a, dim)
    body += norm("nb", b, dim) + binary("nn", "mul", "na", "nb", shape) + binary("c", "div", "dot", "nn", shape) + mean("part", "c", shape)
    return body + squares("h", "z", "rest") + binary("loss", "sub", "rest", "part", "f32")


IGNORED = "output 'accuracy' is a mean over all of 'y', also over those that are 3, which the loss ignores"


def counted(ignored, mask=False):
    """An accuracy of a model whose loss ignores a class."""
    best = "%best, %at = dpc.topk %h : tensor<8x4xf32> -> tensor<8x1xf32>, tensor<8x1xi64>\n%chosen = dpc.reshape %at : tensor<8x1xi64> -> tensor<8xi64>\n"
    hits = best + f"%hit = dpc.compare eq %chosen, %y : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>\n%hits = dpc.convert %hit : tensor<8xi1> -> tensor<8xf32>\n"
    if mask:
        hits += number("none", ignored, "8xi64") + "%real = dpc.compare ne %y, %none : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>\n"
        hits += "%some = dpc.convert %real : tensor<8xi1> -> tensor<8xf32>\n" + binary("kept", "mul", "hits", "some", "8xf32")
    model = classes().replace("ignore_index = -100", f"ignore_index = {ignored}").replace('dpc.name = "loss"})', 'dpc.name = "loss"}, tensor<f32> {dpc.name = "accuracy"})')
    return model.replace("return %loss : tensor<f32>", hits + mean("accuracy", "kept" if mask else "hits", "8xf32") + "return %loss, %accuracy : tensor<f32>, tensor<f32>")


DRAWN = "'dpc.binary' {} random numbers that are a constant of the model: noise that is drawn at export is the same in every step; make it an input"

MISTAKES = {
    "cosines over the batch": (errors(cosines_over(0)), OVER_BATCH),
    "an accuracy of what is ignored": (counted(3), IGNORED),
    "noise of a normal distribution": (noisy(NOISE), DRAWN.format("adds 128")),
    "noise of a uniform distribution": (noisy(SHARES), DRAWN.format("adds 128")),
    "noise that is scaled": (noisy(NOISE, "mul", "s"), DRAWN.format("multiplies by 128")),
    "noise as the target": (aimed_at(NOISE), DRAWN.format("compares results with 128")),
    "few numbers that are the target": (added_means(True), DRAWN.format("adds 16")),
    "dropout of what an error compares": (errors(dropped("s", 2.0) + squares("s", "z")), DROPPED_ERROR),
    "statistics of the last batch": (normed(0.01), FORGETS.format(1)),
    "a loss without its other terms": (with_total(half_more("aux")), TOTAL),
    "a loss without what it subtracts": (with_total(half_more("aux", "sub")), TOTAL),
    "an error of two layers": (errors(squares("h", "g")), FREE),
    "a cosine of two layers": (errors(cosines("h", "g")), FREE),
    "an error of units": (errors(unit("a1", "h") + unit("b1", "g") + squares("a1", "b1")), FREE),
    "positions as classes": (tagged(TURNED), MIXED),
    "an accuracy without shift": (shifted(0, 0, 8), SHIFT.format("at the same position")),
    "an accuracy of two positions later": (shifted(0, 2, 6), SHIFT.format("2 positions later")),
    "an accuracy of the position before": (shifted(1, 0), SHIFT.format("1 position earlier")),
}
RIGHT = {
    "cosines over the features": errors(cosines_over(1)),
    "correlations over the batch": errors(centered("a", "h") + centered("b", "g") + cosines_over(0, "a", "b")),
    "cosines of targets": errors(cosines_over(0, "h", "z")),
    "an accuracy of the default": counted(-100),
    "an accuracy of what is not ignored": counted(3, mask=True),
    "a table of sines": noisy(SINES),
    "sines as the target": aimed_at(SINES),
    "bits": noisy(BITS),
    "numbers around 2": noisy(SHIFTED),
    "numbers that are subtracted": noisy(NOISE, "sub"),
    "numbers that are added to each sample": added_means(False),
    "dropout before an error": errors(dropped("d", 2.0) + binary("s", "mul", "d", "g", "8x4xf32") + squares("s", "z")),
    "half of the statistics": normed(0.5),
    "only the new statistics": normed(0.0),
    "a multiple of the loss": with_total(half_more("loss")),
    "the exponent of the loss": with_total(unary("total", "exp", "loss", "f32")),
    "a term of the loss": with_total(keep("total", "aux", "f32")),
    "a difference from the loss": with_total(binary("total", "sub", "aux", "loss", "f32")),
    "a term without gradient": with_total(stop("still", "aux", "f32") + half_more("still")),
    "a target without gradient": errors(stop("t", "g") + squares("h", "t")),
    "a cosine of targets": errors(stop("t", "g") + cosines("h", "t")),
    "an error of units of targets": errors(unit("a1", "h") + unit("b1", "z") + squares("a1", "b1")),
    "an error beside one of targets": errors(squares("h", "g", "a") + squares("h", "z", "b") + binary("loss", "add", "a", "b", "f32")),
    "an error of a target and a layer": errors(binary("t", "add", "g", "z", "8x4xf32") + squares("h", "t")),
    "products of samples": errors(products("a", "h") + products("b", "g") + squares("a", "b", shape="8x8xf32")),
    "layers pushed apart": errors(cosines("h", "g", "exp")),
    "classes of positions": tagged(keep("z", "h", "4x8x8xf32")),
    "pairs of positions": tagged(PAIRS),
    "turned pairs of positions": tagged(PAIRS.replace("%z", "%p") + TURNED.replace("%h", "%p")),
    "positions for learned queries": tagged(QUERIES),
    "an accuracy with shift": shifted(0, 1),
    "an accuracy of fewer positions": shifted(1, 2, 6),
}


class LossSuspicions(suspicions.SuspicionTest):
    def test_mistakes_are_named(self):
        self.check_named(MISTAKES)

    def test_nothing_is_said_without_a_mistake(self):
        self.check_silent(RIGHT)

    def test_a_chosen_loss_is_no_mistake(self):
        self.assertEqual(self.remarks(with_total(half_more("aux")), "--train=sgd", "--lr=0.1", "--loss-output=loss"), [])

    def test_the_reader_of_a_constant_of_the_batch_is_named(self):
        self.remarks(noisy(BITS))
        said = [text for text in e2e.read_report(self.path("plan"))["remarks"] if text.startswith("micro-batches")]
        self.assertEqual(said, ["micro-batches were not searched: 'dpc.binary' reads a constant that has a row for each sample of a rank, which they would "
                                "split"])



def deep(between, width=8):
    """Two layers of x, with `between` from %a to %b, of 16 to `width` to 4 numbers."""
    arguments = [("v", f"{width}x16xf32", "parameter", ""), ("c", f"{width}xf32", "parameter", ""), ("u", f"4x{width}xf32", "parameter", ""),
                 ("x", "8x16xf32", "input", ""), ("z", "8x4xf32", "input", ""), STEP]
    shape = f"8x{width}xf32"
    body = (f"%h = dpc.matmul %x, %v tb : (tensor<8x16xf32>, tensor<{width}x16xf32>) -> tensor<{shape}>\n"
            f"%cs = dpc.broadcast %c dims = [1] : tensor<{width}xf32> -> tensor<{shape}>\n" + binary("a", "add", "h", "cs", shape) + between(shape)
            + f"%p = dpc.matmul %b, %u tb : (tensor<{shape}>, tensor<4x{width}xf32>) -> tensor<8x4xf32>\n" + squares("p", "z"))
    return program(arguments, body, (LOSS,))


def fixed(rows):
    """A layer of x by a constant, relu, and a layer of 4 numbers."""
    body = (table("k", rows, "8x16xf32") + "%a = dpc.matmul %x, %k tb : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>\n" + unary("b", "relu", "a", "8x8xf32")
            + "%p = dpc.matmul %b, %v : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>\n" + squares("p", "z"))
    return program([("v", "8x4xf32", "parameter", ""), ("x", "8x16xf32", "input", ""), ("z", "8x4xf32", "input", ""), STEP], body, (LOSS,))


COSINES = [[math.cos(math.pi * row * (column + 0.5) / 16) for column in range(16)] for row in range(8)]


def thresholded(limit):
    """A binary cross entropy of the scores h, x * (1 - z) + log(1 + exp(-x)) without the rest, and the share of h above `limit`."""
    shape = "8x4xf32"
    body = (f"%hz = dpc.binary mul %h, %z {{dpc.targets = 1 : i64}} : (tensor<{shape}>, tensor<{shape}>) -> tensor<{shape}>\n"
            + binary("loss_d", "sub", "h", "hz", shape) + unary("loss_n", "neg", "h", shape) + unary("loss_e", "exp", "loss_n", shape)
            + number("one", 1.0, shape) + binary("loss_s", "add", "loss_e", "one", shape) + unary("loss_l", "log", "loss_s", shape)
            + binary("loss_all", "add", "loss_d", "loss_l", shape) + mean("loss", "loss_all", shape) + number("limit", limit, shape)
            + f"%hit = dpc.compare gt %h, %limit : (tensor<{shape}>, tensor<{shape}>) -> tensor<8x4xi1>\n"
            f"%hits = dpc.convert %hit : tensor<8x4xi1> -> tensor<{shape}>\n" + mean("accuracy", "hits", shape))
    return errors(body, (LOSS, ("accuracy", "accuracy", "f32", "")))


def factors(role, more=""):
    """A cross entropy times a factor of each class."""
    arguments = [("w", "4x16xf32", "parameter", ""), ("f", "4xf32", role, more), ("x", "8x16xf32", "input", ""), ("y", "8xi64", "input", ""), STEP]
    body = layer("h", "x", "w") + """%each, %lse = dpc.cross_entropy %h, %y ignore_index = -100 : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
%table = dpc.reshape %f : tensor<4xf32> -> tensor<4x1xf32>
%rows = dpc.embedding %table, %y : (tensor<4x1xf32>, tensor<8xi64>) -> tensor<8x1xf32>
%by = dpc.reshape %rows : tensor<8x1xf32> -> tensor<8xf32>
""" + binary("weighted", "mul", "each", "by", "8xf32") + mean("loss", "weighted", "8xf32")
    return program(arguments, body, (LOSS,))


def choose(name, of, by, shape, dim, left):
    """The elements of %of that `by` counts along `dim` of `shape`."""
    sizes = shape.replace("xf32", "")
    return (f"%{name}_i = dpc.iota dim = {dim} : tensor<{sizes}xi64>\n%{name}_b = dpc.broadcast %{by} dims = [0] : tensor<8xi64> -> tensor<{sizes}xi64>\n"
            f"%{name}_h = dpc.compare eq %{name}_i, %{name}_b {{dpc.bounded}} : (tensor<{sizes}xi64>, tensor<{sizes}xi64>) -> tensor<{sizes}xi1>\n"
            + number(f"{name}_z", 0.0, shape)
            + f"%{name}_s = dpc.select %{name}_h, %{of}, %{name}_z : (tensor<{sizes}xi1>, tensor<{shape}>, tensor<{shape}>) -> tensor<{shape}>\n"
            f"%{name} = dpc.reduce sum %{name}_s dims = [{dim}] : tensor<{shape}> -> tensor<{left}>\n")


def picked(dim, rows=""):
    """The mean log-probability, normalized over `dim`, of the label of each row of %lp, or of those that `rows` makes of them."""
    each = f"{(8, 4)[1 - dim]}xf32"
    arguments = [("w", "4x16xf32", "parameter", ""), ("x", "8x16xf32", "input", ""), ("y", "8xi64", "input", ""), STEP]
    body = (layer("h", "x", "w") + unary("e", "exp", "h", "8x4xf32") + f"%n = dpc.reduce sum %e dims = [{dim}] : tensor<8x4xf32> -> tensor<{each}>\n"
            + unary("ln", "log", "n", each) + f"%all = dpc.broadcast %ln dims = [{1 - dim}] : tensor<{each}> -> tensor<8x4xf32>\n"
            + binary("lp", "sub", "h", "all", "8x4xf32") + (rows or keep("r", "lp", "8x4xf32")) + choose("own", "r", "y", "8x4xf32", 1, "8xf32")
            + unary("minus", "neg", "own", "8xf32") + mean("loss", "minus", "8xf32"))
    return program(arguments, body, (LOSS,))


# Row y of %lp for each sample.
ROWS = "%rows = dpc.broadcast %lp dims = [1, 2] : tensor<8x4xf32> -> tensor<8x8x4xf32>\n" + choose("r", "rows", "y", "8x8x4xf32", 1, "8x4xf32")


def scored(ops, of="each"):
    """A cross entropy %each of 4 classes with the scores %s that `ops` computes, and the mean of %`of`."""
    arguments = [("w", "4x16xf32", "parameter", ""), ("x", "8x16xf32", "input", ""), ("y", "8xi64", "input", ""), STEP]
    body = layer("h", "x", "w") + ops.replace("<loss>", "%each, %lse = dpc.cross_entropy %s, %y ignore_index = -100 : (tensor<8x4xf32>, tensor<8xi64>) -> "
                                              "(tensor<8xf32>, tensor<8xf32>)\n")
    return program(arguments, body + mean("loss", of, "8xf32"), (LOSS,))


def smoothed(label):
    """The labels have the weight `label`, and the mean of all log-probabilities of h the rest."""
    rows = "8xf32"
    return (keep("s", "h", "8x4xf32") + "<loss>" + "%total = dpc.reduce sum %s dims = [1] : tensor<8x4xf32> -> tensor<8xf32>\n" + number("n", 0.25, rows)
            + unary("e", "exp", "s", "8x4xf32") + "%es = dpc.reduce sum %e dims = [1] : tensor<8x4xf32> -> tensor<8xf32>\n" + unary("ls", "log", "es", rows)
            + binary("m", "mul", "total", "n", rows) + binary("all", "sub", "ls", "m", rows) + number("a", label, rows) + number("b", 1 - label, rows)
            + binary("own", "mul", "each", "a", rows) + binary("rest", "mul", "all", "b", rows) + binary("sum", "add", "own", "rest", rows))


def scaled_units(scale):
    """The scores are rows of h, divided by their norms, times `scale`."""
    return unit("u", "h") + number("t", scale, "8x4xf32") + binary("s", "mul", "u", "t", "8x4xf32") + "<loss>"


def listed(alias):
    """A weight with a second name."""
    return errors(squares("h", "z")).replace('dpc.name = "w"', f'dpc.name = "layers.0.w", dpc.aliases = ["{alias}"]')


class Layers(suspicions.SuspicionTest):
    def test_layers_without_a_nonlinear_op_between(self):
        relu = lambda shape: unary("b", "relu", "a", shape)  # noqa: E731
        plain = lambda shape: keep("b", "a", shape)  # noqa: E731
        remarks = self.remarks(deep(plain))
        self.assertEqual(len(remarks), 1)
        self.assertIn("again, without a nonlinear op between: the two are one linear map", remarks[0])
        # A layer of few numbers between makes a matrix of low rank.
        self.check_silent({"relu": deep(relu), "few": deep(plain, width=2)})

    def test_constants_where_weights_stand(self):
        self.check_named({"noise": (fixed(NOISE), "'dpc.matmul' reads 128 random numbers where a weight stands: constants of the model are not trained")})
        self.check_silent({"cosines": fixed(COSINES), "bits": fixed(BITS)})

    def test_scores_that_are_compared_with_a_probability(self):
        remarks = self.remarks(thresholded(0.5))
        self.assertEqual(len(remarks), 1)
        self.assertIn("compares scores with 0.5, of which the loss takes the sigmoid: that is 0.5 where they are 0", remarks[0])
        self.check_silent({"zero": thresholded(0.0)})

    def test_scores_that_are_cosines(self):
        said = "'dpc.cross_entropy' gets scores of 'dpc.binary', which are between -1.0 and 1.0: with 4 classes, the loss cannot fall below 0.34"
        self.check_named({"cosines": (scored(unit("u", "h") + keep("s", "u", "8x4xf32") + "<loss>"), said)})
        self.check_silent({"temperature": scored(scaled_units(2.0)), "scale": scored(scaled_units(30.0))})

    def test_label_smoothing_that_hides_the_labels(self):
        self.check_named({"0.9": (scored(smoothed(0.1), "sum"), "'dpc.cross_entropy' gives its labels the weight 0.10 (label_smoothing=0.90): were 1 - label_smoothing "
                                  "and label_smoothing swapped?")})
        self.check_silent({"0.1": scored(smoothed(0.9), "sum")})

    def test_batch_norms_that_are_frozen(self):
        model = normed(0.9)
        for name in ("scale", "bias"):
            model = model.replace(f'%{name}: tensor<4xf32> {{', f'%{name}: tensor<4xf32> {{dpc.frozen, ')
            said = [text for text in self.remarks(model) if not text.startswith("frozen: ")]
            self.assertEqual(said, ["'dpc.batch_norm' has the frozen weight 'scale', but each step moves its running statistics; they stay as they are if the "
                                    "module is exported after .eval()"] if name == "bias" else [])

    def test_probabilities_that_are_normalized_over_another_dimension(self):
        self.check_named({"samples": (picked(0), "'dpc.select' picks one of 4 classes, but 'dpc.binary' normalizes another dimension, of 8 elements: the "
                                      "probabilities of the classes do not add up to 1")})
        self.check_silent({"classes": picked(1), "of some rows": picked(1, ROWS)})

    def test_factors_of_a_loss_that_are_trained(self):
        self.check_named({"trained": (factors("parameter"), "'f' is a factor of the loss for each class, and is trained: the loss becomes small if it does; "
                                      "a buffer, or --frozen=f, keeps it")})
        self.check_silent({"buffer": factors("buffer")})

    def test_one_module_that_is_repeated(self):
        self.check_named({"repeated": (listed("layers.1.w"), "1 weight is that of several modules of a list ('layers.0.w' is also 'layers.1.w'): is one "
                                       "module repeated, instead of copies?")})
        self.check_silent({"tied": listed("head.w")})


if __name__ == "__main__":
    unittest.main()
