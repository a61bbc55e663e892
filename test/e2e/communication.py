#!/usr/bin/env python3
"""Communication is minimal: counts exactly what a plan sends in a step.

Every collective of a step appears in these tests by phase, kind, group and bytes; one more or one fewer fails. `hidden`
is one activation [batch, sequence, hidden] of the whole batch, `rows` one float per token.
"""
import collections, math
import unittest

import e2e

# The communication of one step: (phase, op, reduction or None, axes, bytes) -> count. Bytes are the size of the whole
# buffer before it is scattered or after it is gathered.
Traffic = collections.Counter

BLOCKS = {"gpt2-tiny": 4, "llama-tiny": 4, "bert-tiny": 2}
HIDDEN = {"gpt2-tiny": 8 * 32 * 64 * 4, "llama-tiny": 8 * 32 * 64 * 4, "bert-tiny": 8 * 24 * 64 * 4}
ROWS = 8 * 32 * 4
SCALAR = 4


def make_plan(folder, model, strategy, ranks, cluster=None, precision="fp32"):
    e2e.must([e2e.tool("dpc-opt"), e2e.model(model), f"--cluster={cluster or f'local:{ranks}'}", "--global-batch=8",
              "--emit=plan,report", f"--strategy={strategy}", f"--precision={precision}", "--clip-grad-norm=1",
              "--verify=off", "-o", folder])
    return e2e.read_plan(folder)


class Collectives:
    """Returns the collectives of a plan, each as often as a step runs it."""

    def __init__(self, plan):
        self.plan, self.all = plan, []
        runs = collections.Counter(entry["phase"] for entry in plan["schedule"][0])
        for phase, instructions in plan["phases"].items():
            for instruction in instructions:
                if "group" in instruction:
                    self.all += [(phase, instruction)] * runs[phase]

    def buffers(self, instruction):
        """Returns the buffers that are sent, at full size."""
        ids = {"all_reduce": lambda i: i["buffers"], "reduce_scatter": lambda i: i["ins"],
               "all_gather": lambda i: i["outs"], "all_to_all": lambda i: [i["in"]]}[instruction["op"]](instruction)
        return [self.plan["buffers"][i] for i in ids]

    def axes(self, instruction):
        return ",".join(self.plan["groups"][instruction["group"]]["axes"])

    def traffic(self, gradients=True):
        """Communicates every buffer separately; without gradients if `gradients` is false."""
        sent = Traffic()
        for phase, instruction in self.all:
            for buffer in self.buffers(instruction):
                if gradients or not self.is_gradient(buffer):
                    sent[phase, instruction["op"], instruction.get("kind"), self.axes(instruction), buffer["bytes"]] += 1
        return sent

    def is_gradient(self, buffer):
        return buffer["kind"] == "gradient" and bool(buffer["shape"])

    def gradients(self):
        """Returns [(axes, shape)] of every gradient that is reduced."""
        return sorted((self.axes(i), tuple(b["shape"])) for _, i in self.all for b in self.buffers(i) if self.is_gradient(b))


def trained(plan):
    """The parameters that the optimizer updates."""
    names = {tensor["of"] for tensor in plan["tensors"] if tensor["role"] == "state"}
    return [tensor for tensor in plan["tensors"] if tensor["role"] == "parameter" and tensor["name"] in names]


def moved(plan):
    """The trained parameters with a gradient. A bias of attention keys has none: softmax cancels it."""
    return [tensor for tensor in trained(plan) if not tensor["name"].endswith(".k.bias")]


def local_shapes(plan):
    return [tuple(plan["buffers"][tensor["buffer"]]["shape"]) for tensor in moved(plan)]


class Communication(unittest.TestCase):
    maxDiff = None

    def plan(self, model, strategy, ranks, precision="fp32"):
        with e2e.scratch() as folder:
            return make_plan(f"{folder}/plan", model, strategy, ranks, precision=precision)

    def same(self, got, want):
        self.assertEqual(dict(got), {key: count for key, count in want.items() if count})

    def test_one_rank_sends_nothing(self):
        self.assertEqual(Collectives(self.plan("gpt2-tiny", "dp=1", 1)).all, [])

    def test_data_parallel_reduces_each_gradient_once(self):
        for model in BLOCKS:
            for ranks in (2, 4):
                with self.subTest(model=model, ranks=ranks):
                    plan = self.plan(model, f"dp={ranks}", ranks)
                    sent = Collectives(plan)
                    self.assertEqual(sent.gradients(), sorted(("dp", shape) for shape in local_shapes(plan)))
                    # Nothing is sharded over dp, so the whole gradients of all parameters are reduced.
                    parameters = sum(plan["buffers"][t["buffer"]]["bytes"] for t in moved(plan))
                    with_loss = sum(key[-1] * count for key, count in sent.traffic().items())
                    # A mean over labels is computed from two sums: the losses, and the number of labels.
                    self.assertEqual(with_loss, parameters + 2 * SCALAR)
                    self.same(sent.traffic(gradients=False), {("forward", "all_reduce", "sum", "dp", SCALAR): 2})

    def test_micro_batches_do_not_reduce_gradients_more_often(self):
        plan = self.plan("gpt2-tiny", "dp=2,micro_batch=1", 2)
        self.assertEqual(plan["micro_batches"], 4)
        sent = Collectives(plan)
        self.assertEqual(sent.gradients(), sorted(("dp", shape) for shape in local_shapes(plan)))
        self.same(sent.traffic(gradients=False), {("update", "all_reduce", "sum", "dp", SCALAR): 2})

    def test_context_parallel_reduces_each_gradient_once_a_step(self):
        blocks = BLOCKS["gpt2-tiny"]
        for precision, width in (("fp32", 4), ("bf16", 2)):
            with self.subTest(precision=precision):
                plan = self.plan("gpt2-tiny", "cp=2,cp_kind=ulysses,micro_batch=2", 2, precision)
                self.assertEqual(plan["micro_batches"], 4)
                sent = Collectives(plan)
                shapes = local_shapes(plan)
                shapes.remove((64, 64))  # each rank computes a partial sum of the gradient of the position embedding
                self.assertEqual(sent.gradients(), sorted(("cp", shape) for shape in shapes))
                # The loop only sends q, k, v and the output of attention, in both directions.
                moved_around = HIDDEN["gpt2-tiny"] // 4 * width // 2 // 4
                self.same(sent.traffic(gradients=False), {("forward", "all_to_all", None, "cp", moved_around): 16 * blocks,
                                                          ("backward", "all_to_all", None, "cp", moved_around): 16 * blocks,
                                                          ("update", "all_gather", None, "cp", 64 * 64 * 4): 1,
                                                          ("update", "all_reduce", "sum", "cp", SCALAR): 2})

    def test_copies_in_half_precision_have_their_gradients_summed_when_parameters_do(self):
        # Whether the model reads the parameters or bf16 copies, the same gradients are reduced in the same phases.
        def sums(strategy, ranks, precision):
            total = collections.Counter()
            for phase, instruction in Collectives(plan := self.plan("gpt2-tiny", strategy, ranks, precision)).all:
                if instruction["op"] in ("all_reduce", "reduce_scatter") and (
                        "update" in phase or "cp" in plan["groups"][instruction["group"]]["axes"]):
                    buffers = Collectives(plan).buffers(instruction)
                    total[phase, instruction["op"], Collectives(plan).axes(instruction)] += sum(b["bytes"] for b in buffers)
            return total
        for strategy, ranks, last in (("dp=2,cp=2,micro_batch=2", 4, "update"), ("cp=2,zero=1,micro_batch=2", 2, "update"),
                                      ("cp=2,zero=2,micro_batch=2", 2, "backward"), ("tp=2,cp=2,sp=true,micro_batch=2", 4, "update"),
                                      ("pp=2,cp=2,micro_batch=2", 4, "update")):
            with self.subTest(strategy=strategy):
                strategy += ",cp_kind=ulysses"
                half = sums(strategy, ranks, "bf16")
                self.assertEqual(half, sums(strategy, ranks, "fp32"))
                large = {phase.split(".")[-1] for (phase, _, _), size in half.items() if size > 1000}
                self.assertEqual(large, {last})

    def test_experts_are_reduced_over_their_copies_only(self):
        # Two layers with four experts, sharded over two ranks of ep, with two replicas along dp. There are 8 x 16
        # tokens of width 48.
        plan = self.plan("moe-tiny", "dp=4,ep=2", 4)
        sent = Collectives(plan)
        self.assertEqual(sorted(shape for shape in local_shapes(plan) if len(shape) == 3),
                         [(2, 48, 96)] * 2 + [(2, 96, 48)] * 2)
        # A gradient may be computed in another shape with the same number of elements.
        self.assertEqual(sorted((axes, math.prod(shape)) for axes, shape in sent.gradients()),
                         sorted(("dp" if len(shape) == 3 else "dp,ep", math.prod(shape)) for shape in local_shapes(plan)))
        # Before every layer of experts, the tokens of both ranks are gathered. After it, the sums are scattered. The
        # backward phase does the same. An all_to_all exchanges the gates, and the norm of the experts' gradients is
        # summed over ep.
        tokens, gates = 8 // 2 * 16 * 48 * 4, 8 // 4 * 16 * 4 * 4
        want = {("forward", "all_reduce", "sum", "dp,ep", SCALAR): 2, ("update", "all_reduce", "sum", "ep", SCALAR): 1}
        for phase in ("forward", "backward"):
            want[phase, "all_gather", None, "ep", tokens] = 2
            want[phase, "reduce_scatter", "sum", "ep", tokens] = 2
            want[phase, "all_to_all", None, "ep", gates] = 2
        self.same(sent.traffic(gradients=False), want)

    def scattered(self, strategy):
        """Returns (parameter bytes, bytes reduced to shards, bytes gathered) of a ZeRO plan of gpt2-tiny on 4 ranks."""
        plan = self.plan("gpt2-tiny", strategy, 4)
        sent = Collectives(plan)
        parameters = sum(4 * math.prod(tensor["global_shape"]) for tensor in trained(plan))
        total = collections.Counter()
        for phase, instruction in sent.all:
            total[instruction["op"]] += sum(buffer["bytes"] for buffer in sent.buffers(instruction))
        # The other all_reduces are two sums for the loss, and the norm of gradients over shards.
        self.assertEqual(total["all_reduce"], 3 * SCALAR)
        return parameters, total["reduce_scatter"], total["all_gather"], plan

    def test_zero_1_and_2_move_the_bytes_of_ddp(self):
        # An all_reduce sends as many bytes as a reduce_scatter and an all_gather.
        for zero in (1, 2):
            with self.subTest(zero=zero):
                parameters, reduced, gathered, _ = self.scattered(f"dp=4,zero={zero}")
                self.assertEqual((reduced, gathered), (parameters, parameters))

    def test_zero_3_gathers_what_each_phase_reads(self):
        parameters, reduced, gathered, plan = self.scattered("dp=4,zero=3")
        self.assertEqual(reduced, parameters)
        # Forward gathers all parameters. Backward gathers matrices and norm scales, but not biases. In total, ZeRO-3
        # sends at most 1.5 times the bytes of DDP.
        biases = sum(4 * math.prod(t["global_shape"]) for t in trained(plan) if t["name"].endswith("bias"))
        positions = sum(4 * math.prod(t["global_shape"]) for t in trained(plan) if t["name"].endswith("wpe.weight"))
        self.assertEqual(gathered, 2 * parameters - biases - positions)

    def zero_traffic(self, strategy, ranks=4):
        """Returns ({op: bytes of whole buffers over the data axes, by phase}, in parameters of llama-tiny), over all stages."""
        plan = self.plan("llama-tiny", strategy, ranks)
        parameters = sum(4 * math.prod(tensor["global_shape"]) for tensor in trained(plan))
        stages = len(plan["arena_bytes"])
        sent = collections.Counter()
        for rank in range(0, ranks, ranks // stages):
            for entry in plan["schedule"][rank]:
                for instruction in plan["phases"][entry["phase"]]:
                    if instruction["op"] in ("all_reduce", "reduce_scatter", "all_gather"):
                        buffers = [b for b in Collectives(plan).buffers(instruction) if b["shape"]]
                        kind = next(k for k in ("forward", "backward", "update") if k in entry["phase"])
                        sent[instruction["op"], kind] += sum(buffer["bytes"] for buffer in buffers)
        return {key: bytes / parameters for key, bytes in sent.items() if bytes}

    # The backward phase does not read the embedding of llama-tiny, 512 x 64 of 242240 parameters.
    READ_BACKWARD = 1 - 512 * 64 / 242240

    def test_zero_with_micro_batches(self):
        # Each of four ranks runs its two samples in one micro-batch, or in two micro-batches of one sample.
        for m, words in ((1, ""), (2, ",micro_batch=1")):
            with self.subTest(micro_batches=m):
                last = "backward" if m == 1 else "update"
                self.assertEqual(self.zero_traffic("dp=4" + words), {("all_reduce", last): 1})
                # An all_reduce sends as much as a reduce_scatter and an all_gather, so ZeRO-1 sends as much as DDP.
                self.assertEqual(self.zero_traffic("dp=4,zero=1" + words),
                                 {("reduce_scatter", last): 1, ("all_gather", "update"): 1})
                # If ranks store only a shard of the sums, gradients are scattered in every micro-batch. With m
                # micro-batches, this sends (m + 1) / 2 times the bytes of DDP.
                self.assertEqual(self.zero_traffic("dp=4,zero=2" + words),
                                 {("reduce_scatter", "backward"): m, ("all_gather", "update"): 1})
                # Three collectives of all parameters per micro-batch instead of two per step. With full recompute, the
                # backward phase gathers all parameters.
                for recompute, share in (("none", self.READ_BACKWARD), ("selective", self.READ_BACKWARD), ("full", 1)):
                    self.assertEqual(self.zero_traffic(f"dp=4,zero=3,recompute={recompute}" + words),
                                     {("all_gather", "forward"): m, ("all_gather", "backward"): m * share,
                                      ("reduce_scatter", "backward"): m})

    def test_zero_with_pipelines(self):
        # Two stages together send as many bytes as one stage would, because ZeRO sends nothing between stages.
        for m, words in ((2, "pp=2,dp=2,micro_batch=2"), (4, "pp=2,dp=2,micro_batch=1"), (4, "pp=2,vpp=2,dp=2,micro_batch=1")):
            with self.subTest(strategy=words):
                self.assertEqual(self.zero_traffic(words), {("all_reduce", "update"): 1})
                self.assertEqual(self.zero_traffic(words + ",zero=1"),
                                 {("reduce_scatter", "update"): 1, ("all_gather", "update"): 1})
                self.assertEqual(self.zero_traffic(words + ",zero=2"),
                                 {("reduce_scatter", "backward"): m, ("all_gather", "update"): 1})
                self.assertEqual(self.zero_traffic(words + ",zero=3"),
                                 {("all_gather", "forward"): m, ("all_gather", "backward"): m * self.READ_BACKWARD,
                                  ("reduce_scatter", "backward"): m})

    def test_buckets(self):
        # With buckets of 25 MiB, all gradients of llama-tiny are reduced in one call. Parameters are gathered in
        # buckets of at most 1/16 of them, so any two adjacent buckets together are larger than 1/16.
        calls = collections.Counter((op["op"], phase) for phase, op in Collectives(self.plan("llama-tiny", "dp=4,zero=3", 4)).all
                                    if op["op"] != "all_reduce")
        self.assertEqual(calls["reduce_scatter", "backward"], 1)
        for phase in ("forward", "backward"):
            self.assertIn(calls["all_gather", phase], range(8, 34))

    def test_zero_shrinks_what_a_rank_stores(self):
        def stored(zero, role):
            plan = self.plan("gpt2-tiny", f"dp=4,zero={zero}", 4)
            return sum(plan["buffers"][t["buffer"]]["bytes"] for t in plan["tensors"] if t["role"] == role)
        full = {role: stored(0, role) for role in ("parameter", "state")}
        self.assertEqual(full["state"], 2 * full["parameter"])
        self.assertEqual(stored(1, "parameter"), full["parameter"])
        self.assertEqual(stored(1, "state") * 4, full["state"])
        self.assertEqual(stored(3, "parameter") * 4, full["parameter"])

    def test_hybrid_sharding_scatters_inside_a_node(self):
        plan = self.plan("gpt2-tiny", "dp=4,zero=2,hybrid_shard=2", 4)
        sizes = [4 * math.prod(tensor["global_shape"]) for tensor in trained(plan)]
        total = collections.Counter()
        for (_, op, _, axes, size), count in Collectives(plan).traffic().items():
            total[op, axes] += size * count
        # For small gradients (biases), one collective is cheaper than two.
        parameters, large = sum(sizes), sum(size for size in sizes if size >= 1024)
        # Only the sums of shards and three scalars are sent between nodes: two for the loss, and one for the norm.
        self.assertEqual(dict(total), {("reduce_scatter", "dpi"): large, ("all_reduce", "dp"): large / 2,
                                       ("all_gather", "dpi"): parameters, ("all_reduce", "dpi"): SCALAR,
                                       ("all_reduce", "dp,dpi"): parameters - large + 2 * SCALAR})
        states = sum(plan["buffers"][t["buffer"]]["bytes"] for t in plan["tensors"] if t["role"] == "state")
        self.assertEqual(states, 2 * parameters / 2)

    def test_large_reductions_go_by_machines(self):
        with e2e.scratch() as folder:
            cluster = e2e.write_two_machines(folder, 2)
            plan = make_plan(f"{folder}/plan", "gpt2-tiny", "dp=4", 4, cluster)
            sharded = make_plan(f"{folder}/sharded", "gpt2-tiny", "dp=2,tp=2", 4, cluster)
        parameters = sum(plan["buffers"][t["buffer"]]["bytes"] for t in moved(plan))
        total = collections.Counter()
        for (_, op, _, axes, size), count in Collectives(plan).traffic().items():
            total[op, axes] += size * count
        # Half of each padded bucket leaves the machine. Buckets contain gradients and two scalars of the loss.
        inside = total["reduce_scatter", "dpi"]
        self.assertGreaterEqual(inside, parameters + 2 * SCALAR)
        self.assertLess(inside, 1.01 * parameters)
        self.assertEqual(dict(total), {("reduce_scatter", "dpi"): inside, ("all_gather", "dpi"): inside,
                                       ("all_reduce", "dp"): inside // 2})
        # Groups inside one machine reduce in one collective.
        self.assertNotIn("dpi", {axis for group in sharded["groups"] for axis in group["axes"]})

    def sent_around_blocks(self, strategy, ranks):
        """Returns the bytes of activations that one rank sends."""
        sent = 0
        for (_, op, _, axes, size), count in Collectives(self.plan("gpt2-tiny", strategy, ranks)).traffic(False).items():
            # The size of a buffer is the full size, but for all_to_all it is the size on one rank.
            sent += size * count * (ranks - 1) // ranks * (2 if op == "all_reduce" else 1)
        return sent

    def test_ulysses_sends_less_on_more_ranks_and_megatron_does_not(self):
        hidden, blocks = HIDDEN["gpt2-tiny"], BLOCKS["gpt2-tiny"]
        ulysses, megatron = {}, {}
        for ranks in (2, 4):
            sent = Collectives(self.plan("gpt2-tiny", f"cp={ranks},cp_kind=ulysses", ranks)).traffic(False)
            # q, k, v and the output of attention are sent in both directions, and the gradient of the position
            # embedding is gathered.
            self.same(sent, Traffic({("forward", "all_to_all", None, "cp", hidden // ranks): 4 * blocks,
                                     ("backward", "all_to_all", None, "cp", hidden // ranks): 4 * blocks,
                                     ("backward", "all_gather", None, "cp", 64 * 64 * 4): 1,
                                     ("forward", "all_reduce", "sum", "cp", SCALAR): 2}))
            ulysses[ranks] = self.sent_around_blocks(f"cp={ranks},cp_kind=ulysses", ranks)
            megatron[ranks] = self.sent_around_blocks(f"tp={ranks},sp=true", ranks)
        # Each of n ranks sends (n - 1) / n^2 of the activations with Ulysses, and (n - 1) / n with Megatron-LM.
        def around_blocks(strategy, n, ops):
            traffic = Collectives(self.plan("gpt2-tiny", strategy, n)).traffic(False)
            return sum(size * count * (n - 1) // n for (_, op, _, _, size), count in traffic.items() if op in ops and size in (hidden, hidden // n))
        for n in (2, 4):
            self.assertEqual(around_blocks(f"cp={n},cp_kind=ulysses", n, ("all_to_all",)), 8 * blocks * hidden * (n - 1) // n ** 2)
            self.assertEqual(around_blocks(f"tp={n},sp=true", n, ("all_gather", "reduce_scatter")),
                             4 * (2 * blocks + 1) * hidden * (n - 1) // n)
        self.assertLess(ulysses[4], 0.8 * ulysses[2])
        self.assertGreater(megatron[4], 1.3 * megatron[2])
        self.assertLess(ulysses[4], megatron[4] / 3)

    def test_ring_passes_keys_and_values_round(self):
        hidden, blocks = HIDDEN["gpt2-tiny"], BLOCKS["gpt2-tiny"]
        for ranks in (2, 4):
            plan = self.plan("gpt2-tiny", f"cp={ranks},cp_kind=ring", ranks)
            passed = collections.Counter()
            for phase, instruction in Collectives(plan).all:
                if instruction["op"] == "send":
                    size = plan["buffers"][instruction["buffer"]]["bytes"]
                    passed[phase, size, instruction["shift"], instruction["wrap"]] += 1
            # Forward sends k and v ranks - 1 times each. Backward sends them as often, and sends their gradients ranks
            # times, back to the owners.
            self.assertEqual(dict(passed), {("forward", hidden // ranks, 1, True): 2 * (ranks - 1) * blocks,
                                            ("backward", hidden // ranks, 1, True): (4 * ranks - 2) * blocks})

    def test_grid_splits_a_weight_on_both_dimensions(self):
        # 4 heads cannot be sharded over 8 ranks, so the last axis shards the result of a projection.
        plan = self.plan("gpt2-tiny", "tp=2x2x2", 8)
        layouts = {t["name"]: [sum((f["axes"] for f in dim), []) for dim in t["layout"]]
                   for t in plan["tensors"] if t["role"] == "parameter"}
        projections = [layout for name, layout in layouts.items() if name.endswith("proj.weight")]
        self.assertEqual(projections, [[["tp2"], ["tp0", "tp1"]]] * BLOCKS["gpt2-tiny"])
        # All axes shard every matrix.
        for name, layout in layouts.items():
            if len(layout) == 2 and not name.endswith("wpe.weight"):
                self.assertEqual(sorted(sum(layout, [])), ["tp0", "tp1", "tp2"], name)

    def tensor_parallel(self, model, around):
        """Two all_reduces forward and two backward per block, those around the blocks, and the norm."""
        want = Traffic({("forward", "all_reduce", "sum", "tp", HIDDEN[model]): 2 * BLOCKS[model],
                        ("backward", "all_reduce", "sum", "tp", HIDDEN[model]): 2 * BLOCKS[model],
                        ("update", "all_reduce", "sum", "tp", SCALAR): 1})
        want.update(around)
        return want

    def cross_entropy(self):
        """The logits stay sharded: the largest of each row, then its sum and its label's logit are reduced."""
        return {("forward", "all_reduce", "max", "tp", ROWS): 1, ("forward", "all_reduce", "sum", "tp", ROWS): 2}

    def test_tensor_parallel_gpt2(self):
        hidden = HIDDEN["gpt2-tiny"]
        around = Traffic({("forward", "all_reduce", "sum", "tp", hidden): 1,    # embedding, sharded by vocabulary
                          ("backward", "all_reduce", "sum", "tp", hidden): 1})  # head, which has the same weight
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                sent = Collectives(self.plan("gpt2-tiny", f"tp={ranks}", ranks))
                self.same(sent.traffic(), self.tensor_parallel("gpt2-tiny", around + Traffic(self.cross_entropy())))

    def test_tensor_parallel_llama(self):
        hidden = HIDDEN["llama-tiny"]
        around = Traffic({("forward", "all_gather", None, "tp", hidden): 1,     # embedding, sharded by columns
                          ("backward", "all_reduce", "sum", "tp", hidden): 1})  # head
        sent = Collectives(self.plan("llama-tiny", "tp=2", 2))
        self.same(sent.traffic(), self.tensor_parallel("llama-tiny", around + Traffic(self.cross_entropy())))

    def test_tensor_parallel_bert(self):
        hidden = HIDDEN["bert-tiny"]
        around = Traffic({("forward", "all_gather", None, "tp", hidden): 2,           # two embeddings
                          ("forward", "all_reduce", "sum", "tp", 8 * 3 * 4): 1,       # classifier
                          ("backward", "all_reduce", "sum", "tp", 8 * 64 * 4): 1})    # pooler
        sent = Collectives(self.plan("bert-tiny", "tp=2", 2))
        self.same(sent.traffic(), self.tensor_parallel("bert-tiny", around))

    def test_fused_qkv_is_split_by_heads_and_sends_nothing(self):
        plan = self.plan("gpt2-tiny", "tp=4", 4)
        sharded = {t["name"]: t["layout"] for t in plan["tensors"] if "qkv" in t["name"] and t["role"] == "parameter"}
        self.assertEqual(len(sharded), 2 * BLOCKS["gpt2-tiny"])
        for name, layout in sharded.items():
            # The 192 rows are (q, k, v) x 4 heads of 16. Each rank stores one head of q, k and v, so tp shards the
            # factor 64 = 4 x 16 by heads.
            self.assertEqual([(f["size"], f["axes"]) for f in layout[0]], [(3, []), (64, ["tp"])], name)
        sent = Collectives(plan)
        forward = [i["name"] for phase, i in sent.all if phase == "forward"]
        self.assertEqual([name for name in forward if "qkv" in name], [])
        # Backward only sums the gradient of the projection's input over heads.
        backward = [i for phase, i in sent.all if phase == "backward" and "qkv" in i["name"]]
        self.assertEqual([(i["op"], i["kind"]) for i in backward], [("all_reduce", "sum")] * BLOCKS["gpt2-tiny"])

    def test_sequence_parallel_sends_the_bytes_of_tensor_parallel(self):
        plan = self.plan("gpt2-tiny", "tp=4,sp=true", 4)
        sent, hidden, blocks = Collectives(plan), HIDDEN["gpt2-tiny"], BLOCKS["gpt2-tiny"]
        want = Traffic(self.cross_entropy())
        # An all_reduce of n bytes sends as many bytes as a reduce_scatter and an all_gather of n bytes. tp=4 runs two
        # all_reduces per block, and one for the layers before and after the blocks.
        for phase in ("forward", "backward"):
            want[phase, "reduce_scatter", "sum", "tp", hidden] = 2 * blocks + 1
            want[phase, "all_gather", None, "tp", hidden] = 2 * blocks + 1
        want["update", "all_reduce", "sum", "tp", SCALAR] = 1
        self.same(sent.traffic(gradients=False), want)
        # Each rank sees only a part of the sequence in norms and in biases after a row-sharded weight. Their gradients
        # have shape [64].
        norms_and_biases = 2 * (2 * blocks + 1) + 2 * blocks
        self.assertEqual(sent.gradients(), [("tp", (64,))] * norms_and_biases)

    def test_both_together(self):
        plan = self.plan("gpt2-tiny", "dp=2,tp=2", 4)
        sent, hidden = Collectives(plan), HIDDEN["gpt2-tiny"] // 2
        self.assertEqual(sent.gradients(), sorted(("dp", shape) for shape in local_shapes(plan)))
        want = Traffic({("forward", "all_reduce", "max", "tp", ROWS // 2): 1, ("forward", "all_reduce", "sum", "tp", ROWS // 2): 2,
                        ("forward", "all_reduce", "sum", "dp", SCALAR): 2, ("update", "all_reduce", "sum", "tp", SCALAR): 1})
        for phase in ("forward", "backward"):
            want[phase, "all_reduce", "sum", "tp", hidden] = 2 * BLOCKS["gpt2-tiny"] + 1
        self.same(sent.traffic(gradients=False), want)


if __name__ == "__main__":
    unittest.main(verbosity=2)
