#include "runtime/plan/PlanChecks.h"

namespace dpc::rt {

namespace {

/// The vector or the matrix of an epilogue.
struct Operand {
  const char *name;
  int id;
  bool isRead, isWritten;
  int64_t offset, rows, cols, ld;

  bool isThere() const { return isRead || isWritten; }
  BufferPart part(int64_t width) const {
    return {id, offset * width, ((rows - 1) * ld + cols) * width};
  }
};

Status checkOperand(const Plan &plan, const MatmulOp &op, const Operand &one) {
  std::string name = one.name, epilogue(nameOf(op.epilogue));
  if (!one.isThere())
    return one.id == -1 && one.offset == 0 && one.ld == 0
               ? Status::success()
               : Status::invalid("epilogue ", epilogue, " has no ", name);
  if (one.id < 0 || one.id >= static_cast<int>(plan.buffers.size()))
    return Status::invalid(name, " is ", one.id, ", expected a buffer below ",
                           plan.buffers.size());
  const Buffer &buffer = plan.buffers[one.id], &c = plan.buffers[op.c];
  if (buffer.dtype != c.dtype)
    return Status::invalid(name, " holds ", nameOf(buffer.dtype), ", but c ",
                           nameOf(c.dtype));
  if (one.rows > 1 && one.ld < one.cols)
    return Status::invalid(name, "_ld is ", one.ld, ", expected at least ",
                           one.cols);
  if (one.rows == 0 || one.cols == 0)
    return Status::success();
  using Wide = __int128;
  Wide last = Wide(one.offset) + Wide(one.rows - 1) * one.ld + one.cols - 1;
  if (one.offset < 0 || one.ld < 0 || last >= numElements(buffer.shape))
    return Status::invalid(name, " leaves buffer ", one.id, ", which has ",
                           numElements(buffer.shape), " elements");
  return Status::success();
}

/// Written operands overlap nothing else. (For A and B against C, see
/// productApart.)
Status checkApart(const Plan &plan, const MatmulOp &op, const Operand &one,
                  const Operand &other) {
  int64_t width = sizeOf(plan.buffers[op.c].dtype);
  BufferPart part = one.part(width);
  auto apart = [&](const char *name, const BufferPart &second) {
    return mayOverlap(plan, part, second)
               ? Status::invalid(one.name, " overlaps ", name)
               : Status::success();
  };
  BufferPart c = {op.c, op.cOffset * width,
                  ((op.m - 1) * op.ldc + op.n) * width};
  DPC_TRY(apart("c, which is written", c));
  if (!one.isWritten)
    return Status::success();
  DPC_TRY(apart("a", wholeOf(plan, op.a)));
  DPC_TRY(apart("b", wholeOf(plan, op.b)));
  return other.isThere() ? apart(other.name, other.part(width))
                         : Status::success();
}

} // namespace

Status checkEpilogue(const Plan &plan, const MatmulOp &op) {
  Epilogue e = op.epilogue;
  int64_t length = e == Epilogue::SumsOfA ? op.m : op.n;
  const Operand bias = {"bias",        op.bias, readsBias(e), writesBias(e),
                        op.biasOffset, 1,       length,       0},
                aux = {"aux",        op.aux, readsAux(e), writesAux(e),
                       op.auxOffset, op.m,   op.n,        op.auxLd};
  DPC_TRY(checkOperand(plan, op, bias));
  DPC_TRY(checkOperand(plan, op, aux));
  if (e == Epilogue::None)
    return Status::success();
  std::string name = "epilogue " + std::string(nameOf(e));
  bool isSum = e == Epilogue::SumsOfA || e == Epilogue::SumsOfB;
  if (op.batch != 1 || op.batch2 != 1 || op.alpha != 1 ||
      (op.beta != 0 && !isSum))
    return Status::invalid(name, " needs one matrix, with alpha 1",
                           (isSum ? "" : " and beta 0"));
  if (op.compute == DType::F64)
    return Status::invalid(name, " does not support f64");
  if (e == Epilogue::SumsOfA ? !op.transA : e == Epilogue::SumsOfB && op.transB)
    return Status::invalid(name,
                           " needs a factor whose first stored dimension is k");
  if (op.m == 0 || op.n == 0 || op.k == 0)
    return Status::invalid(name, " needs a GEMM that is not empty");
  for (auto [one, other] : {std::pair(bias, aux), {aux, bias}})
    if (one.isThere())
      DPC_TRY(checkApart(plan, op, one, other));
  return Status::success();
}

} // namespace dpc::rt
