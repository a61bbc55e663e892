#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dpc::rt {

namespace {

using Wide = __int128;

struct Extents {
  std::array<int64_t, 4> q, k, v, out;

  explicit Extents(const AttentionShape &s)
      : q{s.batch, s.heads, s.queries, s.depth},
        k{s.batch, s.groups, s.keys, s.depth},
        v{s.batch, s.groups, s.keys, s.valueDepth},
        out{s.batch, s.heads, s.queries, s.valueDepth} {}
};

struct Operand {
  const char *name;
  const AttentionTensor &tensor;
  std::array<int64_t, 4> extents;
  bool isWritten;

  /// Returns 1 + the distance in elements from the first to the last element.
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
  DPC_TRY(checkBufferId(plan, name, id));
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
      return wrongField(name, extent, "1 to ", INT32_MAX);
  if (shape.heads % shape.groups != 0)
    return wrongField("heads", shape.heads, "a multiple of the ", shape.groups,
                      " groups");
  if (shape.window && *shape.window < 1)
    return wrongField("window", *shape.window, "at least 1");
  if (!std::isfinite(shape.scale))
    return Status::invalid("scale is not finite");
  return Status::success();
}

/// The stride of a dimension of extent 1 may be any number.
Status checkOperand(const Plan &plan, DType type, const Operand &one) {
  std::string name = one.name;
  DPC_TRY(checkBuffer(plan, name, one.tensor.buffer, type,
                      std::string(nameOf(type)) + ", as compute says"));
  if (one.tensor.strides.size() != 3)
    return wrongField(concat("number of strides of ", name),
                      static_cast<int64_t>(one.tensor.strides.size()), "3");
  Wide last = Wide(one.tensor.offset) + one.extents[3] - 1;
  for (int d = 0; d < 3; ++d) {
    if (one.tensor.strides[d] < 0)
      return wrongField(concat("a stride of ", name), one.tensor.strides[d],
                        "at least 0");
    last += Wide(one.extents[d] - 1) * one.tensor.strides[d];
  }
  int64_t elements = numElements(plan.buffers[one.tensor.buffer].shape);
  if (one.tensor.offset < 0 || last >= elements)
    return Status::invalid(name, " leaves buffer ", one.tensor.buffer,
                           ", which has ", elements, " elements");
  return Status::success();
}

/// Checks that all elements have different addresses: in ascending order, each
/// stride must exceed the span of the dimensions with smaller strides.
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
      return wrongField(concat("a stride of ", one.name), stride, "at least ",
                        least, ", because the operand is written");
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
                      rows);
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
  DPC_TRY(checkShape(op.shape));
  Extents e(op.shape);
  return checkAll(plan, op.shape, op.lse, true,
                  {{"q", op.q, e.q, false},
                   {"k", op.k, e.k, false},
                   {"v", op.v, e.v, false},
                   {"out", op.out, e.out, true}});
}

static Status checkWorkspace(const Plan &plan, const AttentionGradOp &op) {
  if (op.workspace == -1)
    return Status::success();
  DPC_TRY(checkBufferId(plan, "workspace", op.workspace));
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
  DPC_TRY(checkShape(op.shape));
  Extents e(op.shape);
  DPC_TRY(checkAll(plan, op.shape, op.lse, false,
                   {{"q", op.q, e.q, false},
                    {"k", op.k, e.k, false},
                    {"v", op.v, e.v, false},
                    {"out", op.out, e.out, false},
                    {"dout", op.dout, e.out, false},
                    {"dq", op.dq, e.q, true},
                    {"dk", op.dk, e.k, true},
                    {"dv", op.dv, e.v, true}}));
  return checkWorkspace(plan, op);
}

} // namespace dpc::rt
