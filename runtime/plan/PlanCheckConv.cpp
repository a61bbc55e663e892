#include "runtime/plan/PlanChecks.h"

#include "runtime/base/Layout.h"

namespace dpc::rt {

namespace {

struct Operand {
  const char *name;
  int id;
  const std::vector<int64_t> &shape;
};

Status checkOperand(const Plan &plan, const ConvOp &op, const Operand &one) {
  DPC_TRY(checkBufferId(plan, one.name, one.id));
  const Buffer &buffer = plan.buffers[one.id];
  if (buffer.dtype != op.compute)
    return Status::invalid("compute is ", nameOf(op.compute), ", but ",
                           one.name, " holds ", nameOf(buffer.dtype));
  if (one.shape.size() < 3 || one.shape.size() != op.xShape.size())
    return wrongField(concat("number of dimensions of ", one.name),
                      static_cast<int64_t>(one.shape.size()),
                      "3 or more, equal for x, w and y");
  int64_t count = checkedElements(one.shape);
  if (count < 0 || count != numElements(buffer.shape))
    return wrongField(concat("number of elements of ", one.name), count,
                      numElements(buffer.shape), ", as in its buffer");
  return Status::success();
}

Status checkEntries(const char *name, const std::vector<int64_t> &values,
                    size_t count, int64_t least) {
  if (values.size() != count)
    return wrongField(concat("number of ", name),
                      static_cast<int64_t>(values.size()), count);
  for (int64_t value : values)
    if (value < least || value > INT32_MAX)
      return wrongField(name, value, least, " to ", INT32_MAX);
  return Status::success();
}

Status checkShapes(const ConvOp &op) {
  const auto &x = op.xShape, &w = op.wShape, &y = op.yShape;
  for (const auto *shape : {&x, &w, &y})
    for (int64_t extent : *shape)
      if (extent > INT32_MAX)
        return wrongField("an extent", extent, "at most ", INT32_MAX);
  if (w[1] < 1 || x[1] % w[1] != 0)
    return wrongField("w_shape[1]", w[1], "a divisor of the ", x[1],
                      " channels");
  int64_t groups = x[1] / w[1];
  if (groups < 1 || w[0] % groups != 0)
    return wrongField("w_shape[0]", w[0], "a multiple of ", groups);
  if (y[0] != x[0])
    return wrongField("y_shape[0]", y[0], x[0]);
  if (y[1] != w[0])
    return wrongField("y_shape[1]", y[1], w[0]);
  size_t spatial = x.size() - 2;
  for (size_t d = 0; d < spatial; ++d) {
    int64_t room = x[d + 2] + op.pads[d] + op.pads[d + spatial] -
                   op.dilations[d] * (w[d + 2] - 1) - 1;
    int64_t out = room < 0 ? 0 : room / op.strides[d] + 1;
    if (w[d + 2] < 1 || out < 1 || y[d + 2] != out)
      return wrongField(concat("y_shape[", d + 2, "]"), y[d + 2], out);
  }
  return Status::success();
}

} // namespace

Status checkConv(const Plan &plan, const ConvOp &op) {
  if (op.compute != DType::F32 && op.compute != DType::F64 &&
      op.compute != DType::BF16 && op.compute != DType::F16)
    return Status::invalid("compute is ", nameOf(op.compute),
                           ", expected f32, f64, bf16 or f16");
  const Operand operands[] = {
      {"x", op.x, op.xShape}, {"w", op.w, op.wShape}, {"y", op.y, op.yShape}};
  for (const Operand &one : operands)
    DPC_TRY(checkOperand(plan, op, one));
  size_t spatial = op.xShape.size() - 2;
  DPC_TRY(checkEntries("strides", op.strides, spatial, 1));
  DPC_TRY(checkEntries("dilations", op.dilations, spatial, 1));
  DPC_TRY(checkEntries("pads", op.pads, 2 * spatial, 0));
  DPC_TRY(checkShapes(op));
  const Operand &written = operands[op.kind == ConvKind::GradInput    ? 0
                                    : op.kind == ConvKind::GradFilter ? 1
                                                                      : 2];
  for (const Operand &one : operands)
    if (&one != &written &&
        mayOverlap(plan, wholeOf(plan, one.id), wholeOf(plan, written.id)))
      return Status::invalid(one.name, " overlaps ", written.name,
                             ", which is written");
  return Status::success();
}

} // namespace dpc::rt
