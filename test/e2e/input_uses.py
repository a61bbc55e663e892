#!/usr/bin/env python3
"""What a model uses its inputs for: unread inputs, labels of token files, and ids to which the model adds a constant."""
import os
import struct
import unittest

import e2e

ROWS, LENGTH, BATCH, SAMPLES = 32, 8, 4, 16

# A table, a head and a loss. Each model defines %rows, the ids of the table, and %classes [count], the labels of
# %scores [count, ROWS].
MODEL = """
module attributes {{{attributes}}} {{
  func.func @forward(%w: tensor<32x16xf32> {{dpc.name = "w", dpc.role = "parameter"}},
                     %h: tensor<32x16xf32> {{dpc.name = "h", dpc.role = "parameter"}}{inputs})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}) {{
{ids}
    %x = dpc.embedding %w, %rows : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>
    %y = dpc.matmul %x, %h tb : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
{labels}
    %losses, %lse = dpc.cross_entropy %scores, %classes ignore_index = -100
        : (tensor<{count}x32xf32>, tensor<{count}xi64>) -> (tensor<{count}xf32>, tensor<{count}xf32>)
    %loss = dpc.reduce sum %losses dims = [0] : tensor<{count}xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }}
}}
"""
IDS = "    %rows = dpc.reshape %ids : tensor<4x8xi64> -> tensor<4x8xi64>"
LABELS = """
    %scores = dpc.reshape %y : tensor<4x8x32xf32> -> tensor<32x32xf32>
    %classes = dpc.reshape %labels : tensor<4x8xi64> -> tensor<32xi64>"""
# As loss(logits[:, :-1], labels[:, 1:]).
SHIFTED = """
    %few = dpc.slice %y offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<4x8x32xf32> -> tensor<4x7x32xf32>
    %next = dpc.slice %labels offsets = [0, 1] strides = [1, 1] : tensor<4x8xi64> -> tensor<4x7xi64>
    %scores = dpc.reshape %few : tensor<4x7x32xf32> -> tensor<28x32xf32>
    %classes = dpc.reshape %next : tensor<4x7xi64> -> tensor<28xi64>"""
# As loss(logits, pad(labels, (0, 1), value=-100)[:, 1:]).
PADDED = """
    %none = dpc.constant dense<-100> : tensor<4x1xi64> -> tensor<4x1xi64>
    %wide = dpc.concat %labels, %none dim = 1 : (tensor<4x8xi64>, tensor<4x1xi64>) -> tensor<4x9xi64>
    %next = dpc.slice %wide offsets = [0, 1] strides = [1, 1] : tensor<4x9xi64> -> tensor<4x8xi64>
    %scores = dpc.reshape %y : tensor<4x8x32xf32> -> tensor<32x32xf32>
    %classes = dpc.reshape %next : tensor<4x8xi64> -> tensor<32xi64>"""
UNREAD = "input 'ids' is not read by the model; was it exported with one tensor for two inputs?"


def shifted_ids(kind, number):
    return f"""
    %k = dpc.constant dense<{number}> : tensor<4x8xi64> -> tensor<4x8xi64>
    %rows = dpc.binary {kind} %ids, %k : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>"""


TYPE = "tensor<4x8xi64>"
# As table[ids]: negative ids count from the end.
WRAPPED = f"""
    %k = dpc.constant dense<{ROWS}> : {TYPE} -> {TYPE}
    %zero = dpc.constant dense<0> : {TYPE} -> {TYPE}
    %more = dpc.binary add %ids, %k : ({TYPE}, {TYPE}) -> {TYPE}
    %below = dpc.compare lt %ids, %zero : ({TYPE}, {TYPE}) -> tensor<4x8xi1>
    %rows = dpc.select %below, %more, %ids : (tensor<4x8xi1>, {TYPE}, {TYPE}) -> {TYPE}"""
CLAMPED = f"""
    %k = dpc.constant dense<{ROWS - 1}> : {TYPE} -> {TYPE}
    %zero = dpc.constant dense<0> : {TYPE} -> {TYPE}
    %low = dpc.binary maximum %ids, %zero : ({TYPE}, {TYPE}) -> {TYPE}
    %rows = dpc.binary minimum %low, %k : ({TYPE}, {TYPE}) -> {TYPE}"""


class InputUses(e2e.ScratchTest):
    def compile(self, inputs=("ids", "labels"), ids=IDS, labels=LABELS, count=32, attributes="", strategy="dp=2", words=(), trains=True):
        """Returns the plan's folder, and sets self.printed."""
        typed = [name.split(":") if ":" in name else (name, "i64") for name in inputs]
        arguments = "".join(f',\n    %{name}: tensor<4x8x{element}> {{dpc.name = "{name}", dpc.role = "input", dpc.batch_dim = 0 : i64}}' for name, element in typed)
        with open(self.path("model.mlir"), "w") as file:
            file.write(MODEL.format(inputs=arguments, ids=ids, labels=labels, count=count, attributes=attributes))
        plan = self.path("plan")
        self.printed = e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:2", f"--strategy={strategy}",
                                 *(["--train=sgd", "--lr=0.1"] if trains else []), "--init=random:1", "-o", plan, *words])
        return plan

    def write_tokens(self, count=SAMPLES * LENGTH + 1):
        tokens = [(7 * i + i * i) % ROWS for i in range(count)]
        with open(self.path("tokens.bin"), "wb") as file:
            file.write(struct.pack(f"<{count}H", *tokens))
        return tokens

    def losses(self, plan, data):
        metrics = self.path("metrics.jsonl")
        self.printed = e2e.must([e2e.tool("dpc-run"), plan, "--data=" + data, "--metrics=" + metrics, "--steps=3"])
        return [line["loss"] for line in e2e.read_metrics(metrics)]

    def write_arrays(self, **arrays):
        """Writes samples of each input, and returns the folder."""
        for name, values in arrays.items():
            e2e.write_npy(self.path(name + ".npy"), "i8", (SAMPLES, LENGTH), values)
        return self.folder

    def refusal(self, plan, data):
        ran = e2e.call([e2e.tool("dpc-run"), plan, "--data=" + data, "--steps=1"])
        self.assertEqual(ran.returncode, 1, ran.stdout)
        return ran.stderr

    def test_an_unread_input_is_named(self):
        merged = IDS.replace("%ids", "%labels")
        plan = self.compile(ids=merged)
        self.assertIn(UNREAD, " ".join(self.printed.split()))
        self.assertIn(UNREAD, e2e.read_report(plan)["remarks"])
        written = e2e.read_plan(plan)
        self.assertEqual([port["use"] for port in written["inputs"]], ["unread", "ids-and-labels"])
        self.assertEqual(written["unread_weights"], [])
        tokens = self.write_tokens()[:-1]
        self.losses(plan, self.write_arrays(ids=tokens, labels=tokens))
        self.assertIn(UNREAD + "\n", self.printed)
        self.assertLess(self.printed.index(UNREAD), self.printed.index("step 1/3"))
        self.assertIn("ids i64[4, 8] (unread), labels i64[4, 8] (ids-and-labels)", self.refusal(plan, self.path("tokens.bin")))
        self.assertNotIn("is not read", e2e.must([e2e.tool("dpc-run"), plan, "--steps=1"]), "no data is given")

    def test_plans_of_every_strategy_have_an_unread_input(self):
        for strategy in ("pp=2", "tp=2", "dp=2,zero=3"):
            with self.subTest(strategy=strategy):
                plan = self.compile(ids=IDS.replace("%ids", "%labels"), strategy=strategy)
                self.assertIn("verified: 2 ranks", self.printed)
                inputs = {port["name"]: port for port in e2e.read_plan(plan)["inputs"]}
                self.assertEqual({name: port["use"] for name, port in inputs.items()}, {"ids": "unread", "labels": "ids-and-labels"})
                # The batch is that of the input that is read, although it is the second one.
                batch = {axis for factor in inputs["labels"]["layout"][0] for axis in factor["axes"]}
                self.assertEqual("dp" in batch, strategy.startswith("dp"), batch)

    def test_read_inputs_are_not_named(self):
        plan = self.compile()
        self.assertNotIn("is not read", self.printed)
        self.assertEqual(e2e.read_plan(plan)["unread_weights"], [])

    def test_labels_of_tokens_are_found_by_their_use(self):
        tokens = self.write_tokens()
        for inputs in (("ids", "labels"), ("labels", "ids")):
            with self.subTest(inputs=inputs):
                plan = self.compile(inputs)
                want = self.losses(plan, self.write_arrays(ids=tokens[:-1], labels=tokens[1:]))
                self.assertEqual(self.losses(plan, self.path("tokens.bin")), want)
                self.assertIn(self.path("tokens.bin") + ": ids = tokens, labels = next tokens\n", self.printed)

    def test_a_loss_that_shifts_its_labels_gets_the_tokens(self):
        tokens = self.write_tokens()
        for labels, count in ((SHIFTED, 28), (PADDED, 32)):
            with self.subTest(count=count):
                plan = self.compile(labels=labels, count=count)
                self.assertEqual([port["use"] for port in e2e.read_plan(plan)["inputs"]], ["ids", "shifted-labels"])
                want = self.losses(plan, self.write_arrays(ids=tokens[:-1], labels=tokens[:-1]))
                self.assertEqual(self.losses(plan, self.path("tokens.bin")), want)
                self.assertIn(": ids = tokens, labels = the same tokens, which the loss shifts\n", self.printed)

    def test_labels_without_a_shift_stay_so_if_scores_are_cut_alike(self):
        """As loss(logits[:, 1:], labels[:, 1:]), which leaves the first position out."""
        plan = self.compile(labels=SHIFTED.replace("[0, 0, 0]", "[0, 1, 0]"), count=28)
        self.assertEqual([port["use"] for port in e2e.read_plan(plan)["inputs"]], ["ids", "labels"])

    def test_two_inputs_with_ids_are_no_tokens_and_labels(self):
        both = """
    %sum = dpc.binary add %ids, %kinds : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
    %zero = dpc.constant dense<0> : tensor<4x8xi64> -> tensor<4x8xi64>
    %rows = dpc.binary minimum %sum, %zero : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>"""
        self.write_tokens()
        plan = self.compile(("ids", "kinds"), ids=both, labels=LABELS.replace("%labels", "%zero"), words=("--verify=off",))
        self.assertIn("ids i64[4, 8] (data), kinds i64[4, 8] (data)", self.refusal(plan, self.path("tokens.bin")))

    def test_ids_that_leave_the_table_after_an_addition_are_refused(self):
        tokens = self.write_tokens()[:-1]
        for kind, number, first, last in (("add", 2, -2, 29), ("sub", 3, 3, 34), ("add", -3, 3, 34)):
            with self.subTest(kind=kind, number=number):
                plan = self.compile(ids=shifted_ids(kind, number))
                for value, fits in ((first, True), (first - 1, False), (last, True), (last + 1, False)):
                    values = [min(max(token, first), last) for token in tokens]
                    values[2 * LENGTH + 5] = value
                    data = self.write_arrays(ids=values, labels=tokens)
                    if fits:
                        self.losses(plan, data)
                    else:
                        self.assertIn(f"sample 2: element 5 of input 'ids' is {value}, expected {first} to {last}\n", self.refusal(plan, data))

    def test_wrapped_ids_are_checked(self):
        tokens = self.write_tokens()[:-1]
        plan = self.compile(ids=WRAPPED)
        self.assertEqual([text for text in e2e.read_report(plan)["remarks"] if "sums the loss" not in text], [])
        want = self.losses(plan, self.write_arrays(ids=tokens, labels=tokens))
        self.assertEqual(self.losses(plan, self.write_arrays(ids=[token - ROWS for token in tokens], labels=tokens)), want)
        for value in (-ROWS - 1, ROWS):
            values = [value, *tokens[1:]]
            self.assertIn(f"sample 0: element 0 of input 'ids' is {value}, expected -32 to 31\n",
                          self.refusal(plan, self.write_arrays(ids=values, labels=tokens)))

    def test_computed_ids_out_of_range_end_the_run(self):
        for strategy in ("dp=2,micro_batch=1", "pp=2,micro_batch=2", "tp=2"):
            with self.subTest(strategy=strategy):
                plan = self.compile(ids=shifted_ids("mul", 2), strategy=strategy)
                good, labels = [i % 16 for i in range(SAMPLES * LENGTH)], [0] * SAMPLES * LENGTH
                self.losses(plan, self.write_arrays(ids=good, labels=labels))
                self.assertEqual([list(line) for line in e2e.read_metrics(self.path("metrics.jsonl"))][0],
                                 ["step", "loss", "grad_norm", "lr", "step_seconds", "tokens_per_second", "samples_per_second"])
                good[9 * LENGTH] = good[9 * LENGTH + 1] = 16  # in the third step
                ran = e2e.call([e2e.tool("dpc-run"), plan, "--data=" + self.write_arrays(ids=good, labels=labels), "--steps=4",
                                "--save-params=" + self.path("w.safetensors")])
                self.assertEqual(ran.returncode, 3, ran.stderr)
                self.assertIn("step 3: 2 of the indices of 'dpc.embedding' (accepted: 0 to 31) are out of range\n", ran.stderr)
                self.assertFalse(os.path.exists(self.path("w.safetensors")))
        e2e.must([e2e.tool("dpc-run"), plan, "--steps=2"])  # random ids mean nothing

    def test_ids_that_cannot_be_out_of_range_are_not_counted(self):
        self.assertEqual(self.faults(self.compile(ids=CLAMPED)), [])
        self.assertEqual(self.faults(self.compile(labels=PADDED)), [])
        self.assertEqual(self.faults(self.compile(ids=WRAPPED)), [])

    def faults(self, plan):
        return [port["faults"] for port in e2e.read_plan(plan)["outputs"] if port["faults"]]

    def test_computed_labels_are_counted(self):
        computed = LABELS.replace("dpc.reshape %labels", "dpc.reshape %twice").replace("\n", f"\n    %twice = dpc.binary add %labels, %labels : ({TYPE}, {TYPE}) -> {TYPE}\n", 1)
        self.assertEqual(self.faults(self.compile(labels=computed)), ["labels of 'dpc.cross_entropy' (accepted: 0 to 31 and -100)"])

    def test_a_constant_index_out_of_range_is_counted(self):
        plan = self.compile(labels=PADDED.replace("dense<-100>", "dense<32>"))
        tokens = self.write_tokens()[:-1]
        ran = e2e.call([e2e.tool("dpc-run"), plan, "--data=" + self.write_arrays(ids=tokens, labels=tokens), "--steps=1"])
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertIn("step 1: 4 of the labels of 'dpc.cross_entropy' (accepted: 0 to 31 and -100) are out of range\n", ran.stderr)

    def test_float_labels_are_checked_as_integers(self):
        cast = LABELS.replace("dpc.reshape %labels", "dpc.reshape %cast").replace("\n", "\n    %cast = dpc.convert %labels : tensor<4x8xf32> -> tensor<4x8xi64>\n", 1)
        plan = self.compile(labels=cast, inputs=("ids", "labels:f32"))
        tokens = self.write_tokens()[:-1]
        e2e.write_npy(self.path("labels.npy"), "f4", (SAMPLES, LENGTH), [31.5] * SAMPLES * LENGTH)
        e2e.write_npy(self.path("ids.npy"), "i8", (SAMPLES, LENGTH), tokens)
        e2e.must([e2e.tool("dpc-run"), plan, "--data=" + self.folder, "--steps=1"])
        e2e.write_npy(self.path("labels.npy"), "f4", (SAMPLES, LENGTH), [32.0] * SAMPLES * LENGTH)
        ran = e2e.call([e2e.tool("dpc-run"), plan, "--data=" + self.folder, "--steps=1"])
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertIn("step 1: 32 of the labels of 'dpc.cross_entropy'", ran.stderr)

    def test_evaluation_refuses_computed_indices(self):
        train = self.compile(ids=shifted_ids("mul", 2))
        os.rename(train, self.path("train"))
        evaluates = self.compile(ids=shifted_ids("mul", 2), words=["--infer"], trains=False)
        labels = [0] * SAMPLES * LENGTH
        bad = [i % 17 for i in range(SAMPLES * LENGTH)]
        self.assertIn("are out of range", e2e.call([e2e.tool("dpc-run"), evaluates, "--data=" + self.write_arrays(ids=bad, labels=labels)]).stderr)
        ran = e2e.call([e2e.tool("dpc-run"), self.path("train"), "--steps=1", "--eval-plan=" + evaluates, "--eval-data=" + self.folder, "--eval-every=1"])
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("of the indices of 'dpc.embedding' (accepted: 0 to 31) are out of range", ran.stderr)
        out = self.path("out")
        e2e.must([e2e.tool("dpc-run"), evaluates, "--data=" + self.write_arrays(ids=[i % 16 for i in range(SAMPLES * LENGTH)], labels=labels), "--outputs=" + out])
        self.assertEqual(os.listdir(out), ["loss.npy"])

    def test_evaluation_mode_is_said_before_training(self):
        mode = "dropout is off (3 ops), batch normalization uses running statistics (1 op)"
        attributes = f'dpc.evaluation_mode = "{mode}"'
        plan = self.compile(attributes=attributes)
        notice = f"the model was exported in evaluation mode: {mode}; to change this, export it after model.train()"
        self.assertEqual(e2e.read_report(plan)["remarks"][0], notice)
        self.assertIn(notice, " ".join(self.printed.split()))
        e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:1", "--infer", "-o", plan])
        self.assertNotIn(notice, e2e.read_report(plan)["remarks"])


if __name__ == "__main__":
    unittest.main()
