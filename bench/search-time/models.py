"""ONNX models without weights that dpc-model does not write: ResNet-50, and decoders with several kinds of blocks."""
import onnx
from onnx import TensorProto, helper


class Builder:
    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0

    def weight(self, name, dims):
        """Describes a weight without data, because planning does not read the data."""
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="absent.bin")
        self.weights.append(tensor)
        return name

    def shape(self, values):
        name = "shape_" + "_".join(str(v).replace("-", "m") for v in values)
        if name not in (tensor.name for tensor in self.weights):
            self.weights.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"{kind}_{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path, inputs, loss):
        self.nodes.append(helper.make_node("Identity", [loss], ["loss"]))
        values = [helper.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs]
        graph = helper.make_graph(self.nodes, "model", values, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        with open(path, "wb") as file:
            file.write(model.SerializeToString())


def convolve(net, name, x, inputs, outputs, size, stride=1, relu=True):
    """Adds a convolution, batch norm in training mode and ReLU."""
    pad = size // 2
    x = net.op("Conv", x, net.weight(f"{name}.conv", [outputs, inputs, size, size]), kernel_shape=[size, size], pads=[pad] * 4,
               strides=[stride] * 2)
    parts = [net.weight(f"{name}.norm.{part}", [outputs]) for part in ("weight", "bias", "running_mean", "running_var")]
    x = net.op("BatchNormalization", x, *parts, outputs=3, training_mode=1, momentum=0.9)[0]
    return net.op("Relu", x) if relu else x


def write_resnet50(path):
    """ResNet-50 (He et al. 2015, arXiv 1512.03385, table 1): 3, 4, 6 and 3 bottlenecks, 25.6 million parameters."""
    net = Builder()
    x = convolve(net, "stem", "x", 3, 64, 7, 2)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            name, stride = f"stage{stage}.{block}", 2 if stage and not block else 1
            y = convolve(net, name + ".a", x, inputs, width, 1)
            y = convolve(net, name + ".b", y, width, width, 3, stride)
            y = convolve(net, name + ".c", y, width, 4 * width, 1, relu=False)
            if not block:
                x = convolve(net, name + ".shortcut", x, inputs, 4 * width, 1, stride, relu=False)
            x = net.op("Relu", net.op("Add", x, y))
            inputs = 4 * width
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    x = net.op("Gemm", x, net.weight("head.weight", [1000, inputs]), net.weight("head.bias", [1000]), transB=1)
    net.save(path, [("x", TensorProto.FLOAT, ["batch", 3, 224, 224]), ("label", TensorProto.INT64, ["batch"])],
             net.op("SoftmaxCrossEntropyLoss", x, "label"))


def attend(net, name, x, hidden, heads, seq):
    q, k, v = (net.op("Reshape", net.op("MatMul", x, net.weight(f"{name}.{part}", [hidden, hidden])),
                      net.shape([0, seq, heads, hidden // heads])) for part in "qkv")
    q, v = (net.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
    k = net.op("Transpose", k, perm=[0, 2, 3, 1])
    y = net.op("MatMul", net.op("Softmax", net.op("MatMul", q, k), axis=-1), v)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), net.shape([0, seq, hidden]))
    return net.op("MatMul", y, net.weight(f"{name}.out", [hidden, hidden]))


def norm(net, name, x, hidden):
    return net.op("LayerNormalization", x, net.weight(f"{name}.weight", [hidden]), net.weight(f"{name}.bias", [hidden]), axis=-1)


def write_kinds(path, kinds, layers, hidden=2048, heads=16, seq=1024, vocab=32000):
    """A decoder with `layers` layers of `kinds` kinds. Each kind has a different feed-forward width and activation."""
    net = Builder()
    x = net.op("Gather", net.weight("embedding", [vocab, hidden]), "ids")
    for layer in range(layers):
        kind = layer * kinds // layers
        name, wide = f"layers.{layer}", hidden * 2 + 512 * kind
        x = net.op("Add", x, attend(net, name, norm(net, name + ".norm1", x, hidden), hidden, heads, seq))
        y = net.op("MatMul", norm(net, name + ".norm2", x, hidden), net.weight(name + ".up", [hidden, wide]))
        y = net.op(("Relu", "Sigmoid", "Tanh", "Gelu")[kind % 4], y)
        x = net.op("Add", x, net.op("MatMul", y, net.weight(name + ".down", [wide, hidden])))
    x = net.op("MatMul", norm(net, "norm", x, hidden), net.weight("head", [hidden, vocab]))
    x = net.op("Reshape", x, net.shape([-1, vocab]))
    labels = net.op("Reshape", "labels", net.shape([-1]))
    net.save(path, [(name, TensorProto.INT64, ["batch", seq]) for name in ("ids", "labels")],
             net.op("SoftmaxCrossEntropyLoss", x, labels))
