#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

namespace {

using Wide = __int128;

/// An operand and its extents according to the shape.
struct Operand {
  const char *name;
  const AttentionTensor &tensor;
  int64_t extents[4];
  bool isWritten;

  /// The number of elements from the first to the last, both included.
  int64_t span() const {
    int64_t last = extents[3] - 1;
    for (int d = 0; d < 3; ++d)
      last += (extents[d] - 1) * tensor.strides[d];
    return last + 1;
  }
  BufferPart part(int64_t width) const {
    return {tensor.buffer, tensor.offset * width, span() * width};
  }
};

Status checkBuffer(const Plan &plan, const std::string &name, int id,
                   DType type, const std::string &expected) {
  if (id < 0 || id >= static_cast<int>(plan.buffers.size()))
    return wrongField(name, id,
                      "a buffer below " + std::to_string(plan.buffers.size()));
  if (plan.buffers[id].dtype != type)
    return Status::invalid(name, " holds ", nameOf(plan.buffers[id].dtype),
                           ", expected ", expected);
  return Status::success();
}

Status checkShape(const AttentionShape &shape) {
  if (shape.compute != DType::F32 && shape.compute != DType::BF16 &&
      shape.compute != DType::F16)
    return Status::invalid("compute is ", nameOf(shape.compute),
                           ", expected f32, bf16 or f16");
  const std::pair<const char *, int64_t> extents[] = {
      {"batch", shape.batch},
      {"heads", shape.heads},
      {"groups", shape.groups},
      {"queries", shape.queries},
      {"keys", shape.keys},
      {"depth", shape.depth},
      {"value_depth", shape.valueDepth}};
  for (auto [name, extent] : extents)
    if (extent < 1 || extent > INT32_MAX)
      return wrongField(name, extent, "1 to " + std::to_string(INT32_MAX));
  if (shape.heads % shape.groups != 0)
    return wrongField("heads", shape.heads,
                      "a multiple of the " + std::to_string(shape.groups) +
                          " groups");
  if (!std::isfinite(shape.scale))
    return Status::invalid("scale is not finite");
  return Status::success();
}

/// The stride of a dimension of size 1 may have any value.
Status checkOperand(const Plan &plan, DType type, const Operand &one) {
  std::string name = one.name;
  DPC_TRY(checkBuffer(plan, name, one.tensor.buffer, type,
                      std::string(nameOf(type)) + ", as compute says"));
  if (one.tensor.strides.size() != 3)
    return wrongField("number of strides of " + name,
                      static_cast<int64_t>(one.tensor.strides.size()), "3");
  Wide last = Wide(one.tensor.offset) + one.extents[3] - 1;
  for (int d = 0; d < 3; ++d) {
    if (one.tensor.strides[d] < 0)
      return wrongField("a stride of " + name, one.tensor.strides[d],
                        "at least 0");
    last += Wide(one.extents[d] - 1) * one.tensor.strides[d];
  }
  int64_t elements = numElements(plan.buffers[one.tensor.buffer].shape);
  if (one.tensor.offset < 0 || last >= elements)
    return Status::invalid(name, " leaves buffer ", one.tensor.buffer,
                           ", which has ", elements, " elements");
  return Status::success();
}

/// Checks that no two elements of a written operand share bytes: in ascending
/// order of strides, each dimension steps over all of the previous one.
Status checkDistinct(const Operand &one) {
  std::pair<int64_t, int64_t> steps[3];
  for (int d = 0; d < 3; ++d)
    steps[d] = {one.tensor.strides[d], one.extents[d]};
  std::sort(std::begin(steps), std::end(steps));
  int64_t least = one.extents[3];
  for (auto [stride, extent] : steps) {
    if (extent == 1)
      continue;
    if (stride < least)
      return wrongField(std::string("a stride of ") + one.name, stride,
                        "at least " + std::to_string(least) +
                            ", as it is written");
    least = stride * (extent - 1) + least;
  }
  return Status::success();
}

Status checkAll(const Plan &plan, const AttentionShape &shape, int lse,
                bool writesLse, const std::vector<Operand> &operands) {
  int64_t width = sizeOf(shape.compute);
  for (const Operand &one : operands) {
    DPC_TRY(checkOperand(plan, shape.compute, one));
    if (one.isWritten)
      DPC_TRY(checkDistinct(one));
  }
  DPC_TRY(checkBuffer(plan, "lse", lse, DType::F32, "f32"));
  int64_t rows = shape.batch * shape.heads * shape.queries;
  if (numElements(plan.buffers[lse].shape) != rows)
    return wrongField("elements of lse", numElements(plan.buffers[lse].shape),
                      std::to_string(rows));
  auto apart = [&](const char *name, const BufferPart &part,
                   const char *written, const BufferPart &other) {
    return mayOverlap(plan, part, other)
               ? Status::invalid(name, " overlaps ", written,
                                 ", which is written")
               : Status::success();
  };
  for (size_t i = 0; i < operands.size(); ++i) {
    BufferPart part = operands[i].part(width);
    if (writesLse)
      DPC_TRY(apart(operands[i].name, part, "lse", wholeOf(plan, lse)));
    else if (operands[i].isWritten)
      DPC_TRY(apart("lse", wholeOf(plan, lse), operands[i].name, part));
    for (size_t j = 0; j < operands.size(); ++j)
      if (i != j && operands[j].isWritten)
        DPC_TRY(apart(operands[i].name, part, operands[j].name,
                      operands[j].part(width)));
  }
  return Status::success();
}

} // namespace

Status checkAttention(const Plan &plan, const AttentionOp &op) {
  const AttentionShape &s = op.shape;
  DPC_TRY(checkShape(s));
  return checkAll(
      plan, s, op.lse, true,
      {{"q", op.q, {s.batch, s.heads, s.queries, s.depth}, false},
       {"k", op.k, {s.batch, s.groups, s.keys, s.depth}, false},
       {"v", op.v, {s.batch, s.groups, s.keys, s.valueDepth}, false},
       {"out", op.out, {s.batch, s.heads, s.queries, s.valueDepth}, true}});
}

/// Checks that nothing else overlaps the workspace.
static Status checkWorkspace(const Plan &plan, const AttentionGradOp &op) {
  if (op.workspace == -1)
    return Status::success();
  if (op.workspace < -1 ||
      op.workspace >= static_cast<int>(plan.buffers.size()))
    return wrongField("workspace", op.workspace,
                      "-1 or a buffer below " +
                          std::to_string(plan.buffers.size()));
  for (auto [name, id] : {std::pair("q", op.q.buffer),
                          {"k", op.k.buffer},
                          {"v", op.v.buffer},
                          {"out", op.out.buffer},
                          {"dout", op.dout.buffer},
                          {"lse", op.lse},
                          {"dq", op.dq.buffer},
                          {"dk", op.dk.buffer},
                          {"dv", op.dv.buffer}})
    if (mayOverlap(plan, wholeOf(plan, id), wholeOf(plan, op.workspace)))
      return Status::invalid(name, " overlaps workspace");
  return Status::success();
}

Status checkAttention(const Plan &plan, const AttentionGradOp &op) {
  const AttentionShape &s = op.shape;
  DPC_TRY(checkShape(s));
  DPC_TRY(checkAll(
      plan, s, op.lse, false,
      {{"q", op.q, {s.batch, s.heads, s.queries, s.depth}, false},
       {"k", op.k, {s.batch, s.groups, s.keys, s.depth}, false},
       {"v", op.v, {s.batch, s.groups, s.keys, s.valueDepth}, false},
       {"out", op.out, {s.batch, s.heads, s.queries, s.valueDepth}, false},
       {"dout", op.dout, {s.batch, s.heads, s.queries, s.valueDepth}, false},
       {"dq", op.dq, {s.batch, s.heads, s.queries, s.depth}, true},
       {"dk", op.dk, {s.batch, s.groups, s.keys, s.depth}, true},
       {"dv", op.dv, {s.batch, s.groups, s.keys, s.valueDepth}, true}}));
  return checkWorkspace(plan, op);
}

} // namespace dpc::rt
