#!/usr/bin/env python3
"""Writes a JAX function as generic-form StableHLO, which dpc-opt reads.   jax_export.py [FOLDER]   (pip install jax)

    import jax_export
    jax_export.write("model.mlir", loss, params, x, y)                         # a loss: dpc adds gradients and optimizer
    jax_export.write("step.mlir", step, params, opt, x, y, donate=(0, 1))      # a complete training step

In a step, donated arguments are also results: the floats of the first donated argument are parameters, the others are
states. In a plain function the floats of the first argument are parameters if that is a container (a dict, list or
dataclass). All other arguments are inputs, whose first dimension counts samples. Arguments are named as in Python:
params["dense"]["w"] is "params.dense.w", x is "x". Arrays may be jax.ShapeDtypeStruct: such a model can be planned.

It also writes model.safetensors for --init, with the values of parameters and of states that do not start from 0. As a program, this file writes an MLP in both forms and prints the next commands.
"""
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

TYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
         "uint8": "U8", "uint32": "U32", "bool": "BOOL"}


def leaves(function, args):
    """Yields (name, array) for every array in the arguments, in StableHLO's order."""
    names = list(__import__("inspect").signature(function).parameters)
    for name, arg in zip(names, args):
        for path, leaf in jax.tree_util.tree_flatten_with_path(arg)[0]:
            inner = jax.tree_util.keystr(path, simple=True, separator=".")
            yield f"{name}.{inner}" if inner else name, leaf


def write_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": TYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def write(path, function, *args, donate=()):
    """Writes `path` (.mlir). If parameters and states have values, writes the values to a .safetensors file."""
    path = pathlib.Path(path)
    # With keep_unused, the file has all arguments of the function.
    lowered = jax.jit(function, donate_argnums=donate, keep_unused=True).lower(*args)
    module = lowered.compiler_ir("stablehlo").operation
    path.write_text(module.get_asm(print_generic_op_form=True, enable_debug_info=True))
    held = [arg if i in (donate or (0,)) else () for i, arg in enumerate(args)]
    values = {name: leaf for name, leaf in leaves(function, held)}
    if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in values.values()):
        first = next(leaves(function, args))[0].split(".")[0]
        # States start from zero if the file does not have them.
        kept = {name: np.asarray(leaf) for name, leaf in values.items() if name.split(".")[0] == first or np.any(leaf)}
        write_safetensors(path.with_suffix(".safetensors"), kept)


def loss(params, x, y):
    hidden = jax.nn.relu(x @ params["hidden"]["w"] + params["hidden"]["b"])
    scores = hidden @ params["out"]["w"] + params["out"]["b"]
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], axis=1)
    return -picked.mean()


def step(params, momentum, x, y):
    """A training step with SGD and momentum; other optimizers (optax) work as well."""
    value, grads = jax.value_and_grad(loss)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
    return params, momentum, value


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    key = jax.random.split(jax.random.key(0), 2)
    params = {"hidden": {"w": jax.random.normal(key[0], (20, 64)) * 0.2, "b": jnp.zeros(64)},
              "out": {"w": jax.random.normal(key[1], (64, 10)) * 0.1, "b": jnp.zeros(10)}}
    x, y = jnp.zeros((32, 20)), jnp.zeros(32, jnp.int32)
    write(folder / "loss.mlir", loss, params, x, y)
    write(folder / "step.mlir", step, params, jax.tree.map(jnp.zeros_like, params), x, y, donate=(0, 1))
    for name, words in ("loss", " --train=adamw"), ("step", ""):
        print(f"dpc-opt {folder}/{name}.mlir --cluster=local:4 --init={folder}/{name}.safetensors{words} -o {folder}/{name}.plan && "
              f"dpc-run {folder}/{name}.plan --steps=5")


if __name__ == "__main__":
    main()
