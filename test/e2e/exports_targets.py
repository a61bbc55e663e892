#!/usr/bin/env python3
"""Has exported files read by their target's own code; run by exports.py in an environment that has it.

usage: exports_targets.py ENVIRONMENT accelerate|deepspeed|torchtitan RANKS:FOLDER...
"""
import dataclasses
import json
import os
import runpy
import subprocess
import sys
import tomllib
import types


def accelerate(ranks, folder):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig
    config = load_config_from_file(os.path.join(folder, "accelerate.yaml"))
    assert config.num_processes == ranks, config
    sizes = {key.removeprefix("parallelism_config_"): value for key, value in config.parallelism_config.items()}
    if sizes:
        names = {field.name for field in dataclasses.fields(ParallelismConfig)}
        parallelism = ParallelismConfig(**{key: value for key, value in sizes.items() if key in names})
        assert parallelism.total_size == ranks or sizes.get("sp_size", 1) > 1, parallelism
        fsdp = config.distributed_type.value == "FSDP"
        assert not fsdp or parallelism.dp_shard_enabled or parallelism.cp_enabled, "FSDP has nothing to split over"
    if config.megatron_lm_config:
        degrees = [config.megatron_lm_config.get("megatron_lm_" + key, 1) for key in ("tp_degree", "pp_degree", "context_parallel_size")]
        assert ranks % (degrees[0] * degrees[1] * degrees[2]) == 0


def deepspeed(ranks, folder):
    from deepspeed.runtime import config as module
    module.dist.get_rank = lambda: 0  # as if there were a process group
    path = os.path.join(folder, "ds_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    split = config.get("tensor_parallel", {}).get("autotp_size", 1) * config.get("pipeline", {}).get("stages", 1) * config.get("sequence_parallel_size", 1)
    data = ranks // split
    read = module.DeepSpeedConfig(path, mpu=types.SimpleNamespace(get_data_parallel_world_size=lambda: data))
    assert read.world_size == data and read.zero_optimization_stage == config["zero_optimization"]["stage"]


def with_torchtitan(version, environment):
    """Starts this again with one of the versions in front; there is one name for both."""
    path = os.path.join(environment, f"torchtitan-{version}")
    done = subprocess.run([sys.executable, __file__, environment, f"torchtitan-{version}", *sys.argv[3:]], env=dict(os.environ, PYTHONPATH=path))
    assert done.returncode == 0, version


def torchtitan_toml(ranks, folder):
    from torchtitan.config import job_config
    from torchtitan.distributed import ParallelDims
    path = os.path.join(folder, "torchtitan.toml")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        config = tomllib.load(file)
    sections = {field.name: field for field in dataclasses.fields(job_config.JobConfig)}
    for name, values in config.items():
        getattr(job_config, sections[name].type.__name__ if isinstance(sections[name].type, type) else sections[name].type)(**values)
    parallelism = job_config.Parallelism(**config["parallelism"])
    ParallelDims(parallelism.data_parallel_replicate_degree, parallelism.data_parallel_shard_degree, parallelism.context_parallel_degree,
                 parallelism.tensor_parallel_degree, parallelism.pipeline_parallel_degree, parallelism.expert_parallel_degree,
                 parallelism.expert_tensor_parallel_degree, ranks)


def torchtitan_recipe(ranks, folder):
    from torchtitan.config import ParallelismConfig, TrainingConfig
    from torchtitan.distributed import ParallelDims

    @dataclasses.dataclass(kw_only=True)
    class Config:  # as much of Trainer.Config as the recipe touches
        training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
        parallelism: ParallelismConfig = dataclasses.field(default_factory=ParallelismConfig)
        activation_checkpoint: object = None

    config = runpy.run_path(os.path.join(folder, "torchtitan.py"))["with_plan"](Config())
    dims = ParallelDims.from_config(config.parallelism, ranks)
    assert dims.world_size == ranks


def main():
    environment, target, *words = sys.argv[1:]
    readers = {"accelerate": accelerate, "deepspeed": deepspeed, "torchtitan-0.2.2": torchtitan_toml, "torchtitan-0.3.0": torchtitan_recipe}
    if target == "torchtitan":
        for version in ("0.2.2", "0.3.0"):
            with_torchtitan(version, environment)
    else:
        for word in words:
            ranks, _, folder = word.partition(":")
            try:
                readers[target](int(ranks), folder)
            except BaseException:
                print(f"{target}: {folder}: ", os.listdir(folder), file=sys.stderr)
                raise
    print(f"{len(words)} read")


if __name__ == "__main__":
    main()
