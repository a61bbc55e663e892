#include "test/unit/runtime/TestPlans.h"

namespace dpc::rt::test {

int addBuffer(Plan &plan, const std::string &name, BufferKind kind,
              std::vector<int64_t> shape, DType dtype) {
  Buffer buffer;
  buffer.id = static_cast<int>(plan.buffers.size());
  buffer.name = name;
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.bytes = numElements(shape) * sizeOf(dtype);
  buffer.shape = std::move(shape);
  buffer.offset = plan.arenaBytes;
  plan.arenaBytes += (buffer.bytes + 63) / 64 * 64;
  plan.buffers.push_back(buffer);
  return buffer.id;
}

namespace {

Instruction compute(const std::string &name, OpVariant op,
                    std::vector<int> waits = {}, int signals = -1) {
  return {Queue::Compute, std::move(waits), signals, name, 0, std::move(op)};
}

MatmulOp product(int a, int b, int c, int64_t m, int64_t n, int64_t k) {
  MatmulOp op;
  op.a = a;
  op.b = b;
  op.c = c;
  op.m = m;
  op.n = n;
  op.k = k;
  op.lda = k;
  op.ldb = n;
  op.ldc = n;
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

struct Ids {
  int w, eye, lr, x, y, grad, loss;
};

void addPhases(Plan &plan, const Ids &id, int64_t local) {
  plan.phases["setup"] = {compute("clear gradient", FillOp{id.grad, 0}),
                          compute("clear loss", FillOp{id.loss, 0})};
  MatmulOp squares = product(id.y, id.y, id.loss, 1, 1, 2 * local);
  squares.beta = 1;
  plan.phases["forward"] = {
      compute("load x", LoadInputOp{0}),
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
  std::vector<ScheduleEntry> schedule = {{"setup", 0}};
  for (int64_t mb = 0; mb < microBatches; ++mb) {
    schedule.push_back({"forward", mb});
    schedule.push_back({"backward", mb});
  }
  schedule.push_back({"update", 0});
  plan.schedule.assign(static_cast<size_t>(dp), schedule);
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

HostTensor ramp(std::vector<int64_t> shape, double scale, double shift) {
  HostTensor tensor = HostTensor::zeros(DType::F32, std::move(shape));
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.set(i, static_cast<double>(i) * scale - shift);
  return tensor;
}

} // namespace dpc::rt::test
