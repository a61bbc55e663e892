"""Cases of the search's invariant: a problem, its widest request, and narrower requests.

A case is a JSON object:

    model     {"family": NAME, "dims": {...}}: a family of dpc-model or of nets.py, or a folder of test/fixtures/models
    batch     the global batch
    words     further options of dpc-opt
    cluster   {"groups": [{"nodes", "devices_per_node", "device", "values": {PATH: VALUE}}], "levels": [[name, span, GB/s,
              microseconds]], "host": [GiB, GB/s of PCIe, GB/s of NVMe]}; "values" replace constants of the device file
    strategy  fixed keys of the wide request, or ""
    narrow    [{"strategy", "cluster"}]: requests; without "cluster" on the cluster of the case

A request A contains a request B if every key of A is a key of B with the same value, and B's cluster has nothing that
A's lacks. A request with a degree (dp, tp, pp, cp) and without "ranks" has all devices of its cluster as "ranks". If its
degrees multiply to them, all keys that it does not give are off, except the micro-batch. Then every plan for B is a plan
for A, and the best plan for A is not slower than the best for B.
"""
import json
import math
import os

import e2e

# A request with more keys names one plan.
PLAN_KEYS = 8

DEGREES = ("dp", "tp", "pp", "cp")
# What a request leaves off whose degrees multiply to its ranks.
OFF = {"dp": "1", "tp": "1", "pp": "1", "vpp": "1", "cp": "1", "cp_kind": "ring", "ep": "1", "sp": "false", "zero": "0", "hybrid_shard": "1",
       "schedule": "1f1b", "recompute": "none", "offload": "none", "offload_to": "host", "placement": "auto", "batch_shares": "auto",
       "tp_overlap": "none"}

DEVICES = os.path.join(e2e.SOURCE, "cost-model", "devices")


class CaseError(Exception):
    pass


def keys_of(strategy):
    """{key: value} of a --strategy; "auto" and "" fix nothing."""
    if strategy in ("", "auto"):
        return {}
    return dict(word.split("=", 1) for word in strategy.split(","))


def strategy_of(keys):
    return ",".join(f"{key}={value}" for key, value in keys.items())


def device_count(cluster):
    return sum(group["nodes"] * group["devices_per_node"] for group in cluster["groups"])


def describe_device(group):
    """The device file's contents with the group's own values, or the file's name without any."""
    if not group.get("values"):
        return group["device"]
    device = e2e.read_json(os.path.join(DEVICES, group["device"] + ".json"))
    for path, value in group["values"].items():
        *parents, last = path.split(".")
        entry = device
        for parent in parents:
            entry = entry[parent]
        if last not in entry:
            raise CaseError(f"{group['device']} has no '{path}'")
        entry[last] = {"value": value, "source": "a case of the search's tester"} if isinstance(entry[last], dict) else value
    return device


def describe_cluster(cluster):
    """The cluster.json."""
    memory, pcie, nvme = cluster["host"]
    groups = [{"nodes": group["nodes"], "devices_per_node": group["devices_per_node"], "device": describe_device(group)}
              for group in cluster["groups"]]
    levels = [{"name": name, "span": span, "gigabytes_per_second": rate, "latency_microseconds": latency,
               "kind": "fat-tree" if span == "cluster" else "switch"} for name, span, rate, latency in cluster["levels"]]
    return {"version": 1, "name": named_cluster(cluster), "groups": groups, "levels": levels,
            "host": {"memory_gibibytes": memory, "pcie_gigabytes_per_second": pcie, "nvme_gigabytes_per_second": nvme}}


def named_cluster(cluster):
    return " + ".join(f"{group['nodes']} x {group['devices_per_node']} {group.get('values', {}).get('name', group['device'])}"
                      for group in cluster["groups"])


def memory_of(group):
    device = describe_device({"values": {"name": group["device"]}, **group})
    return device["memory_gibibytes"]["value"]


def is_part(small, large):
    """Whether `large` has all that `small` has: nodes, devices, memory and bandwidth of the same kind."""
    def rest(group):
        return group["device"], {path: value for path, value in group.get("values", {}).items() if path != "memory_gibibytes"}

    def links(cluster):
        return [(name, span) for name, span, _, _ in cluster["levels"]]

    if len(small["groups"]) != len(large["groups"]) or links(small) != links(large):
        return False
    groups = zip(small["groups"], large["groups"])
    levels = zip(small["levels"], large["levels"])
    return (all(a["nodes"] <= b["nodes"] and a["devices_per_node"] <= b["devices_per_node"] and rest(a) == rest(b) and
                memory_of(a) <= memory_of(b) for a, b in groups) and
            all(a[2] <= b[2] and a[3] >= b[3] for a, b in levels) and
            all(a <= b for a, b in zip(small["host"], large["host"])))


def ranks_of(keys):
    """The product of the degrees; tp may be a grid."""
    return math.prod(int(factor) for key in DEGREES for factor in keys.get(key, "1").split("x"))


def name_plan(plan, cluster):
    """The request for exactly the plan with the keys of report.json."""
    keys = {key: str(value).lower() for key, value in plan.items()}
    ranks = ranks_of(keys)
    return Request(keys | ({"ranks": str(ranks)} if ranks < device_count(cluster) else {}), cluster)


class Request:
    """Keys and a cluster: what dpc-opt is asked about the case's model."""

    def __init__(self, keys, cluster):
        self.keys, self.cluster = keys, cluster

    def decided(self):
        """The keys; a request that fixes a degree uses all devices, unless it names another number."""
        if not self.keys.keys() & set(DEGREES):
            return self.keys.items()
        keys = {"ranks": str(device_count(self.cluster)), **self.keys}
        return ({**OFF, **keys} if ranks_of(keys) == int(keys["ranks"]) else keys).items()

    def contains(self, other):
        return self.decided() <= other.decided() and is_part(other.cluster, self.cluster)

    def __eq__(self, other):
        return self.keys == other.keys and self.cluster == other.cluster


def requests_of(case):
    """The wide request, then the narrow ones. Fails where a request is not narrower."""
    wide = Request(keys_of(case["strategy"]), case["cluster"])
    requests = [wide]
    for entry in case["narrow"]:
        request = Request(keys_of(entry.get("strategy", "")), entry.get("cluster", case["cluster"]))
        if not wide.contains(request) or request == wide:
            raise CaseError(f"{json.dumps(entry)} is not narrower than the case's request")
        requests.append(request)
    return requests


def kind_of(wide, narrow):
    """What `narrow` lacks: a part of the cluster, a key, a second key, or all choice."""
    kinds = [kind for kind, count in (("nodes", lambda group: group["nodes"]), ("devices", lambda group: group["devices_per_node"]),
                                      ("memory", memory_of))
             if [count(group) for group in wide.cluster["groups"]] != [count(group) for group in narrow.cluster["groups"]]]
    if wide.cluster["levels"] != narrow.cluster["levels"]:
        kinds.append("bandwidth")
    if wide.cluster["host"] != narrow.cluster["host"]:
        kinds.append("host")
    if wide.keys != narrow.keys:
        kinds.append("plan" if len(narrow.keys) > PLAN_KEYS else "second key" if wide.keys else "key")
    return " and ".join(kinds)


def case_of(case, wide, narrow):
    """The case of one comparison alone."""
    entry = {"strategy": strategy_of(narrow.keys)}
    if narrow.cluster != wide.cluster:
        entry["cluster"] = narrow.cluster
    return {**case, "cluster": wide.cluster, "strategy": strategy_of(wide.keys), "narrow": [entry]}


def read_case(path):
    try:
        case = e2e.read_json(path)
    except (OSError, ValueError) as error:
        raise CaseError(f"{path}: not JSON: {error}" if isinstance(error, ValueError) else f"{path}: {error.strerror}") from error
    expected = {"model", "batch", "words", "cluster", "strategy", "narrow"}
    if set(case) != expected:
        raise CaseError(f"{path}: keys {sorted(case)}; expected {sorted(expected)}")
    requests_of(case)
    return case
