#!/usr/bin/env python3
"""Reads maxtext.yml with MaxText; exports_maxtext.py runs it in an environment that has MaxText.

usage: exports_maxtext_read.py RANKS maxtext.yml [METRICS]

Prints what MaxText makes of the file as one line of JSON. The ranks are devices of the CPU, and the model has shapes but no values.
With METRICS, MaxText trains two steps on data of its own instead, and writes their metrics into this file.
"""
import json
import math
import os
import sys
import types


def stand_in():
    """Two kernels need a later Python or JAX than Debian's Python has. No layer of the exported models calls them."""
    import jax.experimental.xla_metadata as metadata
    if not hasattr(metadata, "must_fuse_call"):
        metadata.must_fuse_call = lambda *_, **__: lambda function: function
    if sys.version_info < (3, 12):
        package, api = types.ModuleType("maxtext.kernels.mhc"), types.ModuleType("maxtext.kernels.mhc.api")
        package.api = api
        api.__getattr__ = lambda name: object  # annotations name its classes
        sys.modules.update({package.__name__: package, api.__name__: api})


def main():
    ranks, path = int(sys.argv[1]), sys.argv[2]
    os.environ.update(XLA_FLAGS=f"--xla_force_host_platform_device_count={ranks}", JAX_PLATFORMS="cpu")
    stand_in()
    words = [path, "run_name=test", f"base_output_directory={os.path.dirname(path)}", "dataset_type=synthetic", "enable_checkpointing=false", "skip_jax_distributed_system=true"]
    if len(sys.argv) > 3:
        from maxtext.trainers.pre_train import train
        return train.main(["train.py", *words, "steps=2", "attention=dot_product", f"metrics_file={sys.argv[3]}"])
    import jax
    from flax import nnx
    from maxtext.configs import pyconfig
    from maxtext.utils import maxtext_utils, model_creation_utils
    config = pyconfig.initialize(["", *words])
    mesh = maxtext_utils.get_mesh_from_config(config)
    assert mesh.size == ranks, mesh
    _, model = model_creation_utils.create_nnx_abstract_model(config, mesh=mesh)
    rates = maxtext_utils.create_learning_rate_schedule(config)
    print(json.dumps({"parameters": sum(math.prod(each.shape) for each in jax.tree.leaves(nnx.state(model, nnx.Param))),
                      "mesh": {axis: size for axis, size in mesh.shape.items() if size > 1}, "global_batch": config.global_batch_size_to_train_on,
                      "rates": [float(rates(step)) for step in range(20)]}))
    return None


if __name__ == "__main__":
    main()
