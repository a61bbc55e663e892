#!/usr/bin/env python3
"""What dpc-opt and dpc-run say of models that read the tokens which they predict, of masks and of ignored labels."""
import json
import os
import unittest

import e2e
import suspicions

try:
    import numpy
except ImportError:
    e2e.run_in_build_environment("numpy")

POSITIONS, CLASSES = 8, 32
ROWS = "tensor<4x8x16xf32>"

MODEL = """module {{
  func.func @forward(%w: tensor<32x16xf32> {{dpc.name = "w", dpc.role = "parameter"}},
                     %ids: tensor<4x8xi64> {{dpc.name = "ids", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %labels: tensor<4x8xi64> {{dpc.name = "labels", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %mask: tensor<4x8xi64> {{dpc.name = "{mask}", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %added: tensor<4x8xf32> {{dpc.name = "{added}", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %pairs: tensor<4x8x8xf32> {{dpc.name = "pairs", dpc.role = "input", dpc.batch_dim = 0 : i64}})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}) {{
    %e = dpc.embedding %w, %ids : (tensor<32x16xf32>, tensor<4x8xi64>) -> tensor<4x8x16xf32>
    %t0 = dpc.iota dim = 1 : tensor<4x8x16xi64>
    %t1 = dpc.convert %t0 : tensor<4x8x16xi64> -> tensor<4x8x16xf32>
    %t2 = dpc.unary sin %t1 : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
    %x = dpc.binary {places} : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    {body}
    %all = dpc.matmul %z, %w tb : (tensor<4x8x16xf32>, tensor<32x16xf32>) -> tensor<4x8x32xf32>
    {loss}
    return %loss : tensor<f32>
  }}
}}"""

# The loss of labels as they are, and of ids one position later.
OWN = """%scores = dpc.reshape %all : tensor<4x8x32xf32> -> tensor<32x32xf32>
    %classes = dpc.reshape %{target} : tensor<4x8xi64> -> tensor<32xi64>
    %losses, %ls = dpc.cross_entropy %scores, %classes ignore_index = -100 : (tensor<32x32xf32>, tensor<32xi64>) -> (tensor<32xf32>, tensor<32xf32>)
    %total = dpc.reduce sum %losses dims = [0] : tensor<32xf32> -> tensor<f32>
    {mean}"""
NEXT = """%few = dpc.slice %all offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<4x8x32xf32> -> tensor<4x7x32xf32>
    %next = dpc.slice %{target} offsets = [0, 1] strides = [1, 1] : tensor<4x8xi64> -> tensor<4x7xi64>
    %scores = dpc.reshape %few : tensor<4x7x32xf32> -> tensor<28x32xf32>
    %classes = dpc.reshape %next : tensor<4x7xi64> -> tensor<28xi64>
    %losses, %ls = dpc.cross_entropy %scores, %classes ignore_index = -100 : (tensor<28x32xf32>, tensor<28xi64>) -> (tensor<28xf32>, tensor<28xf32>)
    %total = dpc.reduce sum %losses dims = [0] : tensor<28xf32> -> tensor<f32>
    {mean}"""
# The mean over all labels, and over those that count.
OF_ALL = """%share = dpc.constant dense<0.03125> : tensor<f32> -> tensor<f32>
    %loss = dpc.binary mul %total, %share : (tensor<f32>, tensor<f32>) -> tensor<f32>"""
OF_COUNTED = """%ignored = dpc.constant dense<-100> : tensor<{rows}xi64> -> tensor<{rows}xi64>
    %counts = dpc.compare ne %classes, %ignored : (tensor<{rows}xi64>, tensor<{rows}xi64>) -> tensor<{rows}xi1>
    %ones = dpc.convert %counts : tensor<{rows}xi1> -> tensor<{rows}xf32>
    %count = dpc.reduce sum %ones dims = [0] : tensor<{rows}xf32> -> tensor<f32>
    %loss = dpc.binary div %total, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>"""


def attention(kind="causal"):
    """Fused attention of one head."""
    return f"""%q = dpc.reshape %x : {ROWS} -> tensor<4x1x8x16xf32>
    %o, %lse = dpc.attention %q, %q, %q scale = 0.25 {kind} : (tensor<4x1x8x16xf32>, tensor<4x1x8x16xf32>, tensor<4x1x8x16xf32>) -> (tensor<4x1x8x16xf32>, tensor<4x1x8xf32>)
    %z = dpc.reshape %o : tensor<4x1x8x16xf32> -> {ROWS}"""


# A softmax of scores between positions, without a mask.
OPEN = f"""%s = dpc.matmul %x, %x tb : ({ROWS}, {ROWS}) -> tensor<4x8x8xf32>
    %p = dpc.softmax %s : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %z = dpc.matmul %p, %x : (tensor<4x8x8xf32>, {ROWS}) -> {ROWS}"""
# The same, where a mask of 0 and 1 hides the keys at which it is `hidden`.
MASKED = f"""%value = dpc.constant dense<{{hidden}}> : tensor<4x8xi64> -> tensor<4x8xi64>
    %hit = dpc.compare eq %mask, %value : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi1>
    %keys = dpc.broadcast %hit dims = [0, 2] : tensor<4x8xi1> -> tensor<4x8x8xi1>
    %s = dpc.matmul %x, %x tb : ({ROWS}, {ROWS}) -> tensor<4x8x8xf32>
    %low = dpc.constant dense<-1.0e9> : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %few = dpc.select %keys, %low, %s : (tensor<4x8x8xi1>, tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %p = dpc.softmax %few : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %z = dpc.matmul %p, %x : (tensor<4x8x8xf32>, {ROWS}) -> {ROWS}"""
# The same, where a mask of floats is added.
ADDED = f"""%keys = dpc.broadcast %added dims = [0, 2] : tensor<4x8xf32> -> tensor<4x8x8xf32>
    %s = dpc.matmul %x, %x tb : ({ROWS}, {ROWS}) -> tensor<4x8x8xf32>
    %few = dpc.binary add %s, %keys : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %p = dpc.softmax %few : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %z = dpc.matmul %p, %x : (tensor<4x8x8xf32>, {ROWS}) -> {ROWS}"""
# Heads by a reshape: the first has the first half of the positions, and the second the other half.
SPLIT = f"""%q = dpc.reshape %x : {ROWS} -> tensor<4x2x8x8xf32>
    %o, %lse = dpc.attention %q, %q, %q scale = 0.25 causal : (tensor<4x2x8x8xf32>, tensor<4x2x8x8xf32>, tensor<4x2x8x8xf32>) -> (tensor<4x2x8x8xf32>, tensor<4x2x8xf32>)
    %z = dpc.reshape %o : tensor<4x2x8x8xf32> -> {ROWS}"""
# Heads by a reshape and a transpose, and the same without the transpose back.
MERGED = SPLIT.replace(f"%q = dpc.reshape %x : {ROWS} -> tensor<4x2x8x8xf32>", f"""%r = dpc.reshape %x : {ROWS} -> tensor<4x8x2x8xf32>
    %q = dpc.transpose %r perm = [0, 2, 1, 3] : tensor<4x8x2x8xf32> -> tensor<4x2x8x8xf32>""").replace("scale = 0.25", "scale = 0.354")
HEADS = MERGED.replace("%z = dpc.reshape %o : tensor<4x2x8x8xf32>", """%b = dpc.transpose %o perm = [0, 2, 1, 3] : tensor<4x2x8x8xf32> -> tensor<4x8x2x8xf32>
    %z = dpc.reshape %b : tensor<4x8x2x8xf32>""")
OVER_POSITIONS = f"""%flat = dpc.reshape %x : {ROWS} -> tensor<4x128xf32>
    %n, %mean, %rstd = dpc.norm layer %flat eps = 1.0e-5 : (tensor<4x128xf32>) -> (tensor<4x128xf32>, tensor<4xf32>, tensor<4xf32>)
    %z = dpc.reshape %n : tensor<4x128xf32> -> {ROWS}"""
MEAN = f"""%sum = dpc.reduce sum %x dims = [1] : {ROWS} -> tensor<4x16xf32>
    %wide = dpc.broadcast %sum dims = [0, 2] : tensor<4x16xf32> -> {ROWS}
    %z = dpc.binary add %x, %wide : ({ROWS}, {ROWS}) -> {ROWS}"""
# Position t reads t + 1, as the middle of a convolution does.
LATER = f"""%pad = dpc.constant dense<0.0> : tensor<4x1x16xf32> -> tensor<4x1x16xf32>
    %after = dpc.slice %x offsets = [0, 1, 0] strides = [1, 1, 1] : {ROWS} -> tensor<4x7x16xf32>
    %moved = dpc.concat %after, %pad dim = 1 : (tensor<4x7x16xf32>, tensor<4x1x16xf32>) -> {ROWS}
    %z = dpc.binary add %x, %moved : ({ROWS}, {ROWS}) -> {ROWS}"""
ALONE = f"%z = dpc.reshape %x : {ROWS} -> {ROWS}"
OVER_SAMPLES = f"""%sum = dpc.reduce sum %x dims = [0] : {ROWS} -> tensor<8x16xf32>
    %wide = dpc.broadcast %sum dims = [1, 2] : tensor<8x16xf32> -> {ROWS}
    %z = dpc.binary add %x, %wide : ({ROWS}, {ROWS}) -> {ROWS}"""

# A mask over pairs of positions, which is added, and a number for each token.
GIVEN = f"""%s = dpc.matmul %x, %x tb : ({ROWS}, {ROWS}) -> tensor<4x8x8xf32>
    %biased = dpc.binary add %s, %pairs : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %p = dpc.softmax %biased : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %z = dpc.matmul %p, %x : (tensor<4x8x8xf32>, {ROWS}) -> {ROWS}"""
FEATURE = f"""%wide = dpc.broadcast %added dims = [0, 1] : tensor<4x8xf32> -> {ROWS}
    %sum = dpc.binary add %x, %wide : ({ROWS}, {ROWS}) -> {ROWS}
    %z, %mean, %rstd = dpc.norm layer %sum eps = 1.0e-5 : ({ROWS}) -> ({ROWS}, tensor<4x8xf32>, tensor<4x8xf32>)"""
# A table of positions along the batch, and only the first position for all.
ALONG_BATCH = f"""%one = dpc.iota dim = 0 : tensor<4x8x16xi64>
    %place = dpc.convert %one : tensor<4x8x16xi64> -> {ROWS}
    %z = dpc.binary add %x, %place : ({ROWS}, {ROWS}) -> {ROWS}"""
FIRST = f"""%start = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] : {ROWS} -> tensor<4x1x16xf32>
    %flat = dpc.reshape %start : tensor<4x1x16xf32> -> tensor<4x16xf32>
    %z = dpc.broadcast %flat dims = [0, 2] : tensor<4x16xf32> -> {ROWS}"""
# Attention in which the first 3 positions read each other, and the others are causal.
PREFIX = f"""%t = dpc.iota dim = 1 : tensor<4x8x8xi64>
    %c = dpc.iota dim = 2 : tensor<4x8x8xi64>
    %two = dpc.constant dense<2> : tensor<4x8x8xi64> -> tensor<4x8x8xi64>
    %last = dpc.binary maximum %t, %two : (tensor<4x8x8xi64>, tensor<4x8x8xi64>) -> tensor<4x8x8xi64>
    %hit = dpc.compare gt %c, %last : (tensor<4x8x8xi64>, tensor<4x8x8xi64>) -> tensor<4x8x8xi1>
    %s = dpc.matmul %x, %x tb : ({ROWS}, {ROWS}) -> tensor<4x8x8xf32>
    %low = dpc.constant dense<-1.0e9> : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %kept = dpc.select %hit, %low, %s : (tensor<4x8x8xi1>, tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %p = dpc.softmax %kept : tensor<4x8x8xf32> -> tensor<4x8x8xf32>
    %z = dpc.matmul %p, %x : (tensor<4x8x8xf32>, {ROWS}) -> {ROWS}"""

# A loss of numbers: the squared error of each, as it is or where `%added` is 1.
FORECAST = """module {{
  func.func @forward(%w: tensor<16x16xf32> {{dpc.name = "w", dpc.role = "parameter"}},
                     %x: tensor<4x8x16xf32> {{dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %mask: tensor<4x8xi64> {{dpc.name = "mask", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %added: tensor<4x8xf32> {{dpc.name = "weights", dpc.role = "input", dpc.batch_dim = 0 : i64}},
                     %y: tensor<4x8x16xf32> {{dpc.name = "y", dpc.role = "input", dpc.batch_dim = 0 : i64}})
      -> (tensor<f32> {{dpc.loss, dpc.name = "loss"}}) {{
    {body}
    %all = dpc.matmul %z, %w : (tensor<4x8x16xf32>, tensor<16x16xf32>) -> tensor<4x8x16xf32>
    %error = dpc.binary sub %all, {target} : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %square = dpc.binary mul %error, %error : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %each = dpc.broadcast %added dims = [0, 1] : tensor<4x8xf32> -> tensor<4x8x16xf32>
    %counted = dpc.binary mul %square, %each : (tensor<4x8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
    %total = dpc.reduce sum %counted dims = [0, 1, 2] : tensor<4x8x16xf32> -> tensor<f32>
    %share = dpc.constant dense<0.001953125> : tensor<f32> -> tensor<f32>
    %loss = dpc.binary mul %total, %share : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
  }}
}}"""

LEAK = ", but the loss compares the scores of position t with token t + 1 of 'ids': each position reads the token that it predicts"
SAMPLES = "the scores of a sample depend on the other samples of its batch: does a reshape or a dimension mix them?"
SEEN = ("input 'labels' holds the ids of the next position, which the scores of each position depend on: the model reads what it predicts; is a causal mask "
        "missing, or does an op mix positions?")

# The body, and which op mixes positions.
LEAKS = {
    "no mask": (attention(""), "'dpc.attention' has no causal mask"),
    "softmax": (OPEN, "'dpc.softmax' reads later positions: is a causal mask missing, or is it over another dimension than the keys?"),
    "norm": (OVER_POSITIONS, "'dpc.norm' normalizes over positions"),
    "mean": (MEAN, "'dpc.reduce' mixes positions"),
    "later": (LATER, "'dpc.slice' mixes positions"),
}
TIGHT = {"causal": attention(), "alone": ALONE, "prefix": PREFIX}


class Dependences(e2e.ScratchTest):
    def compiled(self, body, target="labels", loss=OWN, mean=OF_COUNTED, mask="mask", added="added_mask", places="add %e, %t2"):
        """The remarks on a model; `places` adds a table of positions to the embeddings."""
        return self.remarks(self.model(body, target, loss, mean, mask, added, places))

    def model(self, body, target="labels", loss=OWN, mean=OF_COUNTED, mask="mask", added="added_mask", places="add %e, %t2"):
        rows = 28 if loss is NEXT else 32
        return MODEL.format(places=places, body=body, mask=mask, added=added, loss=loss.format(target=target, mean=mean.format(rows=rows)))

    def remarks(self, model, *words):
        with open(self.path("model.mlir"), "w") as file:
            file.write(model)
        e2e.must([e2e.tool("dpc-opt"), self.path("model.mlir"), "--cluster=local:1", "--strategy=dp=1", *(words or ["--train=sgd", "--lr=0.1"]),
                  "--init=random:1", "-o", self.path("plan")])
        return [text for text in e2e.read_report(self.path("plan"))["remarks"] if "is not read" not in text]

    def said(self, ids, labels, mask=None, added=None):
        os.makedirs(self.path("data"), exist_ok=True)
        mask = numpy.ones_like(ids) if mask is None else mask
        added = numpy.zeros(ids.shape, "f4") if added is None else added
        for name, values in (("ids", ids), ("labels", labels), ("mask", mask), ("added_mask", added), ("feature", added),
                             ("pairs", numpy.zeros((len(ids), POSITIONS, POSITIONS), "f4"))):
            numpy.save(self.path(f"data/{name}.npy"), values)
        return e2e.must([e2e.tool("dpc-run"), self.path("plan"), f"--data={self.path('data')}", "--steps=1"]).splitlines()

    def tokens(self):
        stream = numpy.random.default_rng(1).integers(0, CLASSES, (16, POSITIONS + 1))
        return stream[:, :-1].copy(), stream[:, 1:].copy()

    def test_a_loss_of_later_tokens(self):
        for target in ("ids", "labels"):
            for name, (body, mixes) in LEAKS.items():
                with self.subTest(name, target=target):
                    self.assertEqual(self.compiled(body, target, NEXT), [mixes + LEAK])
            for name, body in TIGHT.items():
                with self.subTest(name, target=target):
                    self.assertEqual(self.compiled(body, target, NEXT), [])

    def test_an_encoder_before_causal_attention(self):
        body = attention("").replace("%z = ", "%encoded = ").replace("%q", "%eq").replace("%o", "%eo").replace("%lse", "%els")
        remarks = self.compiled(body + "\n" + attention().replace("%x", "%encoded"), "ids", NEXT)
        self.assertEqual(remarks, ["'dpc.attention' has no causal mask" + LEAK + "; an autoencoder of text does so on purpose"])

    def test_labels_that_the_data_shifts(self):
        ids, labels = self.tokens()
        for name, (body, _) in LEAKS.items():
            with self.subTest(name):
                self.assertEqual(self.compiled(body), [])
                self.assertIn(SEEN, self.said(ids, labels))
                self.assertNotIn(SEEN, self.said(ids, ids))
        for name, body in TIGHT.items():
            with self.subTest(name):
                self.assertEqual(self.compiled(body), [])
                self.assertNotIn(SEEN, self.said(ids, labels))

    def test_labels_that_are_not_all_among_the_ids(self):
        """Sequences of 6 or 7 ids with a mark of the end that only the labels have."""
        ids, labels = self.tokens()
        for row, (own, next_ones) in enumerate(zip(ids, labels)):
            end = 6 + row % 2
            own[end:], next_ones[end - 1], next_ones[end:] = 0, CLASSES - 1, -100
        self.compiled(attention(""))
        self.assertIn(SEEN, self.said(ids, labels))
        self.compiled(attention())
        self.assertNotIn("holds the ids", "\n".join(self.said(ids, labels)))
        self.compiled(attention(), "labels", NEXT)
        self.assertIn("input 'labels' holds the ids of the next position, and the loss shifts its labels itself: it predicts 2 positions ahead",
                      self.said(ids, labels))

    def test_how_far_positions_read(self):
        for body, ahead in ((LATER, 1), (OPEN, POSITIONS - 1), (ALONE, 0)):
            self.compiled(body)
            inputs = e2e.read_json(self.path("plan/plan.json"))["inputs"]
            self.assertEqual([port["dependence"]["lookahead"] for port in inputs if port["name"] == "labels"], [{"ids": ahead}])

    def test_masks(self):
        ids, labels = self.tokens()
        mask = numpy.ones_like(ids)
        mask[:, -2:] = 0
        for hidden, share in ((0, "25 %"), (1, "75 %")):
            self.assertEqual(self.compiled(MASKED.format(hidden=hidden)), [])
            self.assertIn(f"input 'mask': 0 to 1, mean 0.75, hides {share} of the tokens, those where it is {hidden}", self.said(ids, labels, mask))
        self.compiled(ALONE)
        self.assertNotIn("hides", "\n".join(self.said(ids, labels, mask)))

    def test_masks_that_are_added(self):
        ids, labels = self.tokens()
        mask = numpy.ones(ids.shape, "f4")
        mask[:, -2:] = 0
        self.assertEqual(self.compiled(ADDED), [])
        text = "it is added to the scores of attention, and hides no token: -inf or a large negative number hides one"
        self.assertIn(f"input 'added_mask': 0 to 1, mean 0.75; {text}", self.said(ids, labels, added=mask))
        self.assertNotIn(text, "\n".join(self.said(ids, labels, added=(mask - 1) * 1e9)))
        self.assertNotIn(text, "\n".join(self.said(ids, labels)))

    def test_inputs_that_are_no_masks_of_tokens(self):
        """A mask over pairs may be causal in the data; a feature hides nothing, although large numbers drown what is added to them."""
        ids, labels = self.tokens()
        self.assertEqual(self.compiled(GIVEN, "ids", NEXT), [])
        self.compiled(GIVEN)
        self.assertNotIn(SEEN, self.said(ids, labels))
        self.assertEqual(self.compiled(FEATURE, added="feature"), [])
        feature = numpy.random.default_rng(2).random(ids.shape, "f4")
        self.assertNotIn("hides", "\n".join(self.said(ids, labels, added=feature)))

    def test_heads_that_have_parts_of_the_positions(self):
        cut = "'dpc.attention' has heads of positions instead of features: the reshape of {} it lacks a transpose"
        self.assertEqual(self.compiled(SPLIT), [cut.format("[4, 8, 16] to [4, 2, 8, 8] before")])
        self.assertEqual(self.compiled(MERGED), [cut.format("[4, 2, 8, 8] to [4, 8, 16] after")])
        self.assertEqual(self.compiled(HEADS), [])

    def test_attention_without_positions(self):
        said = "the scores do not depend on the order of 'ids': attention does not know the positions of what it reads; is a table of positions missing?"
        for body, remarks in ((attention(""), [said]), (OPEN, [said]), (attention(), []), (ALONE, []), (MEAN, [])):
            self.assertEqual(self.compiled(body, places="maximum %e, %e"), remarks)
        self.assertEqual(self.compiled(attention("")), [])

    def test_names_of_masks(self):
        self.assertEqual(self.compiled(MASKED.format(hidden=0), mask="attention_mask"), [])
        self.assertEqual(self.compiled(MASKED.format(hidden=1), mask="attention_mask"),
                         ["input 'attention_mask' hides tokens where it is 1; a mask of this name usually hides those where it is 0"])
        self.assertEqual(self.compiled(MASKED.format(hidden=0), mask="token_type_ids"),
                         ["input 'token_type_ids' hides tokens where it is 0: is it swapped with the attention mask?"])

    def test_masks_that_hide_nothing(self):
        text = ("the scores depend on tokens where '{}' is 0 and on those where it is 1; a mask should hide one of the two: does a mean over positions include padding?")
        # What the mask hides from the attention comes back with the mean.
        body = MASKED.format(hidden=0).replace("%z =", "%y =") + MEAN.replace("%z = dpc.binary add %x", "%z = dpc.binary add %y")
        adds = body.replace("dense<-1.0e9>", "dense<-1.0e-9>")
        self.assertEqual(self.compiled(adds, mask="key_mask"), [text.format("key_mask")])
        self.assertEqual(self.compiled(adds, mask="flags"), [])
        self.assertEqual(self.compiled(ALONE, mask="key_mask"), [])

    def test_ignored_labels(self):
        ids, labels = self.tokens()
        labels[:, :2] = -100
        text = "25 % ignored (-100), but the loss divides by the number of all labels"
        self.compiled(attention(), mean=OF_ALL)
        self.assertIn(text, "\n".join(self.said(ids, labels)))
        self.compiled(attention())
        self.assertNotIn(text, "\n".join(self.said(ids, labels)))

    def is_mean(self, **words):
        self.compiled(attention(), **words)
        return [port["dependence"]["is_mean"] for port in e2e.read_json(self.path("plan/plan.json"))["inputs"] if port["name"] == "labels"]

    def test_means_of_labels(self):
        self.assertEqual(self.is_mean(), [True])
        self.assertEqual(self.is_mean(loss=NEXT), [True])
        self.assertEqual(self.is_mean(mean=OF_ALL), [False])
        self.assertEqual(self.is_mean(mean=OF_COUNTED.replace("dpc.binary div %total, %count", "dpc.binary mul %total, %count")), [False])

    def test_weights_of_other_data(self):
        """The weights make each label improbable."""
        ids, labels = self.tokens()
        self.assertEqual(self.is_mean(), [True])
        far = "above that of equal probabilities for all 32 classes, 3.466: are the weights trained, and for such data?"
        for scale, isSaid in ((0.01, False), (10, True)):
            weights = numpy.random.default_rng(4).standard_normal((CLASSES, 16)).astype("f4") * scale
            head = json.dumps({"w": {"dtype": "F32", "shape": weights.shape, "data_offsets": [0, weights.nbytes]}}).encode()
            with open(self.path("w.safetensors"), "wb") as file:
                file.write(len(head).to_bytes(8, "little") + head + weights.tobytes())
            self.said(ids, labels)
            done = e2e.call([e2e.tool("dpc-run"), self.path("plan"), f"--data={self.path('data')}", "--steps=1", f"--init={self.path('w.safetensors')}"])
            self.assertEqual(far in done.stderr, isSaid, done.stderr)
        self.remarks(self.model(attention()), "--infer")
        done = e2e.call([e2e.tool("dpc-run"), self.path("plan"), f"--data={self.path('data')}", f"--init={self.path('w.safetensors')}"])
        self.assertIn(far, done.stderr)

    def test_samples_that_mix(self):
        self.assertEqual(self.compiled(OVER_SAMPLES), [SAMPLES])
        self.assertEqual(self.compiled(ALONG_BATCH),
                         ["the scores of a sample depend on its place in the batch: is a table of positions added along the batch?"])

    def forecast(self, body, target="%y"):
        """The remarks on a loss of numbers, and what its plan knows of each input."""
        remarks = self.remarks(FORECAST.format(body=body, target=target))
        return remarks, {port["name"]: port["dependence"] for port in e2e.read_json(self.path("plan/plan.json"))["inputs"]}

    def test_losses_of_numbers(self):
        self.assertEqual(self.forecast(OVER_SAMPLES)[0], [SAMPLES])
        self.assertEqual(self.forecast(FIRST)[0], ["the scores depend on the first position of 'x', but not on those in the middle or at the end"])
        for body, ahead in ((attention(), 0), (attention(""), POSITIONS - 1), (LATER, 1)):
            remarks, inputs = self.forecast(body)
            self.assertEqual(remarks, [])
            self.assertEqual(inputs["y"]["lookahead"], {"x": ahead})
        remarks, inputs = self.forecast(MASKED.format(hidden=0))
        self.assertEqual(remarks, [])
        self.assertEqual([inputs[name]["hidden"] for name in ("mask", "weights")], [0, None])
        for key, want in (("scales_loss", "weights"), ("weighs_loss", "weights"), ("is_target", "y")):
            self.assertEqual([name for name in ("mask", "weights", "x", "y") if inputs[name][key]], [want], key)

    def test_inference_with_a_loss(self):
        """Its plan knows as much of the inputs as that of a training, and says nothing of the model."""
        for model in (FORECAST.format(body=MASKED.format(hidden=0), target="%y"), self.model(attention(""))):
            known = []
            for words in ((), ("--infer",)):
                remarks = self.remarks(model, *words)
                known.append({port["name"]: port["dependence"] for port in e2e.read_json(self.path("plan/plan.json"))["inputs"]})
                self.assertEqual(remarks, [])
            self.assertEqual(*known)
            self.assertTrue(any(port[key] for port in known[1].values() for key in ("weighs_loss", "is_mean")))

    def scales(self, model):
        self.remarks(model)
        return {port["name"]: port["dependence"]["scales_loss"] for port in e2e.read_json(self.path("plan/plan.json"))["inputs"]}["weights"]

    def test_samples_that_mix_are_found_for_any_number_of_classes(self):
        """Few samples of a small model could be its classes."""
        for count in (2, 3, 5, 7):
            rows = f"tensor<8x{count}xf32>"
            mixed = (f"%sum = dpc.reduce sum %h dims = [0] : {rows} -> tensor<{count}xf32>\n%all = dpc.broadcast %sum dims = [1] : tensor<{count}xf32> -> {rows}\n"
                     f"%s = dpc.binary sub %h, %all : ({rows}, {rows}) -> {rows}\n")
            with self.subTest(count):
                self.assertIn(SAMPLES, self.remarks("module {" + suspicions.classes(mixed, count=count) + "}"))
                self.assertNotIn(SAMPLES, self.remarks("module {" + suspicions.classes(suspicions.keep("s", "h", f"8x{count}xf32"), count=count) + "}"))

    def test_masks_of_a_loss(self):
        """Only a mean over all elements counts those where the mask is 0."""
        model = FORECAST.format(body=attention(), target="%y")
        self.assertTrue(self.scales(model))
        self.assertFalse(self.scales(model.replace("dense<0.001953125>", "dense<1.0>")))
        divided = model.replace('%y: tensor<4x8x16xf32> {dpc.name = "y"', '%n: tensor<f32> {dpc.name = "n", dpc.role = "input"}, %y: tensor<4x8x16xf32> {dpc.name = "y"')
        self.assertFalse(self.scales(divided.replace("dpc.binary mul %total, %share", "dpc.binary div %total, %n")))
        flags = model.replace('%added: tensor<4x8xf32>', '%flags: tensor<4x8xi1>')
        self.assertTrue(self.scales(flags.replace("%all = ", "%added = dpc.convert %flags : tensor<4x8xi1> -> tensor<4x8xf32>\n    %all = ", 1)))

    def test_a_negative_loss_is_said(self):
        said = self.remarks(FORECAST.format(body=attention(), target="%y").replace("dense<0.001953125>", "dense<-0.001953125>"))
        self.assertEqual(said, ["the loss is negative for random inputs: has it the wrong sign, or does a likelihood lack its logarithm?"])

    def test_an_autoencoder_has_no_targets(self):
        remarks, inputs = self.forecast(attention(""), "%x")
        self.assertEqual(remarks, [])
        self.assertEqual(inputs["x"]["lookahead"], {})

    def test_a_forecast_that_reads_what_it_predicts(self):
        series = numpy.random.default_rng(3).random((16, POSITIONS + 1, 16), "f4")
        os.makedirs(self.path("data"), exist_ok=True)
        for name, values in (("x", series[:, :-1]), ("y", series[:, 1:]), ("mask", numpy.ones((16, POSITIONS), "i8")),
                             ("weights", numpy.ones((16, POSITIONS), "f4"))):
            numpy.save(self.path(f"data/{name}.npy"), values)
        weights = numpy.ones((16, POSITIONS), "f4")
        for body, isSaid in ((attention(), False), (attention(""), True)):
            weights[:, -2:] = isSaid
            numpy.save(self.path("data/weights.npy"), weights)
            self.forecast(body)
            said = e2e.must([e2e.tool("dpc-run"), self.path("plan"), f"--data={self.path('data')}", "--steps=1"])
            self.assertEqual("input 'y' holds the values of the next position of input 'x', which the scores of each position depend on" in said, isSaid)
            self.assertEqual("input 'weights': 0 to 1, mean 0.75; the loss multiplies by it, but divides by the number of all elements, also of the 25 % "
                             "that are 0: should it divide by their sum?" in said, not isSaid)

    def test_one_sample(self):
        one = MODEL.format(places="add %e, %t2", body=attention(""), mask="mask", added="added", loss=NEXT.format(target="ids", mean=OF_COUNTED.format(rows=7)))
        for many, few in (("<4x", "<1x"), ("<28x", "<7x"), ("<28x", "<7x")):
            one = one.replace(many, few)
        self.assertEqual(self.remarks(one), ["'dpc.attention' has no causal mask" + LEAK])

    def test_what_is_not_measured_is_said(self):
        buffer = '%t: tensor<8x8xi64> {{dpc.name = "t", dpc.role = "buffer"}},\n%ids:'
        kept = """%keep = dpc.broadcast %t dims = [1, 2] : tensor<8x8xi64> -> tensor<4x8x8xi64>
    %more = dpc.convert %keep : tensor<4x8x8xi64> -> tensor<4x8x8xf32>
    """ + OPEN.replace("dpc.softmax %s", "dpc.softmax %sum").replace("%p =", "%sum = dpc.binary add %s, %more : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> "
                                                                     "tensor<4x8x8xf32>\n%p =")
        model = MODEL.replace("%ids:", buffer, 1).format(places="add %e, %t2", body=kept, mask="mask", added="added", loss=OWN.format(target="labels",
                                                                                                                mean=OF_COUNTED.format(rows=32)))
        self.assertEqual(self.remarks(model), ["what the scores depend on was not measured: the values of buffer 't' are not known"])

    def test_scores_of_one_token(self):
        self.assertEqual(self.compiled(FIRST), ["the scores depend on the first position of 'ids', but not on those in the middle or at the end"])


if __name__ == "__main__":
    unittest.main()
