//===- PipelineTest.cpp - Executes plans of several stages ----------------===//
//
// The program is a chain of layers h' = tanh(h w), one for each virtual stage,
// with the loss sum(h^2). It has one function per pipeline stage. The runtime
// executes the plan with one thread per rank, and plain loops compute the
// expected values.
//
//===----------------------------------------------------------------------===//
#include "codegen/Codegen.h"
#include "cost-model/strategy/Schedule.h"
#include "ir/Dialect.h"
#include "runtime/exec/RunPlan.h"
#include "test/unit/codegen/StepHarness.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace dpc::test {
namespace {

constexpr int64_t kWidth = 4, kRows = 2; // per micro-batch
const std::string kValue = "tensor<2x4xf32>", kWeight = "tensor<4x4xf32>";

struct Chain {
  cost::ScheduleKind kind = cost::ScheduleKind::OneFOneB;
  int64_t pp = 2, vpp = 1, microBatches = 4;
  /// The output of the first layer is added to the output of layer `skipTo`,
  /// unless `skipTo` is 0.
  int64_t skipTo = 0;

  int64_t layers() const { return pp * vpp; }
  bool splitsBackward() const { return kind == cost::ScheduleKind::ZbH1; }
};

/// Writes @step.0, @step.1, ...
class ChainWriter {
public:
  explicit ChainWriter(const Chain &chain)
      : chain(chain),
        tables(*cost::makeSchedule(chain.kind, chain.pp, chain.vpp,
                                   chain.microBatches)) {}

  std::string module() {
    std::string text;
    for (stage = 0; stage < chain.pp; ++stage) {
      bodies.clear();
      arguments = argument("lr", "f32", "scalar") + ", " +
                  argument("step", "f32", "scalar");
      results = types = values = "";
      for (int64_t layer = stage; layer < chain.layers(); layer += chain.pp)
        forward(layer);
      for (int64_t layer = stage + (chain.vpp - 1) * chain.pp; layer >= 0;
           layer -= chain.pp)
        backward(layer);
      text += function();
    }
    return text;
  }

private:
  std::string number(int64_t value) { return std::to_string(value); }

  /// Appends an op of a layer to a phase. In `text`, ${n} is the layer, V and W
  /// are the types of activations and weights, and ${at} are the op's
  /// attributes.
  void emit(const std::string &phase, int64_t layer, const std::string &text,
            const std::map<std::string, std::string> &words = {}) {
    int64_t chunk = layer / chain.pp;
    std::string at =
        "{dpc.phase = \"" + phase + "\"" +
        (chunk > 0 ? ", dpc.chunk = " + number(chunk) + " : i64}" : "}");
    bodies[phase] +=
        "  " +
        substituteTypes(substitute(text, {{"n", number(layer)}, {"at", at}}),
                        words) +
        "\n";
  }
  std::string substituteTypes(const std::string &text,
                              const std::map<std::string, std::string> &words) {
    return substitute(substitute(text, words), {{"V", kValue}, {"W", kWeight}});
  }

  /// Emits send and recv for value `name`, from layer `from` to layer `to`,
  /// unless both layers are on one rank.
  void sendTo(int64_t to, const std::string &name, int64_t from, int64_t tag,
              const std::string &phase) {
    int64_t sender = from % chain.pp, receiver = to % chain.pp;
    std::map<std::string, std::string> words = {{"name", name},
                                                {"tag", number(tag)},
                                                {"to", number(receiver)},
                                                {"from", number(sender)}};
    if (sender != receiver && stage == sender)
      emit(phase, from,
           "dpc.send %${name} to = ${to} tag = ${tag} ${at} : ${V}", words);
    if (sender != receiver && stage == receiver)
      emit(phase, to,
           "%${name} = dpc.recv from = ${from} tag = ${tag} ${at} : ${V}",
           words);
  }

  void binary(const std::string &phase, int64_t layer, const std::string &out,
              const std::string &kind, const std::string &a,
              const std::string &b) {
    emit(phase, layer,
         "%${out} = dpc.binary ${kind} %${a}, %${b} ${at} : (${V}, ${V}) -> "
         "${V}",
         {{"out", out}, {"kind", kind}, {"a", a}, {"b", b}});
  }

  std::string hidden(int64_t layer) { return "h" + number(layer); }

  void forward(int64_t layer) {
    std::string n = number(layer), out = hidden(layer + 1);
    arguments += ", " + argument("w" + n, "4x4xf32", "parameter") + ", " +
                 argument("b" + n, "4x4xf32", "state",
                          ", dpc.of = \"w" + n + "\", dpc.slot = \"momentum\"");
    if (layer == 0)
      arguments += substituteTypes(
          ", %h0: ${V} {dpc.role = \"input\", dpc.name = \"x\", dpc.global = "
          "tensor<${rows}x4xf32, #dpc.sharding<${mesh}, [{mb}, {} ]>>}",
          {{"rows", number(kRows * chain.microBatches)}, {"mesh", mesh()}});
    else
      sendTo(layer, hidden(layer), layer - 1, layer, "forward");
    emit("forward", layer,
         "%a${n} = dpc.matmul %h${n}, %w${n} ${at} : (${V}, ${W}) -> ${V}");
    std::string made = layer == chain.skipTo && layer > 0 ? "t" + n : out;
    emit("forward", layer,
         "%${made} = dpc.unary tanh %a${n} ${at} : ${V} -> ${V}",
         {{"made", made}});
    if (made != out) {
      sendTo(layer, "h1", 0, 100, "forward");
      binary("forward", layer, out, "add", made, "h1");
    }
    if (layer + 1 == chain.layers())
      return loss(layer, out);
    sendTo(layer + 1, out, layer, layer + 1, "forward");
    if (layer == 0 && chain.skipTo > 0)
      sendTo(chain.skipTo, "h1", 0, 100, "forward");
  }

  void loss(int64_t layer, const std::string &out) {
    binary("forward", layer, "sq", "mul", out, out);
    emit("forward", layer,
         "%sum = dpc.reduce sum %sq dims = [0, 1] ${at} : ${V} -> tensor<f32>");
    emit("forward", layer,
         "%loss = dpc.accumulate sum %sum ${at} : tensor<f32> -> tensor<f32>");
    results += ", tensor<f32> {dpc.name = \"loss\"}";
    values += ", %loss";
    types += ", tensor<f32>";
  }

  std::string mesh() {
    return "#dpc.mesh<pp=" + number(chain.pp) +
           ", mb=" + number(chain.microBatches) + ">";
  }

  void backward(int64_t layer) {
    std::string n = number(layer), g = "g" + number(layer + 1);
    std::string weights = chain.splitsBackward() ? "weight" : "backward";
    if (layer + 1 == chain.layers())
      binary("backward", layer, g, "add", hidden(layer + 1), hidden(layer + 1));
    else
      sendTo(layer, g, layer + 1, 200 + layer, "backward");
    std::string made = hidden(layer + 1);
    if (layer == chain.skipTo && layer > 0) {
      made = "t" + n;
      sendTo(0, g, layer, 300, "backward");
    }
    std::string whole = g;
    if (layer == 0 && chain.skipTo > 0) {
      std::string skipped = "g" + number(chain.skipTo + 1);
      sendTo(0, skipped, chain.skipTo, 300, "backward");
      whole = "gg";
      binary("backward", layer, whole, "add", g, skipped);
    }
    // g (1 - h'^2) = g - g h' h'
    binary("backward", layer, "u" + n, "mul", whole, made);
    binary("backward", layer, "v" + n, "mul", "u" + n, made);
    binary("backward", layer, "d" + n, "sub", whole, "v" + n);
    if (layer > 0) {
      emit("backward", layer,
           "%g${n} = dpc.matmul %d${n}, %w${n} tb ${at} : (${V}, ${W}) -> "
           "${V}");
      sendTo(layer - 1, "g" + n, layer, 200 + layer - 1, "backward");
    }
    emit(weights, layer,
         "%p${n} = dpc.matmul %h${n}, %d${n} ta ${at} : (${V}, ${V}) -> ${W}");
    emit(weights, layer,
         "%s${n} = dpc.accumulate sum %p${n} ${at} : ${W} -> ${W}");
    update(n);
  }

  void update(const std::string &n) {
    bodies["update"] += substituteTypes(
        "  %w${n}n, %b${n}n = dpc.sgd %w${n}, %b${n}, %s${n}, %one, %lr, %step "
        "momentum = 0.0 weight_decay = 0.0 {dpc.phase = \"update\"} : (${W}, "
        "${W}, ${W}, tensor<f32>, tensor<f32>, tensor<f32>) -> (${W}, ${W})\n",
        {{"n", n}});
    for (const char *kind : {"w", "b"}) {
      results += ", " + kWeight + " {dpc.name = \"" + kind + n +
                 "\", dpc.ties = " + number(argumentOf("%" + (kind + n))) +
                 " : i64}";
      values += ", %" + (kind + n) + "n";
      types += ", " + kWeight;
    }
  }

  int64_t argumentOf(const std::string &name) {
    std::string before = arguments.substr(0, arguments.find(name + ":"));
    return std::count(before.begin(), before.end(), '%');
  }

  std::string function() {
    std::string triples;
    for (const cost::ScheduleStep &entry : tables[stage])
      triples += (triples.empty() ? ": " : ", ") +
                 number(static_cast<int64_t>(entry.phase)) + ", " +
                 number(entry.chunk) + ", " + number(entry.microBatch);
    std::string name = chain.pp > 1 ? "step." + number(stage) : "step";
    return "func.func @" + name + "(" + arguments + ") -> (" +
           results.substr(2) + ") attributes {dpc.mesh = " + mesh() +
           ", dpc.schedule = array<i64" + triples +
           ">} {\n  %one = dpc.constant dense<1.0> : tensor<f32> {dpc.phase = "
           "\"setup\"} -> tensor<f32>\n" +
           bodies["forward"] + bodies["backward"] + bodies["weight"] +
           bodies["update"] + "  return " + values.substr(2) + " : " +
           types.substr(2) + "\n}\n";
  }

  Chain chain;
  std::vector<std::vector<cost::ScheduleStep>> tables;
  int64_t stage = 0;
  std::map<std::string, std::string> bodies; ///< by phase
  std::string arguments, results, types, values;
};

class ChainReference {
public:
  ChainReference(const Chain &chain, std::vector<Array> weights)
      : weights(std::move(weights)), chain(chain) {}

  double step(const Array &x, double lr) {
    int64_t layers = chain.layers(), rows = x.size() / kWidth;
    std::vector<Array> h = {x}, t;
    for (int64_t layer = 0; layer < layers; ++layer) {
      Array out = times(h[layer], weights[layer], rows, false, false);
      for (double &value : out)
        value = std::tanh(value);
      t.push_back(out);
      if (layer > 0 && layer == chain.skipTo)
        for (size_t i = 0; i < out.size(); ++i)
          out[i] += h[1][i];
      h.push_back(out);
    }
    double loss = 0;
    Array g = h.back(), skipped;
    for (double &value : g) {
      loss += value * value;
      value *= 2;
    }
    for (int64_t layer = layers - 1; layer >= 0; --layer) {
      if (layer > 0 && layer == chain.skipTo)
        skipped = g;
      Array d = g;
      for (size_t i = 0; i < d.size(); ++i) {
        if (layer == 0 && !skipped.empty())
          d[i] += skipped[i];
        d[i] *= 1 - t[layer][i] * t[layer][i];
      }
      Array gradient(kWidth * kWidth, 0);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < kWidth; ++i)
          for (int64_t j = 0; j < kWidth; ++j)
            gradient[i * kWidth + j] +=
                h[layer][r * kWidth + i] * d[r * kWidth + j];
      g = times(d, weights[layer], rows, false, true);
      for (size_t i = 0; i < gradient.size(); ++i)
        weights[layer][i] -= lr * gradient[i];
    }
    return loss;
  }

  std::vector<Array> weights;

private:
  static Array times(const Array &a, const Array &b, int64_t rows, bool,
                     bool transposed) {
    Array c(rows * kWidth, 0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < kWidth; ++i)
        for (int64_t j = 0; j < kWidth; ++j)
          c[r * kWidth + i] +=
              a[r * kWidth + j] *
              (transposed ? b[i * kWidth + j] : b[j * kWidth + i]);
    return c;
  }

  Chain chain;
};

BuiltPlan build(const std::string &text) {
  codegen::CodegenOptions options;
  options.model = "chain";
  options.trains = true;
  options.lrSchedule.lr = 0.25;
  return BuiltPlan(text, options);
}
BuiltPlan build(const Chain &chain) {
  return build(ChainWriter(chain).module());
}

rt::HostTensor tensorOf(const Array &values, std::vector<int64_t> shape) {
  rt::HostTensor tensor =
      rt::HostTensor::zeros(rt::DType::F32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set(i, values[i]);
  return tensor;
}

/// Runs three steps and compares losses and weights with ChainReference.
void expectFollows(const Chain &chain) {
  BuiltPlan built = build(chain);
  ASSERT_EQ(built.error, "");
  int64_t rows = kRows * chain.microBatches;
  std::vector<Array> weights;
  rt::RunRequest request;
  request.steps = 3;
  request.poison = true;
  for (int64_t layer = 0; layer < chain.layers(); ++layer) {
    weights.push_back(randomArray(kWidth * kWidth, int(layer), -0.8, 0.8));
    request.tensors["w" + std::to_string(layer)] =
        tensorOf(weights.back(), {kWidth, kWidth});
  }
  ChainReference reference(chain, weights);
  Array x = randomArray(rows * kWidth, 99);
  request.inputs = {{{"x", tensorOf(x, {rows, kWidth})}}};
  auto result = rt::runPlan(built.plan, built.folder, request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (int64_t step = 0; step < 3; ++step) {
    double loss = reference.step(x, 0.25);
    EXPECT_NEAR(result->outputs[step]["loss"].at(0), loss, 2e-5 * loss)
        << "step " << step;
  }
  for (int64_t layer = 0; layer < chain.layers(); ++layer) {
    const rt::HostTensor &got = result->tensors["w" + std::to_string(layer)];
    Array values;
    for (int64_t i = 0; i < got.elements(); ++i)
      values.push_back(got.at(i));
    expectClose(values, reference.weights[layer], 5e-5);
  }
}

TEST(Pipeline, EverySchedule) {
  for (auto kind : {cost::ScheduleKind::GPipe, cost::ScheduleKind::OneFOneB,
                    cost::ScheduleKind::ZbH1})
    for (int64_t pp : {2, 4})
      for (int64_t microBatches : {1, 3, 5, 8}) {
        SCOPED_TRACE(std::string(stringify(kind)) + " pp " +
                     std::to_string(pp) + " mb " +
                     std::to_string(microBatches));
        expectFollows({kind, pp, 1, microBatches});
      }
}

TEST(Pipeline, Chunks) {
  for (int64_t microBatches : {1, 2, 5, 8})
    for (auto [pp, vpp] : {std::pair<int64_t, int64_t>{2, 2}, {2, 3}, {4, 2}}) {
      SCOPED_TRACE("pp " + std::to_string(pp) + " vpp " + std::to_string(vpp) +
                   " mb " + std::to_string(microBatches));
      expectFollows({cost::ScheduleKind::Interleaved, pp, vpp, microBatches});
    }
}

/// Stages 0 and 2 exchange values that do not pass through stage 1.
TEST(Pipeline, SkipsAStage) {
  for (auto kind : {cost::ScheduleKind::GPipe, cost::ScheduleKind::OneFOneB,
                    cost::ScheduleKind::ZbH1})
    expectFollows({kind, 4, 1, 5, /*skipTo=*/2});
}

/// With two ranks and two chunks per rank, layers 0 and 2 are on the same rank.
TEST(Pipeline, ChunksOfARankReadEachOther) {
  for (int64_t microBatches : {1, 3, 4})
    expectFollows(
        {cost::ScheduleKind::Interleaved, 2, 2, microBatches, /*skipTo=*/2});
}

/// Returns the number of slots in the frame of chunk 0 of a stage, or 1 if it
/// has no frame.
int64_t slots(const rt::Plan &plan, int64_t stage) {
  for (const rt::Frame &frame : plan.frames)
    if (frame.stage == stage && frame.chunk == 0)
      return frame.count;
  return 1;
}

TEST(Pipeline, FramesHaveASlotPerLiveMicroBatch) {
  const int64_t pp = 4, microBatches = 8;
  BuiltPlan gpipe =
      build(Chain{cost::ScheduleKind::GPipe, pp, 1, microBatches});
  BuiltPlan one =
      build(Chain{cost::ScheduleKind::OneFOneB, pp, 1, microBatches});
  BuiltPlan zero = build(Chain{cost::ScheduleKind::ZbH1, pp, 1, microBatches});
  for (int64_t stage = 0; stage < pp; ++stage) {
    EXPECT_EQ(slots(gpipe.plan, stage), microBatches);
    EXPECT_EQ(slots(one.plan, stage), pp - stage);
    EXPECT_EQ(slots(zero.plan, stage), pp);
  }
  // The last stage of 1F1B completes each micro-batch before the next one, so
  // it has no frame.
  EXPECT_EQ(one.plan.frames.size(), 3u);
  EXPECT_LT(one.plan.arenaBytes[1], gpipe.plan.arenaBytes[1]);
}

/// Buffers that only one phase uses are in gaps between buffers of a frame.
TEST(Pipeline, LocalBuffersFillFrames) {
  BuiltPlan built = build(Chain{cost::ScheduleKind::GPipe, 2, 1, 4});
  ASSERT_EQ(built.error, "");
  bool isShared = false;
  for (const rt::Buffer &buffer : built.plan.buffers)
    isShared |=
        buffer.frame >= 0 && (buffer.kind == rt::BufferKind::Workspace ||
                              buffer.kind == rt::BufferKind::Gradient);
  EXPECT_TRUE(isShared);
}

TEST(Pipeline, StagesShareKernels) {
  BuiltPlan built = build(Chain{cost::ScheduleKind::OneFOneB, 4, 1, 4});
  ASSERT_EQ(built.error, "");
  auto symbols = [&](const std::string &phase) {
    std::vector<std::string> names;
    for (const rt::Instruction &instruction : built.plan.phases.at(phase))
      if (auto *kernel = std::get_if<rt::KernelOp>(&instruction.op))
        names.push_back(kernel->symbol);
    return names;
  };
  EXPECT_FALSE(symbols("s1.forward").empty());
  EXPECT_EQ(symbols("s1.forward"), symbols("s2.forward"));
  EXPECT_EQ(symbols("s1.backward"), symbols("s2.backward"));
}

const char *const kTied = R"(
func.func @step.0(%w: tensor<4xf32> {dpc.role = "parameter", dpc.name = "w"},
                  %x: tensor<4xf32> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<4xf32> {dpc.name = "w", dpc.ties = 0 : i64})
    attributes {dpc.mesh = #dpc.mesh<pp=2>, dpc.stage = 0 : i64} {
  %y = dpc.binary mul %w, %x {dpc.phase = "forward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  dpc.send %y to = 1 tag = 0 {dpc.phase = "forward"} : tensor<4xf32>
  %s = dpc.all_reduce sum %x axes = ["pp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  %n = dpc.binary add %w, %s {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %n : tensor<4xf32>
}
func.func @step.1(%x: tensor<4xf32> {dpc.role = "input", dpc.name = "x"},
                  %w: tensor<4xf32> {dpc.role = "parameter", dpc.name = "w", dpc.copy})
    -> (tensor<4xf32> {dpc.name = "z"}, tensor<4xf32> {dpc.name = "w", dpc.ties = 1 : i64})
    attributes {dpc.mesh = #dpc.mesh<pp=2>, dpc.stage = 1 : i64} {
  %y = dpc.recv from = 0 tag = 0 {dpc.phase = "forward"} : tensor<4xf32>
  %z = dpc.binary add %y, %w {dpc.phase = "forward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = dpc.unary neg %x {dpc.phase = "backward"} : tensor<4xf32> -> tensor<4xf32>
  %h = dpc.binary add %g, %x {dpc.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %k = dpc.binary add %h, %x {dpc.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = dpc.all_reduce sum %k axes = ["pp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  %n = dpc.binary add %w, %s {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z, %n : tensor<4xf32>, tensor<4xf32>
})";

/// A parameter or input that two stages use is in the plan only once.
TEST(Pipeline, StagesShareParametersAndInputs) {
  BuiltPlan built = build(std::string(kTied));
  ASSERT_EQ(built.error, "");
  ASSERT_EQ(built.plan.tensors.size(), 1u);
  EXPECT_EQ(built.plan.tensors[0].copies.size(), 1u);
  EXPECT_EQ(built.plan.inputs.size(), 1u);
  rt::RunRequest request;
  request.steps = 2;
  request.tensors["w"] = tensorOf({1, 2, 3, 4}, {4});
  request.inputs = {{{"x", tensorOf({1, 1, 2, 3}, {4})}}};
  auto result = rt::runPlan(built.plan, built.folder, request);
  ASSERT_TRUE(result.ok()) << result.status().message();
  // z = w x + w, then w += 2 x.
  for (int64_t i = 0; i < 4; ++i) {
    double x = request.inputs[0]["x"].at(i), w = request.tensors["w"].at(i);
    EXPECT_EQ(result->outputs[0]["z"].at(i), w * x + w);
    w += 2 * x;
    EXPECT_EQ(result->outputs[1]["z"].at(i), w * x + w);
    EXPECT_EQ(result->tensors["w"].at(i), w + 2 * x);
  }
}

std::string errorOf(const std::string &from, const std::string &to) {
  std::string text = kTied;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return build(text.replace(at, from.size(), to)).error;
}

TEST(Pipeline, BadStagesAreRefused) {
  expectSays(errorOf("to = 1", "to = 0"),
             "in stage 0 has the peer stage 0; expected another of the 2");
  expectSays(errorOf("to = 1", "to = 2"),
             "in stage 0 has the peer stage 2; expected another of the 2");
  expectSays(errorOf("from = 0 tag = 0", "from = 0 tag = 1"),
             "would wait forever");
  expectSays(errorOf("pp=2", "pp=3"), "the step has 2 functions; expected 3");
  expectSays(errorOf("pp=2>, dpc.stage = 1", "pp=2, mb=2>, dpc.stage = 1"),
             "has a different mesh");
  expectSays(
      errorOf("dpc.stage = 0 : i64", "dpc.schedule = array<i64: 2, 0, 0>"),
      "phase and chunk that are not in the dpc.schedule of its function");
  expectSays(
      errorOf("dpc.stage = 0 : i64", "dpc.schedule = array<i64: 1, 0, 1>"),
      "has the entry (1, 0, 1)");
  expectSays(errorOf("dpc.stage = 0 : i64", "dpc.schedule = array<i64: 1, 0>"),
             "expected triples");
  std::string text = kTied;
  expectSays(build(text.substr(0, text.find("func.func @step.1"))).error,
             "the step has 1 functions; expected 2");
}

} // namespace
} // namespace dpc::test
