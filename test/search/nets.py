"""ONNX models without weights that dpc-model does not write: ResNet-50, a U-Net, and two towers of unlike inputs.

Each writer takes the path of the file and sizes. Needs Python's onnx.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "search-time"))

import models  # noqa: E402
from onnx import TensorProto  # noqa: E402


def square_error(net, x, target):
    difference = net.op("Sub", x, target)
    return net.op("ReduceMean", net.op("Mul", difference, difference), keepdims=0)


def convolve_twice(net, name, x, inputs, outputs, stride=1):
    x = models.convolve(net, name + ".a", x, inputs, outputs, 3, stride)
    return models.convolve(net, name + ".b", x, outputs, outputs, 3)


def write_resnet(path):
    models.write_resnet50(path)


def write_unet(path, width=64, levels=4, image=64, channels=4):
    """Halves the image and doubles the width at each level, and returns over skip connections; predicts noise."""
    net = models.Builder()
    x, inputs, skips = "x", channels, []
    for level in range(levels):
        x = convolve_twice(net, f"down{level}", x, inputs, width << level, 2 if level else 1)
        inputs = width << level
        skips.append((x, inputs))
    for level, (skip, outputs) in enumerate(reversed(skips[:-1])):
        weight = net.weight(f"up{level}.weight", [inputs, outputs, 2, 2])
        x = net.op("ConvTranspose", x, weight, kernel_shape=[2, 2], strides=[2, 2])
        x = convolve_twice(net, f"up{level}", net.op("Concat", x, skip, axis=1), 2 * outputs, outputs)
        inputs = outputs
    x = net.op("Conv", x, net.weight("out.weight", [channels, inputs, 1, 1]), kernel_shape=[1, 1])
    net.save(path, [(name, TensorProto.FLOAT, ["batch", channels, image, image]) for name in ("x", "noise")],
             square_error(net, x, "noise"))


def encode(net, name, x, layers, hidden, heads, seq):
    """A tower: layers of attention and feed-forward, and the mean over the positions."""
    for layer in range(layers):
        part = f"{name}.{layer}"
        x = net.op("Add", x, models.attend(net, part, models.norm(net, part + ".norm1", x, hidden), hidden, heads, seq))
        y = net.op("MatMul", models.norm(net, part + ".norm2", x, hidden), net.weight(part + ".up", [hidden, 4 * hidden]))
        x = net.op("Add", x, net.op("MatMul", net.op("Gelu", y), net.weight(part + ".down", [4 * hidden, hidden])))
    x = net.op("ReduceMean", x, net.shape([1]), keepdims=0)
    return net.op("MatMul", x, net.weight(name + ".out", [hidden, 512]))


def write_two_tower(path, layers=12, hidden=1024, heads=16, seq=77, patches=196, vocab=49408):
    """A tower over tokens and a tower over image patches, trained to equal embeddings."""
    net = models.Builder()
    words = net.op("Gather", net.weight("embedding", [vocab, hidden]), "ids")
    image = net.op("MatMul", "patches", net.weight("patch", [768, hidden]))
    ends = [encode(net, name, x, layers, hidden, heads, size) for name, x, size in (("text", words, seq), ("image", image, patches))]
    net.save(path, [("ids", TensorProto.INT64, ["batch", seq]), ("patches", TensorProto.FLOAT, ["batch", patches, 768])],
             square_error(net, *ends))


WRITERS = {"resnet": write_resnet, "unet": write_unet, "two-tower": write_two_tower}
