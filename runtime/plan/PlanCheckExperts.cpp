#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/PlanExperts.h"

namespace dpc::rt {

namespace {

struct Operand {
  const char *name;
  int id;
  std::vector<int64_t> shape;
};

Status checkType(const Plan &plan, const Operand &one, DType expected,
                 DType compute) {
  DType type = plan.buffers[one.id].dtype;
  if (type == expected)
    return Status::success();
  return Status::invalid("compute is ", nameOf(compute), ", but ", one.name,
                         " holds ", nameOf(type));
}

Status checkCount(const Plan &plan, const Operand &one) {
  int64_t count = checkedElements(one.shape),
          held = checkedElements(plan.buffers[one.id].shape);
  if (count >= 0 && count == held)
    return Status::success();
  return wrongField(concat("number of elements of ", one.name), count, held,
                    ", as in its buffer");
}

/// Checks that rows can be shared and counted.
Status checkSizes(const ExpertMatmulOp &op) {
  const std::pair<const char *, int64_t> sizes[] = {
      {"rows", op.rows}, {"experts", op.experts}, {"k", op.k}, {"n", op.n}};
  for (auto [name, size] : sizes)
    if (size < 0 || size > INT32_MAX)
      return wrongField(name, size, "0 to ", INT32_MAX);
  const std::pair<const char *, int64_t> shares[] = {{"shares_x", op.sharesX},
                                                     {"shares_y", op.sharesY}};
  for (auto [name, share] : shares)
    if (share < 1 || op.rows % share != 0)
      return wrongField(name, share, "a divisor of the ", op.rows, " rows");
  bool isForward = op.kind == ExpertMatmulKind::Forward;
  if (isForward && op.sharesY != 1)
    return wrongField("shares_y", op.sharesY, "1 in a forward product");
  if (!isForward && op.transW)
    return Status::invalid("trans_w is true, expected false in a gradient");
  if (isForward && op.accumulates)
    return Status::invalid(
        "accumulates is true, expected false in a forward product");
  return Status::success();
}

Status checkWorkspace(const Plan &plan, const ExpertMatmulOp &op) {
  DPC_TRY(checkExpertWorkspace(plan, op.workspace, op.rows, op.experts));
  if (op.workspace == -1)
    return Status::success();
  for (auto [name, other] :
       {std::pair("x", op.x), {"ids", op.ids}, {"w", op.w}, {"y", op.y}})
    if (mayOverlap(plan, wholeOf(plan, other), wholeOf(plan, op.workspace)))
      return Status::invalid(name, " overlaps workspace");
  return Status::success();
}

} // namespace

Status checkExpertWorkspace(const Plan &plan, int id, int64_t rows,
                            int64_t experts) {
  if (id == -1 && !plan.targetGpu.empty())
    return Status::invalid("workspace is -1, expected a buffer in a plan for "
                           "GPUs");
  if (id == -1)
    return Status::success();
  DPC_TRY(checkBufferId(plan, "workspace", id));
  const Buffer &workspace = plan.buffers[id];
  if (workspace.kind != BufferKind::Workspace || workspace.viewOf != -1)
    return Status::invalid("workspace is buffer ", id,
                           ", expected a workspace that is not a view");
  int64_t needed = expertWorkspaceBytes(rows, experts);
  if (workspace.bytes < needed)
    return Status::invalid("workspace is buffer ", id, " of ", workspace.bytes,
                           " bytes, expected at least ", needed);
  return Status::success();
}

Status checkExpertMatmul(const Plan &plan, const ExpertMatmulOp &op) {
  bool isHalf = op.compute == DType::BF16 || op.compute == DType::F16;
  if (op.compute != DType::F32 && op.compute != DType::F64 && !isHalf)
    return Status::invalid("compute is ", nameOf(op.compute),
                           ", expected f32, f64, bf16 or f16");
  DPC_TRY(checkSizes(op));
  const Operand x = {"x", op.x, {op.rows / op.sharesX, op.k}},
                ids = {"ids", op.ids, {op.rows}},
                w = {"w", op.w, {op.experts, op.k, op.n}},
                y = {"y", op.y, {op.rows / op.sharesY, op.n}};
  for (const Operand *one : {&x, &ids, &w, &y})
    DPC_TRY(checkBufferId(plan, one->name, one->id));
  bool isForward = op.kind == ExpertMatmulKind::Forward;
  const Operand &written = isForward ? y : w, &factor = isForward ? w : y;
  DPC_TRY(checkType(plan, x, op.compute, op.compute));
  DPC_TRY(checkType(plan, factor, op.compute, op.compute));
  if (!isHalf || plan.buffers[written.id].dtype != DType::F32)
    DPC_TRY(checkType(plan, written, op.compute, op.compute));
  if (DType type = plan.buffers[written.id].dtype;
      op.accumulates && type != DType::F32 && type != DType::F64)
    return Status::invalid("accumulates is true, but w holds ", nameOf(type),
                           ", expected f32 or f64");
  if (DType type = plan.buffers[op.ids].dtype;
      type != DType::I64 && type != DType::I32)
    return Status::invalid("ids holds ", nameOf(type), ", expected i64 or i32");
  for (const Operand *one : {&x, &ids, &w, &y})
    DPC_TRY(checkCount(plan, *one));
  for (const Operand *one : {&x, &ids, &factor})
    if (mayOverlap(plan, wholeOf(plan, one->id), wholeOf(plan, written.id)))
      return Status::invalid(one->name, " overlaps ", written.name,
                             ", which is written");
  return checkWorkspace(plan, op);
}

} // namespace dpc::rt
