#include "test/unit/runtime/TestPlans.h"

#include "runtime/plan/PlanExperts.h"

namespace dpc::rt::test {

int addBuffer(Plan &plan, const std::string &name, BufferKind kind,
              std::vector<int64_t> shape, DType dtype, int64_t stage,
              int frame) {
  for (auto *bytes : {&plan.arenaBytes, &plan.hostBytes, &plan.diskBytes})
    bytes->resize(plan.mesh.stages());
  Buffer buffer;
  buffer.id = static_cast<int>(plan.buffers.size());
  buffer.name = name;
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.bytes = numElements(shape) * sizeOf(dtype);
  buffer.shape = std::move(shape);
  int64_t &end = frame < 0 ? plan.arenaBytes[stage] : plan.frames[frame].bytes;
  buffer.stage = stage;
  buffer.frame = frame;
  buffer.offset = end;
  end += (buffer.bytes + 63) / 64 * 64;
  plan.buffers.push_back(buffer);
  return buffer.id;
}

namespace {

constexpr int kEpilogues = static_cast<int>(Epilogue::SumsOfB) + 1;

Instruction compute(const std::string &name, OpVariant op,
                    std::vector<int> waits = {}, int signals = -1) {
  return {Queue::Compute, std::move(waits), signals, name, 0, std::move(op)};
}

MatmulOp product(int a, int b, int c, int64_t m, int64_t n, int64_t k) {
  MatmulOp op{.a = a,
              .b = b,
              .c = c,
              .m = m,
              .n = n,
              .k = k,
              .lda = k,
              .ldb = n,
              .ldc = n};
  return op;
}

Tensor parameter(const std::string &name, int buffer,
                 std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.buffer = buffer;
  tensor.layout = Layout::replicated(shape);
  tensor.globalShape = std::move(shape);
  tensor.init = InitKind::Source;
  return tensor;
}

int addRandom(Plan &plan, const std::string &name, std::vector<int64_t> shape,
              DType type) {
  int id = addBuffer(plan, name, BufferKind::Parameter, shape, type);
  Tensor tensor = parameter(name, id, std::move(shape));
  tensor.dtype = type;
  tensor.init = InitKind::Random;
  tensor.seed = id;
  plan.tensors.push_back(tensor);
  return id;
}

struct Ids {
  int w, eye, lr, x, y, grad, loss;
};

void addPhases(Plan &plan, const Ids &id, int64_t local) {
  plan.phases["setup"] = {compute("clear gradient", FillOp{id.grad, 0}),
                          compute("clear loss", FillOp{id.loss, 0})};
  MatmulOp squares = product(id.y, id.y, id.loss, 1, 1, 2 * local);
  squares.beta = 1;
  plan.phases["forward"] = {
      compute("load x", LoadInputOp{0, id.x}),
      compute("x w", product(id.x, id.w, id.y, local, 2, 4)),
      compute("sum of squares", squares, {}, 0)};
  MatmulOp gradient = product(id.x, id.y, id.grad, 4, 2, local);
  gradient.transA = true;
  gradient.lda = 4;
  gradient.alpha = 2;
  gradient.beta = 1;
  plan.phases["backward"] = {compute("gradient", gradient, {}, 1)};
  MatmulOp update = product(id.eye, id.grad, id.w, 4, 2, 4);
  update.alpha = -1.0 / 64;
  update.beta = 1;
  plan.phases["update"] = {
      {Queue::Comm, {1}, 2, "reduce gradient", 0, AllReduceOp{0, {id.grad}}},
      {Queue::Comm, {0}, -1, "reduce loss", 0, AllReduceOp{0, {id.loss}}},
      compute("update w", update, {2})};
}

} // namespace

void addEpilogues(Plan &plan, DType type) {
  int a = addRandom(plan, "e.a", {8, 8}, type),
      b = addRandom(plan, "e.b", {8, 8}, type);
  for (int i = 1; i < kEpilogues; ++i) {
    auto epilogue = static_cast<Epilogue>(i);
    std::string name(nameOf(epilogue));
    int c = addRandom(plan, "c." + name, {8, 8}, type);
    MatmulOp op = product(a, b, c, 8, 8, 8);
    op.compute = type;
    op.epilogue = epilogue;
    op.transA = epilogue == Epilogue::SumsOfA;
    op.beta = epilogue == Epilogue::SumsOfB ? 1 : 0;
    if (readsBias(epilogue) || writesBias(epilogue)) {
      op.bias = addRandom(plan, "bias." + name, {16}, type);
      op.biasOffset = 8;
    }
    if (readsAux(epilogue) || writesAux(epilogue)) {
      op.aux = addRandom(plan, "aux." + name, {9, 16}, type);
      op.auxOffset = 16;
      op.auxLd = 16;
    }
    plan.phases["update"].push_back(compute(name, op));
  }
}

int addFp8(Plan &plan) {
  constexpr int64_t kM = 32, kN = 48, kK = 16, kPadding = 8;
  constexpr DType kValue = DType::F8E4M3FN, kGradient = DType::F8E5M2;
  int a = addRandom(plan, "f.a", {kM, kM + kPadding}, DType::BF16),
      b = addRandom(plan, "f.b", {kN, kN + kPadding}, DType::BF16);
  int64_t bytes = fp8WorkspaceBytes(kM, kN, kK);
  int workspace =
      addBuffer(plan, "f.w", BufferKind::Workspace, {bytes}, DType::U8);
  int count = 0;
  auto add = [&](MatmulOp op, DType type) {
    op.c = addRandom(plan, "f." + std::to_string(count++), {kM, kN}, type);
    plan.phases["update"].push_back(compute("fp8", op));
  };
  MatmulOp op = product(a, b, -1, kM, kN, kK);
  op.aOffset = 8;
  op.lda = kM + kPadding;
  op.ldb = kN + kPadding;
  op.compute = DType::BF16;
  for (auto [first, second] :
       {std::pair(kValue, kValue), {kGradient, kValue}, {kValue, kGradient}})
    for (int trans = 0; trans < 4; ++trans) {
      op.fp8 = Fp8Factors{first, second, workspace};
      op.transA = trans & 1;
      op.transB = trans & 2;
      op.beta = trans == 3 ? 1 : 0;
      add(op, trans == 2 ? DType::F32 : DType::BF16);
    }
  op.beta = 0;
  op.transB = false;
  for (DType type : {DType::BF16, DType::F32})
    for (int i = 1; i < kEpilogues; ++i) {
      op.epilogue = static_cast<Epilogue>(i);
      op.bias = op.aux = -1;
      op.auxLd = 0;
      std::string name = "." + std::to_string(count);
      if (readsBias(op.epilogue) || writesBias(op.epilogue))
        op.bias = addRandom(plan, "f.bias" + name, {kN}, type);
      if (readsAux(op.epilogue) || writesAux(op.epilogue)) {
        op.aux = addRandom(plan, "f.aux" + name, {kM, kN}, type);
        op.auxLd = kN;
      }
      add(op, type);
    }
  return count;
}

int addEmptyProducts(Plan &plan, DType type) {
  constexpr int64_t kRows = 4, kColumns = 3, kPadding = 2;
  int factor = addRandom(plan, "n.f", {8, 8}, type), count = 0;
  auto add = [&](int64_t m, int64_t n, int64_t k, double beta, int64_t batch,
                 int64_t ldc) {
    int c = addRandom(plan, "n." + std::to_string(count++), {48}, type);
    MatmulOp op = product(factor, factor, c, m, n, k);
    op.lda = std::max<int64_t>(k, 1);
    op.ldb = op.ldc = ldc;
    op.compute = type;
    op.beta = beta;
    op.cOffset = 1;
    op.batch = batch;
    op.strideC = op.ldc * kRows;
    plan.phases["update"].push_back(compute("empty", op));
  };
  for (double beta : {0.0, 0.5, 1.0}) {
    add(0, kColumns, 2, beta, 1, kColumns);
    add(kRows, 0, 2, beta, 1, 1);
    add(kRows, kColumns, 2, beta, 0, kColumns);
    for (int64_t ldc : {kColumns, kColumns + kPadding})
      add(kRows, kColumns, 0, beta, 2, ldc);
  }
  return count;
}

void addAttention(Plan &plan, DType type) {
  constexpr int64_t kBatch = 2, kHeads = 4, kGroups = 2, kLength = 6,
                    kDepth = 8;
  AttentionShape shape{kBatch, kHeads, kGroups, kLength, kLength,
                       kDepth, kDepth, 0.4,     true,    type};
  // by position, then head
  auto tensor = [&](int buffer, int64_t heads, int64_t firstHead) {
    int64_t row = heads * kDepth;
    return AttentionTensor{
        buffer, firstHead * kDepth, {kLength * row, kDepth, row}};
  };
  auto made = [&](const std::string &name, int64_t heads) {
    int id = addRandom(plan, name, {kBatch, kLength, heads, kDepth}, type);
    return tensor(id, heads, 0);
  };
  constexpr int64_t kAll = kHeads + 2 * kGroups;
  int qkv = addRandom(plan, "a.qkv", {kBatch, kLength, kAll, kDepth}, type);
  AttentionOp op{
      shape,
      tensor(qkv, kAll, 0),
      tensor(qkv, kAll, kHeads),
      tensor(qkv, kAll, kHeads + kGroups),
      made("a.out", kHeads),
      addRandom(plan, "a.lse", {kBatch, kHeads, kLength}, DType::F32)};
  plan.phases["update"].push_back(compute("attention", op));
  AttentionGradOp grad{shape,
                       op.q,
                       op.k,
                       op.v,
                       op.out,
                       made("a.dout", kHeads),
                       op.lse,
                       made("a.dq", kHeads),
                       made("a.dk", kGroups),
                       made("a.dv", kGroups)};
  grad.workspace =
      addBuffer(plan, "workspace", BufferKind::Workspace, {512}, DType::U8);
  plan.phases["update"].push_back(compute("attention gradient", grad));
}

int addExperts(Plan &plan, DType type) {
  constexpr int64_t kRows = 20, kShares = 2, kExperts = 3, kK = 5, kN = 4;
  Tensor ids = parameter(
      "m.ids",
      addBuffer(plan, "m.ids", BufferKind::Parameter, {kRows}, DType::I64),
      {kRows});
  ids.dtype = DType::I64;
  ids.role = TensorRole::Buffer;
  plan.tensors.push_back(ids);
  ExpertMatmulOp forward, gradient;
  forward.rows = kRows;
  forward.sharesX = kShares;
  forward.experts = kExperts;
  forward.k = kK;
  forward.n = kN;
  forward.first = {ScalarKind::Offset, 0, kExperts * plan.ranks(), {"dp"}};
  forward.valid = {ScalarKind::Valid, 0, kExperts * plan.ranks(), {"dp"}};
  forward.compute = type;
  forward.ids = ids.buffer;
  forward.x = addRandom(plan, "m.x", {kRows / kShares, kK}, type);
  forward.w = addRandom(plan, "m.w", {kExperts, kK, kN}, type);
  forward.workspace =
      addBuffer(plan, "m.order", BufferKind::Workspace,
                {expertWorkspaceBytes(kRows, kExperts)}, DType::U8);
  gradient = forward;
  gradient.kind = ExpertMatmulKind::GradWeight;
  gradient.y = addRandom(plan, "m.dy", {kRows, kN}, type);
  int count = 0;
  auto made = [&](std::vector<int64_t> shape, DType result) {
    return addRandom(plan, "m." + std::to_string(count++), std::move(shape),
                     result);
  };
  bool isHalf = type == DType::BF16 || type == DType::F16;
  for (DType result : {type, isHalf ? DType::F32 : type}) {
    forward.transW = count > 0; // the elements of w as [experts, n, k]
    forward.y = made({kRows, kN}, result);
    plan.phases["update"].push_back(compute("experts", forward));
    gradient.w = made({kExperts, kK, kN}, result);
    plan.phases["update"].push_back(compute("gradient of experts", gradient));
  }
  return count;
}

int addConvs(Plan &plan, DType type) {
  std::vector<ConvOp> all;
  for (ConvKind kind :
       {ConvKind::Forward, ConvKind::GradInput, ConvKind::GradFilter}) {
    all.push_back({.kind = kind,
                   .xShape = {2, 4, 7},
                   .wShape = {6, 4, 3},
                   .yShape = {2, 6, 4},
                   .strides = {2},
                   .dilations = {1},
                   .pads = {1, 1}});
    all.push_back({.kind = kind,
                   .xShape = {2, 4, 6, 5},
                   .wShape = {6, 2, 3, 2},
                   .yShape = {2, 6, 3, 6},
                   .strides = {2, 1},
                   .dilations = {1, 1},
                   .pads = {1, 1, 1, 1}});
    all.push_back({.kind = kind,
                   .xShape = {1, 2, 3, 4, 5},
                   .wShape = {3, 2, 2, 2, 2},
                   .yShape = {1, 3, 2, 2, 4},
                   .strides = {1, 1, 1},
                   .dilations = {1, 2, 1},
                   .pads = {0, 0, 0, 0, 0, 0}});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    ConvOp op = all[i];
    op.compute = type;
    std::string name = "conv." + std::to_string(i);
    auto nameOfPart = [&](ConvKind kind, const char *part) {
      return op.kind == kind ? name : name + part;
    };
    op.x =
        addRandom(plan, nameOfPart(ConvKind::GradInput, ".x"), op.xShape, type);
    op.w = addRandom(plan, nameOfPart(ConvKind::GradFilter, ".w"), op.wShape,
                     type);
    op.y =
        addRandom(plan, nameOfPart(ConvKind::Forward, ".y"), op.yShape, type);
    plan.phases["update"].push_back(compute(name, op));
  }
  return static_cast<int>(all.size());
}

Plan leastSquares(int64_t dp, int64_t microBatches, int64_t rows) {
  Plan plan;
  plan.model = "least-squares";
  plan.mesh.axes = {{"dp", dp}};
  plan.mesh.microBatches = microBatches;
  plan.trains = true;
  plan.groups = {{0, {"dp"}, groupMembers(plan.mesh, {"dp"})}};
  Layout layout;
  layout.dims = {{Factor{rows, {"dp", "mb"}}}, {Factor{4, {}}}};
  int64_t local = localShape(layout, plan.mesh)[0];
  Ids id;
  id.w = addBuffer(plan, "w", BufferKind::Parameter, {4, 2});
  id.eye = addBuffer(plan, "eye", BufferKind::Parameter, {4, 4});
  id.lr = addBuffer(plan, "lr", BufferKind::Scalar, {});
  id.x = addBuffer(plan, "x", BufferKind::Input, {local, 4});
  id.y = addBuffer(plan, "y", BufferKind::Activation, {local, 2});
  id.grad = addBuffer(plan, "w.grad", BufferKind::Gradient, {4, 2});
  id.loss = addBuffer(plan, "loss", BufferKind::Output, {});
  plan.tensors = {parameter("w", id.w, {4, 2}),
                  parameter("eye", id.eye, {4, 4})};
  plan.scalars = {{"lr", id.lr}};
  plan.lrSchedule.lr = 0.5;
  plan.inputs = {{"x", id.x, DType::F32, {rows, 4}, layout}};
  plan.outputs = {{"loss", id.loss, DType::F32, {}, Layout{}}};
  addPhases(plan, id, local);
  std::vector<ScheduleEntry> schedule = {{"setup", 0, {}}};
  for (int64_t mb = 0; mb < microBatches; ++mb) {
    schedule.push_back({"forward", mb, {}});
    schedule.push_back({"backward", mb, {}});
  }
  schedule.push_back({"update", 0, {}});
  plan.schedule.assign(static_cast<size_t>(dp), schedule);
  return plan;
}

Plan leastSquaresOffloaded(Space space, int64_t dp, int64_t microBatches,
                           int64_t rows) {
  Plan plan = leastSquares(dp, microBatches, rows);
  Buffer &w = plan.buffers[0];
  w.space = space;
  w.offset = 64; // leaves the first bytes unused
  (space == Space::Host ? plan.hostBytes : plan.diskBytes) = {128};
  int here = addBuffer(plan, "w here", BufferKind::Communication, {4, 2});
  auto transfer = [](int in, int out, std::vector<int> waits, int signals) {
    return Instruction{Queue::Copy, std::move(waits),   signals, "move w",
                       0,           TransferOp{in, out}};
  };
  auto &forward = plan.phases["forward"];
  std::get<MatmulOp>(forward[1].op).b = here;
  forward[1].waits = {10};
  forward[1].signals = 11;
  forward.insert(forward.begin(), transfer(0, here, {11}, 10));
  auto &update = plan.phases["update"];
  std::get<MatmulOp>(update[2].op).c = here;
  update[2].waits.push_back(12);
  update[2].signals = 13;
  update.insert(update.begin(), transfer(0, here, {11}, 12));
  update.push_back(transfer(here, 0, {13}, -1));
  return plan;
}

double leastSquaresStep(const HostTensor &x, HostTensor &w) {
  int64_t rows = x.shape[0];
  double loss = 0;
  std::vector<double> gradient(8, 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < 2; ++n) {
      double y = 0;
      for (int64_t k = 0; k < 4; ++k)
        y += x.at(r * 4 + k) * w.at(k * 2 + n);
      loss += y * y;
      for (int64_t k = 0; k < 4; ++k)
        gradient[k * 2 + n] += 2 * x.at(r * 4 + k) * y;
    }
  for (int64_t i = 0; i < 8; ++i)
    w.set(i, w.at(i) - gradient[i] / 64);
  return loss;
}

namespace {

struct StageIds {
  int x, a, b, y, yIn, dy, dyIn, z, gradA, gradB, loss, eyeA, eyeB;
};

Instruction comm(const std::string &name, OpVariant op, std::vector<int> waits,
                 int signals = -1) {
  return {Queue::Comm, std::move(waits), signals, name, 0, std::move(op)};
}

MatmulOp update(int eye, int grad, int value, int64_t m, int64_t n) {
  MatmulOp op = product(eye, grad, value, m, n, m);
  op.alpha = -1.0 / 64;
  op.beta = 1;
  return op;
}

/// Computes grad += scale * y^T z for z [rows, n] and y [rows, m].
MatmulOp weightGradient(int y, int z, int grad, int64_t m, int64_t n,
                        int64_t rows, double scale) {
  MatmulOp op = product(y, z, grad, m, n, rows);
  op.transA = true;
  op.lda = m;
  op.alpha = scale;
  op.beta = 1;
  return op;
}

StageIds addStageBuffers(Plan &plan, int64_t local) {
  plan.frames = {{0, 0, 0, 0, plan.mesh.microBatches, 0},
                 {1, 1, 0, 0, plan.mesh.microBatches, 0}};
  auto add = [&](const char *name, BufferKind kind, std::vector<int64_t> shape,
                 int64_t stage, int frame = -1) {
    return addBuffer(plan, name, kind, std::move(shape), DType::F32, stage,
                     frame);
  };
  StageIds id;
  id.a = add("a", BufferKind::Parameter, {4, 3}, 0);
  id.eyeA = add("eye", BufferKind::Parameter, {4, 4}, 0);
  id.gradA = add("a.grad", BufferKind::Gradient, {4, 3}, 0);
  id.x = add("x", BufferKind::Input, {local, 4}, 0, 0);
  id.y = add("y", BufferKind::Workspace, {local, 3}, 0);
  id.dyIn = add("dy", BufferKind::Communication, {local, 3}, 0);
  id.b = add("b", BufferKind::Parameter, {3, 2}, 1);
  id.eyeB = add("eye.b", BufferKind::Parameter, {3, 3}, 1);
  id.gradB = add("b.grad", BufferKind::Gradient, {3, 2}, 1);
  id.yIn = add("y", BufferKind::Activation, {local, 3}, 1, 1);
  id.z = add("z", BufferKind::Activation, {local, 2}, 1, 1);
  id.dy = add("dy", BufferKind::Workspace, {local, 3}, 1);
  id.loss = add("loss", BufferKind::Output, {}, 1);
  for (Frame &frame : plan.frames) {
    frame.offset = plan.arenaBytes[frame.stage];
    plan.arenaBytes[frame.stage] += frame.bytes * frame.count;
  }
  return id;
}

void addStagePhases(Plan &plan, const StageIds &id, int64_t local) {
  plan.phases["s0.setup"] = {compute("clear", FillOp{id.gradA, 0})};
  plan.phases["s0.forward"] = {
      compute("load x", LoadInputOp{0, id.x}),
      compute("x a", product(id.x, id.a, id.y, local, 3, 4), {1}, 0),
      comm("send y", SendOp{0, id.y, 1, false, 1}, {0}, 1)};
  plan.phases["s0.backward"] = {
      comm("recv dy", RecvOp{0, id.dyIn, 1, false, 2}, {3}, 2),
      compute("gradient a",
              weightGradient(id.x, id.dyIn, id.gradA, 4, 3, local, 1), {2}, 3)};
  plan.phases["s0.update"] = {
      comm("reduce a", AllReduceOp{1, {id.gradA}}, {3}, 4),
      compute("update a", update(id.eyeA, id.gradA, id.a, 4, 3), {4})};
  MatmulOp squares = product(id.z, id.z, id.loss, 1, 1, 2 * local);
  squares.beta = 1;
  MatmulOp back = product(id.z, id.b, id.dy, local, 3, 2);
  back.transB = true;
  back.ldb = 2;
  back.alpha = 2;
  plan.phases["s1.setup"] = {compute("clear", FillOp{id.gradB, 0}),
                             compute("clear loss", FillOp{id.loss, 0})};
  plan.phases["s1.forward"] = {
      comm("recv y", RecvOp{0, id.yIn, -1, false, 1}, {}, 10),
      compute("y b", product(id.yIn, id.b, id.z, local, 2, 3), {10}),
      compute("sum of squares", squares, {}, 15)};
  plan.phases["s1.backward"] = {
      compute("gradient b",
              weightGradient(id.yIn, id.z, id.gradB, 3, 2, local, 2), {}, 11),
      compute("gradient y", back, {13}, 12),
      comm("send dy", SendOp{0, id.dy, -1, false, 2}, {12}, 13)};
  plan.phases["s1.update"] = {
      comm("reduce b", AllReduceOp{1, {id.gradB}}, {11}, 14),
      comm("reduce loss", AllReduceOp{1, {id.loss}}, {15}),
      compute("update b", update(id.eyeB, id.gradB, id.b, 3, 2), {14})};
}

} // namespace

Plan twoStages(int64_t dp, int64_t microBatches, int64_t rows) {
  Plan plan;
  plan.model = "two-stages";
  plan.mesh.axes = {{"pp", 2}, {"dp", dp}};
  plan.mesh.microBatches = microBatches;
  plan.trains = true;
  plan.groups = {{0, {"pp"}, groupMembers(plan.mesh, {"pp"})},
                 {1, {"dp"}, groupMembers(plan.mesh, {"dp"})}};
  Layout layout;
  layout.dims = {{Factor{rows, {"dp", "mb"}}}, {Factor{4, {}}}};
  int64_t local = localShape(layout, plan.mesh)[0];
  StageIds id = addStageBuffers(plan, local);
  plan.tensors = {
      parameter("a", id.a, {4, 3}), parameter("eye", id.eyeA, {4, 4}),
      parameter("b", id.b, {3, 2}), parameter("eye.b", id.eyeB, {3, 3})};
  plan.lrSchedule.lr = 0.5;
  plan.inputs = {{"x", id.x, DType::F32, {rows, 4}, layout}};
  plan.outputs = {{"loss", id.loss, DType::F32, {}, Layout{}}};
  addStagePhases(plan, id, local);
  for (int stage = 0; stage < 2; ++stage) {
    std::string name = "s" + std::to_string(stage) + ".";
    std::vector<ScheduleEntry> schedule = {{name + "setup", 0, {}}};
    for (const char *phase : {"forward", "backward"})
      for (int64_t mb = 0; mb < microBatches; ++mb)
        schedule.push_back({name + phase, mb, {{stage, mb}}});
    schedule.push_back({name + "update", 0, {}});
    plan.schedule.insert(plan.schedule.end(), dp, schedule);
  }
  return plan;
}

/// a [m, k] times b [k, n].
static std::vector<double> times(const std::vector<double> &a,
                                 const std::vector<double> &b, int64_t m,
                                 int64_t n, int64_t k) {
  std::vector<double> c(m * n, 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

static std::vector<double> transposed(const std::vector<double> &a, int64_t m,
                                      int64_t n) {
  std::vector<double> c(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      c[j * m + i] = a[i * n + j];
  return c;
}

static std::vector<double> values(const HostTensor &tensor) {
  std::vector<double> result(tensor.elements());
  for (int64_t i = 0; i < tensor.elements(); ++i)
    result[i] = tensor.at(i);
  return result;
}

double twoStagesStep(const HostTensor &x, HostTensor &a, HostTensor &b) {
  int64_t rows = x.shape[0];
  std::vector<double> vx = values(x), va = values(a), vb = values(b);
  std::vector<double> y = times(vx, va, rows, 3, 4),
                      z = times(y, vb, rows, 2, 3);
  std::vector<double> dy = times(z, transposed(vb, 3, 2), rows, 3, 2);
  std::vector<double> ga = times(transposed(vx, rows, 4), dy, 4, 3, rows),
                      gb = times(transposed(y, rows, 3), z, 3, 2, rows);
  double loss = 0;
  for (double v : z)
    loss += v * v;
  for (int64_t i = 0; i < 12; ++i)
    a.set(i, va[i] - 2 * ga[i] / 64);
  for (int64_t i = 0; i < 6; ++i)
    b.set(i, vb[i] - 2 * gb[i] / 64);
  return loss;
}

HostTensor ramp(std::vector<int64_t> shape, double scale, double shift) {
  HostTensor tensor = HostTensor::zeros(DType::F32, std::move(shape));
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set(i, static_cast<double>(i) * scale - shift);
  return tensor;
}

} // namespace dpc::rt::test
