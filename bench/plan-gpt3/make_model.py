#!/usr/bin/env python3
"""Writes GPT-3 as ONNX without its weights: make_model.py OUT.onnx [LAYERS]

The weights are initializers whose external data is not on disk, in bfloat16; that is
all that planning needs. 96 layers make 175 billion parameters.
"""
import sys

from onnx import TensorProto, helper

WIDTH, HEADS, VOCABULARY, CONTEXT = 12288, 96, 50257, 2048
TYPE, TYPE_BYTES = TensorProto.BFLOAT16, 2


class Graph:
    def __init__(self):
        self.nodes, self.initializers, self.offset, self.parameters = [], [], 0, 0

    def op(self, kind, *inputs, output=None, **attributes):
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def weight(self, name, *shape):
        """A tensor that is described, but absent."""
        count = 1
        for size in shape:
            count *= size
        tensor = TensorProto(name=name, data_type=TYPE, dims=shape,
                             data_location=TensorProto.EXTERNAL)
        place = {"location": "absent.bin", "offset": self.offset, "length": count * TYPE_BYTES}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self.initializers.append(tensor)
        self.offset += count * TYPE_BYTES
        self.parameters += count
        return name

    def constant(self, name, kind, shape, values):
        self.initializers.append(helper.make_tensor(name, kind, shape, values))
        return name

    def linear(self, x, name, inputs, outputs):
        product = self.op("MatMul", x, self.weight(name + ".weight", inputs, outputs))
        return self.op("Add", product, self.weight(name + ".bias", outputs))

    def norm(self, x, name):
        return self.op("LayerNormalization", x, self.weight(name + ".weight", WIDTH),
                       self.weight(name + ".bias", WIDTH), axis=-1)


def causal_mask(graph):
    square = graph.op("ConstantOfShape", graph.constant(
        "mask_shape", TensorProto.INT64, [2], [CONTEXT, CONTEXT]),
        value=helper.make_tensor("value", TensorProto.FLOAT, [1], [-1e9]))
    one = graph.constant("diagonal", TensorProto.INT64, [], [1])
    return graph.op("Cast", graph.op("Trilu", square, one, upper=1), to=TYPE)


def attention(graph, x, name, mask, scale):
    def heads(part, permutation):
        y = graph.op("Reshape", graph.linear(x, f"{name}.{part}", WIDTH, WIDTH), "to_heads")
        return graph.op("Transpose", y, perm=permutation)
    scores = graph.op("MatMul", heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]))
    scores = graph.op("Add", graph.op("Mul", scores, scale), mask)
    mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), heads("v", [0, 2, 1, 3]))
    mixed = graph.op("Transpose", mixed, perm=[0, 2, 1, 3])
    return graph.linear(graph.op("Reshape", mixed, "from_heads"), name + ".out", WIDTH, WIDTH)


def gelu(graph, x):
    half = graph.op("Mul", x, "half")
    return graph.op("Mul", half, graph.op("Add", graph.op("Erf", graph.op("Div", x, "root2")), "one"))


def build(layers):
    graph = Graph()
    graph.constant("to_heads", TensorProto.INT64, [4], [0, 0, HEADS, WIDTH // HEADS])
    graph.constant("from_heads", TensorProto.INT64, [3], [0, 0, WIDTH])
    for name, value in {"half": 0.5, "one": 1.0, "root2": 2 ** 0.5,
                        "scale": (WIDTH // HEADS) ** -0.5}.items():
        graph.constant(name, TYPE, [], [value])
    mask = causal_mask(graph)
    x = graph.op("Add", graph.op("Gather", graph.weight("tokens", VOCABULARY, WIDTH), "ids"),
                 graph.weight("positions", CONTEXT, WIDTH))
    for layer in range(layers):
        name = f"layer{layer}"
        x = graph.op("Add", x, attention(graph, graph.norm(x, name + ".norm1"),
                                         name + ".attention", mask, "scale"))
        y = graph.linear(graph.norm(x, name + ".norm2"), name + ".up", WIDTH, 4 * WIDTH)
        x = graph.op("Add", x, graph.linear(gelu(graph, y), name + ".down", 4 * WIDTH, WIDTH))
    graph.op("MatMul", graph.norm(x, "norm"), graph.weight("head", WIDTH, VOCABULARY),
             output="logits")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", CONTEXT])
    logits = helper.make_tensor_value_info("logits", TYPE, ["batch", CONTEXT, VOCABULARY])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "gpt3", [ids], [logits], graph.initializers),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="dpc-bench")
    return model, graph.parameters


if __name__ == "__main__":
    layers = int(sys.argv[2]) if len(sys.argv) > 2 else 96
    model, parameters = build(layers)
    with open(sys.argv[1], "wb") as file:
        file.write(model.SerializeToString())
    print(f"{sys.argv[1]}: {layers} layers, {parameters / 1e9:.1f} billion parameters, "
          f"{model.ByteSize() / 1024:.0f} KiB")
