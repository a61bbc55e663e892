#include "runtime/plan/PlanChecks.h"

namespace dpc::rt {

static Status checkFormats(const Fp8Factors &fp8) {
  for (auto [name, format] : {std::pair("fp8.a", fp8.a), {"fp8.b", fp8.b}})
    if (format != DType::F8E4M3FN && format != DType::F8E5M2)
      return Status::invalid(name, " is ", nameOf(format),
                             ", expected f8e4m3fn or f8e5m2");
  if (fp8.a == DType::F8E5M2 && fp8.b == DType::F8E5M2)
    return Status::invalid("fp8.a and fp8.b are f8e5m2, expected f8e4m3fn for "
                           "one of them");
  return Status::success();
}

/// Whether rows of C begin at multiples of 16 bytes. A view may begin at any
/// offset.
static bool isAligned(const Buffer &c, const MatmulOp &op) {
  int64_t size = sizeOf(c.dtype);
  return (c.offset + op.cOffset * size) % 16 == 0 && op.ldc * size % 16 == 0;
}

/// Checks that the workspace is large enough and overlaps no operand of the
/// GEMM.
static Status checkWorkspace(const Plan &plan, const MatmulOp &op) {
  int id = op.fp8->workspace;
  if (id < 0 || id >= static_cast<int>(plan.buffers.size()))
    return wrongField("fp8.workspace", id,
                      "a buffer below " + std::to_string(plan.buffers.size()));
  // A view may begin at any offset; buffers of other kinds outlive the GEMM.
  const Buffer &workspace = plan.buffers[id];
  if (workspace.kind != BufferKind::Workspace || workspace.viewOf != -1)
    return Status::invalid("fp8.workspace is buffer ", id,
                           ", expected a workspace that is not a view");
  int64_t needed = fp8WorkspaceBytes(op.m, op.n, op.k), bytes = workspace.bytes;
  if (bytes < needed)
    return Status::invalid("fp8.workspace is buffer ", id, " of ", bytes,
                           " bytes, expected at least ", needed);
  for (auto [name, other] : {std::pair("a", op.a),
                             {"b", op.b},
                             {"c", op.c},
                             {"bias", op.bias},
                             {"aux", op.aux}})
    if (other >= 0 && mayOverlap(plan, wholeOf(plan, other), wholeOf(plan, id)))
      return Status::invalid(name, " overlaps fp8.workspace");
  return Status::success();
}

Status checkFp8(const Plan &plan, const MatmulOp &op) {
  if (!op.fp8)
    return Status::success();
  DPC_TRY(checkFormats(*op.fp8));
  DType a = plan.buffers[op.a].dtype, b = plan.buffers[op.b].dtype;
  if (op.compute != DType::BF16 || a != DType::BF16 || b != DType::BF16)
    return Status::invalid("fp8 needs bf16 factors, these are ", nameOf(a),
                           " and ", nameOf(b), " in ", nameOf(op.compute));
  if (op.batch != 1 || op.batch2 != 1)
    return Status::invalid("fp8 needs one matrix, batch is ", op.batch,
                           " and batch2 ", op.batch2);
  for (auto [name, size] : {std::pair("m", op.m), {"n", op.n}, {"k", op.k}})
    if (size == 0 || size % kFp8Multiple != 0)
      return wrongField(name, size,
                        "a multiple of " + std::to_string(kFp8Multiple) +
                            " for fp8");
  if (!isAligned(plan.buffers[op.c], op))
    return Status::invalid("fp8 needs rows of c at multiples of 16 bytes");
  return checkWorkspace(plan, op);
}

} // namespace dpc::rt
