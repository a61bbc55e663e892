#!/usr/bin/env python3
"""Reads exported files with their target's own code; exports.py runs it in an environment that has the code.

usage: exports_targets.py ENVIRONMENT accelerate|deepspeed|torchtitan RANKS:FOLDER...
       exports_targets.py CHECKOUT calculon RANKS:FOLDER...
       exports_targets.py SCHEMA.proto chakra RANKS:FOLDER...
"""
import dataclasses
import json
import logging
import os
import runpy
import subprocess
import sys
import tempfile
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
    module.dist.get_rank = lambda: 0  # as if a process group existed
    path = os.path.join(folder, "ds_config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    split = config.get("tensor_parallel", {}).get("autotp_size", 1) * config.get("pipeline", {}).get("stages", 1) * config.get("sequence_parallel_size", 1)
    data = ranks // split
    read = module.DeepSpeedConfig(path, mpu=types.SimpleNamespace(get_data_parallel_world_size=lambda: data))
    if "scheduler" in config:
        import torch
        from deepspeed.runtime import lr_schedules
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=config["optimizer"]["params"]["lr"])
        getattr(lr_schedules, config["scheduler"]["type"])(optimizer, **config["scheduler"]["params"])
    assert read.world_size == data and read.zero_optimization_stage == config["zero_optimization"]["stage"]


def with_torchtitan(version, environment):
    """Restarts this program with one of the versions first in the path; both have the same module name."""
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
    from torchtitan.components.optimizer import LRSchedulersContainer, OptimizersContainer
    from torchtitan.config import ParallelismConfig, TrainingConfig
    from torchtitan.distributed import ParallelDims

    @dataclasses.dataclass(kw_only=True)
    class Config:  # only the fields that the recipe uses
        training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
        parallelism: ParallelismConfig = dataclasses.field(default_factory=ParallelismConfig)
        optimizer: OptimizersContainer.Config = dataclasses.field(default_factory=OptimizersContainer.Config)
        lr_scheduler: LRSchedulersContainer.Config = dataclasses.field(default_factory=LRSchedulersContainer.Config)
        activation_checkpoint: object = None

    config = runpy.run_path(os.path.join(folder, "torchtitan.py"))["with_plan"](Config())
    dims = ParallelDims.from_config(config.parallelism, ranks)
    assert dims.world_size == ranks


def calculon(ranks, folder):
    """Calculon itself compiles and runs the execution, on a system whose networks are as large as necessary."""
    sys.path.insert(0, sys.argv[1])
    import calculon as package
    from calculon.llm import Llm
    parts = {}
    for name in ("application", "execution"):
        with open(os.path.join(folder, f"calculon-{name}.json"), encoding="utf-8") as file:
            parts[name] = json.load(file)
    execution = Llm.Execution.from_json(parts["execution"])
    assert execution.num_procs == ranks and execution.get_json() == parts["execution"]
    with open(os.path.join(sys.argv[1], "systems", "a100_80g.json"), encoding="utf-8") as file:
        config = json.load(file)
    network = dict(config["networks"][0], size=ranks, must_be_filled=False)
    config["networks"] = [network] * max(len(config["networks"]), 1 + max(parts["execution"][f"{axis}_par_net"] for axis in ("tensor", "pipeline", "data")))
    system = package.System(config)
    model = Llm(Llm.Application(parts["application"]), logging.getLogger())
    model.compile(system, execution)
    model.run(system)
    assert model.get_total_time() > 0


def messages(data):
    """Each message follows its length."""
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            size |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                break
        yield data[at:at + size]
        at += size


def chakra_classes(schema):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["protoc", f"--proto_path={os.path.dirname(schema)}", f"--descriptor_set_out={file.name}", schema], check=True)
        described = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    added = pool.Add(described.file[0]) or pool.FindFileByName(described.file[0].name)
    return [message_factory.GetMessageClass(added.message_types_by_name[name]) for name in ("GlobalMetadata", "Node")]


def chakra(ranks, folder):
    """protobuf reads every rank's trace with the schema: there are no unknown fields or values, and nodes follow the nodes that they wait for."""
    from google.protobuf import unknown_fields
    metadata, node_class = chakra_classes(sys.argv[1])
    for rank in range(ranks):
        with open(os.path.join(folder, f"chakra.{rank}.et"), "rb") as file:
            parts = list(messages(file.read()))
        assert metadata.FromString(parts[0]).version
        ids = set()
        for part in parts[1:]:
            node = node_class.FromString(part)
            assert not unknown_fields.UnknownFieldSet(node) and not any(map(unknown_fields.UnknownFieldSet, node.attr)), node
            kinds = node_class.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
            assert node.type in kinds and kinds[node.type].name != "INVALID_NODE", node
            assert node.name and all(attribute.name and attribute.WhichOneof("value") for attribute in node.attr), node
            assert ids.issuperset(node.data_deps) and ids.issuperset(node.ctrl_deps) and node.id not in ids, node
            ids.add(node.id)
        assert ids, rank


def main():
    environment, target, *words = sys.argv[1:]
    readers = {"accelerate": accelerate, "deepspeed": deepspeed, "torchtitan-0.2.2": torchtitan_toml, "torchtitan-0.3.0": torchtitan_recipe,
               "calculon": calculon, "chakra": chakra}
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
