"""Small ONNX models with sizes that nothing divides, for strategies that are drawn at random.

Each builder takes a random.Random and returns an onnx.ModelProto with a scalar output `loss` and a symbolic batch
dimension; weights are random and inside the model. Sizes are primes and other odd numbers, so that every degree of
parallelism has uneven shards.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Builder:
    def __init__(self, random):
        self.random = random
        self.numbers = np.random.default_rng(random.getrandbits(32))
        self.nodes, self.weights, self.count = [], [], 0

    def op(self, kind, inputs, outputs=1, **attributes):
        names = [f"{kind.lower()}{self.count}_{i}" for i in range(outputs)]
        self.count += 1
        self.nodes.append(helper.make_node(kind, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, name, *shape, scale=None):
        values = self.numbers.normal(0, scale or 1 / np.sqrt(shape[0]), shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, values):
        name = f"constant{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def linear(self, x, name, inner, outer):
        product = self.op("MatMul", [x, self.weight(f"{name}.weight", inner, outer)])
        return self.op("Add", [product, self.weight(f"{name}.bias", outer, scale=0.1)])

    def norm(self, x, name, size):
        ones = numpy_helper.from_array(np.ones(size, np.float32), f"{name}.weight")
        self.weights.append(ones)
        return self.op("LayerNormalization", [x, f"{name}.weight", self.weight(f"{name}.bias", size, scale=0.1)], axis=-1)

    def cross_entropy(self, logits, labels, classes):
        rows = self.op("Reshape", [logits, self.constant(np.array([-1, classes], np.int64))])
        flat = self.op("Reshape", [labels, self.constant(np.array([-1], np.int64))])
        self.nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", [rows, flat], ["loss"], name="loss",
                                           reduction="mean", ignore_index=-100))

    def model(self, name, inputs):
        loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
        graph = helper.make_graph(self.nodes, name, inputs, [loss], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def perceptron(random):
    """Layers of different widths with skip connections across several layers."""
    b = Builder(random)
    widths = [random.choice([5, 7, 11, 13, 19]) for _ in range(random.randint(3, 6))]
    first, x, size = None, "x", random.choice([3, 6, 9])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", size]),
              helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch"])]
    skipped = random.choice([7, 12])
    for i, width in enumerate(widths):
        x = b.op(random.choice(["Relu", "Tanh"]), [b.linear(x, f"layer{i}", size, width)])
        size = width
        if i == 0:
            first = b.linear(x, "skip.in", size, skipped)
    x = b.op("Add", [b.linear(x, "skip.out", size, skipped), first])
    classes = random.choice([3, 10, 17])
    b.cross_entropy(b.linear(x, "head", skipped, classes), "labels", classes)
    return b.model("perceptron", inputs)


def transformer(b, blocks, heads, head, length, vocabulary, inner):
    """A causal language model whose head shares the embedding's weight; `head` is head_dim, `inner` the width of the MLPs."""
    hidden = heads * head
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", length]) for name in ("ids", "labels")]
    table = b.weight("embedding", vocabulary, hidden, scale=0.3)
    x = b.op("Add", [b.op("Gather", [table, "ids"]), b.weight("positions", 1, length, hidden, scale=0.3)])
    mask = b.constant(np.triu(np.full((length, length), -np.inf, np.float32), 1))
    split = b.constant(np.array([0, 0, heads, head], np.int64))
    for i in range(blocks):
        y = b.norm(x, f"block{i}.norm1", hidden)
        q, k, v = (b.op("Transpose", [b.op("Reshape", [b.linear(y, f"block{i}.{name}", hidden, hidden), split])],
                        perm=[0, 2, 1, 3]) for name in "qkv")
        scores = b.op("MatMul", [q, b.op("Transpose", [k], perm=[0, 1, 3, 2])])
        scaled = b.op("Mul", [scores, b.constant(np.array(head ** -0.5, np.float32))])
        weights = b.op("Softmax", [b.op("Add", [scaled, mask])], axis=-1)
        mixed = b.op("Transpose", [b.op("MatMul", [weights, v])], perm=[0, 2, 1, 3])
        flat = b.op("Reshape", [mixed, b.constant(np.array([0, 0, hidden], np.int64))])
        x = b.op("Add", [x, b.linear(flat, f"block{i}.out", hidden, hidden)])
        y = b.op("Relu", [b.linear(b.norm(x, f"block{i}.norm2", hidden), f"block{i}.up", hidden, inner)])
        x = b.op("Add", [x, b.linear(y, f"block{i}.down", inner, hidden)])
    logits = b.op("MatMul", [b.norm(x, "norm", hidden), b.op("Transpose", [table], perm=[1, 0])])
    b.cross_entropy(logits, "labels", vocabulary)
    return b.model("transformer", inputs)


def decoder(random):
    """A transformer with odd numbers of heads, positions, tokens and channels."""
    heads, head, length = random.choice([3, 5]), random.choice([2, 6, 7]), random.choice([5, 9, 11])
    return transformer(Builder(random), blocks=random.randint(1, 3), heads=heads, head=head, length=length,
                       vocabulary=random.choice([23, 37, 50]), inner=random.choice([2, 3]) * heads * head + 1)


BUILDERS = {"perceptron": perceptron, "decoder": decoder}
