"""Draws cases at random: a model, a cluster, a batch, and requests that the free one contains.

The problem of a case depends on the seed and the number of the case alone. Half of the fixed keys are next to the free
search's plan, so they depend on its answer too.
"""
import copy
import glob
import os
import random

import cases
import e2e

FIXTURES = ("mlp", "gpt2-tiny", "llama-tiny", "bert-tiny", "moe-tiny", "moe-capacity", "dit-tiny", "resnet-tiny")
FAMILIES = ("gpt", "bloom", "mpt", "llama", "moe", "bert", "vit", "dit", "resnet", "unet", "two-tower", "fixture")
# Micro-batches change the results of batch norm, so that the free search does not consider them for these models.
BATCH_NORMS = ("resnet", "resnet-tiny", "unet")
WEIGHTS = (2, 1, 1, 3, 2, 2, 3, 3, 1, 1, 1, 1)
# (hidden, layers from, layers to) by size: 1 to 3 million parameters up to 100 billion.
SIZES = ((128, 2, 6), (256, 2, 8), (512, 4, 12), (768, 6, 16), (1024, 12, 36), (1536, 12, 48), (2048, 16, 40), (3072, 16, 40),
         (4096, 16, 48), (5120, 24, 48), (6144, 32, 60), (8192, 40, 80), (12288, 48, 96))
LEARNED_BYTES = 16  # of states for each parameter in mixed precision

# An L40S differs from an A100 in rates and memory; PCIe connects a node's cards.
L40S = {"name": "l40s-48gb", "peak_teraflops.f32": 91.6, "peak_teraflops.bf16": 362, "peak_teraflops.f16": 362,
        "memory_gibibytes": 48, "memory_gigabytes_per_second": 864, "multiprocessors": 142}
MEMORY_SHARE = 0.125  # of the cases, which have memory as the objective

# The links within a node, by device: name, GB/s, microseconds.
LINKS = {"v100": ("nvlink", 150, 3), "a100": ("nvlink", 300, 3), "a800": ("nvlink", 200, 3), "h100": ("nvlink", 450, 3),
         "h200": ("nvlink", 450, 3), "b200": ("nvlink", 900, 3), "b300": ("nvlink", 900, 3), "gb200": ("nvlink", 900, 3),
         "gb300": ("nvlink", 900, 3), "l40s": ("pcie", 25, 8), "cpu": ("memory", 10, 1)}
NETWORKS = (("infiniband", 25, 8), ("infiniband", 50, 8), ("infiniband", 12.5, 8), ("ethernet", 3.125, 20), ("ethernet", 1.25, 50))


def device_names():
    return sorted(os.path.basename(path).removesuffix(".json") for path in glob.glob(os.path.join(cases.DEVICES, "*.json")))


def divisors(number, limit=None):
    return [n for n in range(1, min(number, limit or number) + 1) if number % n == 0]


# --- problems -----------------------------------------------------------------

def draw_sizes(rng):
    hidden, least, most = rng.choice(SIZES)
    head = 64 if hidden <= 1024 else 128
    return {"layers": rng.randrange(least, most + 1, 2), "hidden": hidden, "heads": hidden // head}


def draw_model(rng):
    """Returns (model, its parameters, about)."""
    family = rng.choices(FAMILIES, WEIGHTS)[0]
    if family == "fixture":
        return {"family": rng.choice(FIXTURES)}, 1e5
    if family == "resnet":
        return {"family": family}, 2.56e7
    if family == "unet":
        dims = {"width": rng.choice([32, 64, 128, 256]), "levels": rng.randint(2, 5), "image": rng.choice([32, 64, 128])}
        return {"family": family, "dims": dims}, 60 * (dims["width"] << dims["levels"] - 1) ** 2
    dims = draw_sizes(rng)
    hidden, layers, matrices, towers = dims["hidden"], dims["layers"], 12, 1
    if family in ("llama", "moe"):
        dims["ffn"] = hidden * rng.choice([11, 14]) // 4
        dims["kv_heads"] = max(1, dims["heads"] // rng.choice([1, 4, 8]))
        dims["vocab"] = rng.choice([32000, 128256])
    if family == "moe":
        dims["experts"] = rng.choice([4, 8, 16, 64])
        dims["topk"] = rng.choice([1, 2, 2])
        dims["expert_ffn"] = hidden * rng.choice([1, 2, 3])
        matrices = 4 + 3 * dims["experts"] * dims["expert_ffn"] / hidden
    if family == "vit":
        dims["image"] = rng.choice([224, 224, 384])
    elif family == "dit":
        dims["image"] = rng.choice([32, 64, 128])
        matrices = 18
    elif family == "two-tower":
        towers = 2
    else:
        dims["seq"] = rng.choice([128, 512] if family == "bert" else [512, 1024, 2048, 4096, 8192])
    vocabulary = 0 if family in ("vit", "dit") else dims.get("vocab", 250880 if family == "bloom" else 50000)
    return {"family": family, "dims": dims}, towers * layers * matrices * hidden**2 + vocabulary * hidden


def draw_group(rng, is_tiny):
    if is_tiny and rng.random() < 0.7:
        return {"nodes": rng.choice([1, 1, 2]), "devices_per_node": rng.randint(1, 8), "device": "cpu-local"}
    device = rng.choice([name for name in device_names() if name != "cpu-local"] + ["l40s"])
    inside = [4, 4, 2] if device.startswith("gb") else [1, 2, 4, 6, 8, 8, 8, 8]
    group = {"nodes": rng.choice([1, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 16, 32, 64]), "devices_per_node": rng.choice(inside), "device": device}
    if device == "l40s":
        group.update(device="a100-sxm-80gb", values=dict(L40S))
    elif rng.random() < 0.3:
        group["values"] = {"memory_gibibytes": rng.choice([12, 16, 24, 32, 64, 120])}
    return group


def draw_cluster(rng, is_tiny):
    group = draw_group(rng, is_tiny)
    groups = [group]
    if rng.random() < 0.07:
        groups.append({**draw_group(rng, is_tiny), "devices_per_node": group["devices_per_node"]})
    kind = "l40s" if "values" in group and "name" in group["values"] else group["device"].split("-")[0]
    name, rate, latency = LINKS[kind]
    span = 72 if kind in ("gb200", "gb300") and len(groups) == 1 and group["nodes"] * group["devices_per_node"] % 72 == 0 else "node"
    network, *speed = rng.choice(NETWORKS)
    return {"groups": groups, "levels": [[name, span, rate, latency], [network, "cluster", *speed]],
            "host": [rng.choice([64, 256, 1024, 2048]), rng.choice([10, 25, 55]), rng.choice([1, 12])]}


def draw_problem(rng, most_devices, most_parameters):
    """A case without narrow requests. The states of half of the models take more than a tenth of the cluster's memory."""
    is_tight, is_inferred = rng.random() < 0.5, rng.random() < 0.08
    while True:
        model, parameters = draw_model(rng)
        is_tiny = model["family"] in FIXTURES
        cluster = draw_cluster(rng, is_tiny)
        memory = sum(cases.memory_of(group) * group["nodes"] * group["devices_per_node"] for group in cluster["groups"]) * 2**30
        share = parameters * (2 if is_inferred else LEARNED_BYTES) / memory
        count = cases.device_count(cluster)
        if count <= most_devices and parameters <= most_parameters and share < 0.9 and (is_tiny or not is_tight or share > 0.1):
            break
    devices = {group["device"] for group in cluster["groups"]}
    is_old = any(device.startswith(("v100", "cpu")) for device in devices)
    precisions = ["fp16", "fp32"] if is_old else ["bf16"] * 6 + ["fp16", "fp32"]
    if all(device.startswith(("h", "b", "gb")) for device in devices):
        precisions.append("fp8")
    batch = max(1, int(count * rng.choice([0.25, 0.5, 1, 1, 2, 4, 8, 16, 32])))
    words = [f"--precision={rng.choice(precisions)}", "--infer" if is_inferred else "--train=adamw"]
    return {"model": model, "batch": min(batch, 4096), "words": words, "cluster": cluster, "strategy": "", "narrow": []}


# --- narrower requests ----------------------------------------------------------

def near(rng, values, chosen):
    """One of the values; half of the time one next to `chosen`."""
    if chosen in values and rng.random() < 0.5:
        at = values.index(chosen)
        values = [values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)] or values
    return rng.choice(values)


def draw_schedule(rng, keys, layers):
    kind = rng.choice(["1f1b", "gpipe", "zb-h1", "interleaved"])
    if kind != "interleaved":
        return {"schedule": kind}
    return {"schedule": kind, "vpp": near(rng, [n for n in (2, 3, 4, 5, 6, 8, 10, 12) if n <= layers], keys.get("vpp"))}


def draw_sequence(rng, keys, model, count):
    """Sequence parallelism, ranks that share a sequence, or ranks that share experts."""
    kind = rng.choice(["sp", "cp", "ep"] if model["family"].startswith("moe") else ["sp", "cp"])
    if kind == "sp":
        return {"sp": rng.choice(["true", "false"])}
    if kind == "ep":
        return {"ep": near(rng, divisors(count, 64), keys.get("ep"))}
    degree = near(rng, divisors(count, 64), keys.get("cp"))
    return {"cp": degree, "cp_kind": rng.choice(["ring", "ulysses"])} if degree > 1 else {"cp": degree}


def draw_other(rng, keys, count):
    return rng.choice([{"tp_overlap": "chunked"}, {"ranks": rng.choice(divisors(count))}, {"hybrid_shard": rng.choice(divisors(count))},
                       {"cp_kind": rng.choice(["ring", "ulysses"])}, {"batch_shares": "even"},
                       {"placement": rng.choice(["tp.dp.pp", "pp.dp.tp", "dp.tp.pp"])}])


def draw_keys(rng, case, keys):
    """One strategy for each kind of key; `keys` are those of the free search's plan."""
    count, batch = cases.device_count(case["cluster"]), case["batch"]
    layers = case["model"].get("dims", {}).get("layers", 4)
    drawn = {
        "dp": {"dp": near(rng, divisors(count), keys.get("dp"))},
        "tp": {"tp": near(rng, divisors(count, 64), keys.get("tp"))},
        "pp": {"pp": near(rng, divisors(count, layers), keys.get("pp"))},
        "sequence": draw_sequence(rng, keys, case["model"], count),
    }
    if case["model"]["family"] not in BATCH_NORMS:
        sizes = [n for n in (1, 2, 3, 4, 6, 8, 16, 32, 64) if n <= batch]
        drawn["micro_batch"] = {"micro_batch": near(rng, sizes, keys.get("micro_batch"))}
    if "--infer" not in case["words"]:
        drawn.update({
            "zero": {"zero": near(rng, [0, 1, 2, 3], keys.get("zero"))},
            "recompute": {"recompute": rng.choice(["none", "selective", "full"])},
            "schedule": draw_schedule(rng, keys, layers),
            "offload": {"offload": rng.choice(["none", "optimizer", "parameters", "all"])},
        })
    if rng.random() < 0.3:
        drawn["other"] = draw_other(rng, keys, count)
    return {kind: {key: str(value) for key, value in one.items()} for kind, one in drawn.items()}


# Pairs that people fix.
PAIRS = (("dp", "zero"), ("zero", "pp"), ("tp", "pp"), ("zero", "recompute"), ("micro_batch", "recompute"), ("offload", "zero"),
         ("offload", "micro_batch"), ("pp", "schedule"), ("tp", "sequence"), ("dp", "micro_batch"))


def draw_strategies(rng, case, chosen):
    """The strategies of the narrow requests: one for each kind of key, and two pairs of these."""
    keys = {key: value for key, value in chosen.items() if isinstance(value, (int, str)) and not isinstance(value, bool)}
    drawn = draw_keys(rng, case, keys)
    pairs = rng.sample([pair for pair in PAIRS if set(pair) <= drawn.keys()], 2)
    return list(drawn.values()) + [drawn[one] | drawn[other] for one, other in pairs]


def move(rng, keys, is_inferred):
    """Changes one decision of a plan: exchanges a factor between two degrees, or changes another key."""
    kinds = ["degrees", "degrees", "micro_batch", "sp"] + ([] if is_inferred else ["zero", "recompute", "schedule", "offload"])
    kind = rng.choice(kinds)
    if kind == "degrees":
        pairs = [(one, other) for one in ("dp", "tp", "pp", "cp") for other in ("dp", "tp", "pp", "cp")
                 if one != other and keys[one].isdigit() and int(keys[one]) % 2 == 0 and keys[other].isdigit()]
        if pairs:
            one, other = rng.choice(pairs)
            keys.update({one: str(int(keys[one]) // 2), other: str(int(keys[other]) * 2), "hybrid_shard": "1"})
    elif kind == "micro_batch":
        keys[kind] = str(rng.choice([int(keys[kind]) * 2, max(1, int(keys[kind]) // 2)]))
    elif kind == "sp":
        keys[kind] = "false" if keys[kind] == "true" else "true"
    elif kind == "schedule":
        keys.update({"vpp": "1", **{key: str(value) for key, value in draw_schedule(rng, {}, 4).items()}})
    else:
        values = {"zero": "0 1 2 3", "recompute": "none selective full", "offload": "none optimizer"}[kind].split()
        keys[kind] = rng.choice([value for value in values if value != keys[kind]])


def draw_neighbours(rng, case, chosen, count):
    """Plans that differ from the free search's in one or two decisions."""
    if not chosen:
        return []
    drawn = []
    for _ in range(count):
        keys = dict(cases.name_plan(chosen, case["cluster"]).keys)
        for _ in range(rng.choice([1, 2])):
            move(rng, keys, "--infer" in case["words"])
        if keys["pp"] == "1":
            keys.update(schedule="1f1b", vpp="1")
        if case["model"]["family"] in BATCH_NORMS:
            del keys["micro_batch"]  # all samples of a rank
        else:
            keys["micro_batch"] = str(min(int(keys["micro_batch"]), max(1, case["batch"] // int(keys["dp"]))))
        drawn.append(keys)
    return drawn


def scaled(cluster, field, index, factor):
    smaller = copy.deepcopy(cluster)
    if field == "levels":
        smaller["levels"][index][2] *= factor
    else:
        smaller["host"][index] *= factor
    return smaller


def smaller_clusters(cluster):
    """The cluster with less of one thing each."""
    smaller = [scaled(cluster, "levels", index, 0.5) for index in range(len(cluster["levels"]))]
    smaller.append(scaled(cluster, "host", 1, 0.5))
    for index, group in enumerate(cluster["groups"]):
        less = []
        if group["nodes"] > 1:
            less += [{"nodes": group["nodes"] - 1}, {"nodes": group["nodes"] // 2}]
        if group["devices_per_node"] > 1 and len(cluster["groups"]) == 1:
            less.append({"devices_per_node": group["devices_per_node"] - 1})
        less.append({"values": {**group.get("values", {}), "memory_gibibytes": cases.memory_of(group) * 0.8}})
        for change in less:
            smaller.append(copy.deepcopy(cluster))
            smaller[-1]["groups"][index].update(change)
    return smaller


def draw_narrow(rng, case, chosen, clusters, neighbours):
    """The narrow requests of a case: fixed keys, plans, and smaller clusters."""
    seen, narrow = set(), []
    for keys in draw_strategies(rng, case, chosen) + draw_neighbours(rng, case, chosen, neighbours):
        strategy = cases.strategy_of(keys)
        if strategy not in seen:
            seen.add(strategy)
            narrow.append({"strategy": strategy})
    smaller = smaller_clusters(case["cluster"])
    narrow += [{"cluster": one} for one in rng.sample(smaller, min(clusters, len(smaller)))]
    return narrow


class Draw:
    def __init__(self, seed, most_devices=512, most_parameters=1e11, clusters=3, neighbours=3, requests=None):
        self.seed, self.most_devices, self.most_parameters, self.requests = seed, most_devices, most_parameters, requests
        self.clusters, self.neighbours = clusters, neighbours

    def case(self, number, planning):
        """The case of this number; `planning` answers the free request."""
        rng = random.Random(f"{self.seed}/{number}")
        case = draw_problem(rng, self.most_devices, self.most_parameters)
        if random.Random(f"{self.seed}/{number}/objective").random() < MEMORY_SHARE:
            case["words"].append("--objective=memory")
        free = planning.plan(case, cases.requests_of(case)[0])
        narrow = draw_narrow(rng, case, free.strategy, self.clusters, self.neighbours)
        if self.requests and len(narrow) > self.requests:
            narrow = rng.sample(narrow, self.requests)
        return {**case, "narrow": narrow}
