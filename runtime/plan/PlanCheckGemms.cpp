//===- PlanCheckGemms.cpp - the fields of GEMMs ---------------------------===//
#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dpc::rt {

namespace {

using Wide = __int128;

/// A, B or C, with the strides of both batch levels.
struct Matrix {
  const char *name;
  int id;
  int64_t offset, rows, cols, ld, stride, stride2;
};

std::array<Matrix, 3> matricesOf(const MatmulOp &op) {
  auto [aRows, aCols] = std::pair(op.m, op.k);
  auto [bRows, bCols] = std::pair(op.k, op.n);
  if (op.transA)
    std::swap(aRows, aCols);
  if (op.transB)
    std::swap(bRows, bCols);
  return {
      {{"a", op.a, op.aOffset, aRows, aCols, op.lda, op.strideA, op.stride2A},
       {"b", op.b, op.bOffset, bRows, bCols, op.ldb, op.strideB, op.stride2B},
       {"c", op.c, op.cOffset, op.m, op.n, op.ldc, op.strideC, op.stride2C}}};
}

Status checkTypes(const Plan &plan, const MatmulOp &op) {
  DType a = plan.buffers[op.a].dtype, b = plan.buffers[op.b].dtype,
        c = plan.buffers[op.c].dtype;
  auto isNarrow = [&](DType t) { return t == DType::F32 || t == op.compute; };
  bool fits = false;
  if (op.compute == DType::F32 || op.compute == DType::F64)
    fits = a == op.compute && b == a && c == a;
  else if (op.compute == DType::BF16 || op.compute == DType::F16)
    fits = isNarrow(a) && isNarrow(b) && isNarrow(c);
  if (fits)
    return Status::success();
  return Status::invalid("compute is ", nameOf(op.compute),
                         ", which does not support ", nameOf(a), " times ",
                         nameOf(b), " into ", nameOf(c));
}

/// Checks that the last element is in the buffer.
Status checkMatrix(const Plan &plan, const MatmulOp &op, const Matrix &one) {
  if (one.ld < std::max<int64_t>(one.cols, 1))
    return wrongField(concat("ld", one.name), one.ld, "at least ", one.cols);
  if (one.offset < 0 || one.stride < 0 || one.stride2 < 0)
    return Status::invalid("an offset or stride of ", one.name, " is negative");
  if (one.rows == 0 || one.cols == 0 || op.batch == 0 || op.batch2 == 0)
    return Status::success();
  Wide last = Wide(one.offset) + Wide(op.batch - 1) * one.stride +
              Wide(op.batch2 - 1) * one.stride2 + Wide(one.rows - 1) * one.ld +
              one.cols - 1;
  int64_t elements = numElements(plan.buffers[one.id].shape);
  if (last < elements)
    return Status::success();
  return Status::invalid(
      one.name, " reaches element ",
      (last > INT64_MAX ? "2^63" : std::to_string(int64_t(last))),
      " of buffer ", one.id, ", which has ", elements);
}

/// C must not overlap A or B, because they are read while C is written.
Status checkApart(const Plan &plan, const MatmulOp &op,
                  const std::array<Matrix, 3> &matrices) {
  if (op.m == 0 || op.n == 0 || op.batch == 0 || op.batch2 == 0)
    return Status::success();
  auto partOf = [&](const Matrix &one) {
    if (one.rows == 0 || one.cols == 0)
      return BufferPart{one.id, 0, 0};
    int64_t count = (op.batch - 1) * one.stride +
                    (op.batch2 - 1) * one.stride2 + (one.rows - 1) * one.ld +
                    one.cols;
    int64_t size = sizeOf(plan.buffers[one.id].dtype);
    return BufferPart{one.id, one.offset * size, count * size};
  };
  for (int i : {0, 1})
    if (mayOverlap(plan, partOf(matrices[i]), partOf(matrices[2])))
      return Status::invalid(matrices[i].name, " overlaps c, which is written");
  return Status::success();
}

/// The bias or the aux of an epilogue.
struct Extra {
  const char *name;
  int id;
  bool isRead, isWritten;
  int64_t offset, rows, cols, ld;

  bool isThere() const { return isRead || isWritten; }
  BufferPart part(int64_t width) const {
    return {id, offset * width, ((rows - 1) * ld + cols) * width};
  }
};

Status checkExtra(const Plan &plan, const MatmulOp &op, const Extra &one) {
  std::string name = one.name, epilogue(nameOf(op.epilogue));
  if (!one.isThere())
    return one.id == -1 && one.offset == 0 && one.ld == 0
               ? Status::success()
               : Status::invalid("epilogue ", epilogue, " has no ", name);
  DPC_TRY(checkBufferId(plan, name, one.id));
  const Buffer &buffer = plan.buffers[one.id], &c = plan.buffers[op.c];
  if (buffer.dtype != c.dtype)
    return Status::invalid(name, " holds ", nameOf(buffer.dtype),
                           ", but c holds ", nameOf(c.dtype));
  if (one.rows > 1 && one.ld < one.cols)
    return Status::invalid(name, "_ld is ", one.ld, ", expected at least ",
                           one.cols);
  if (one.rows == 0 || one.cols == 0)
    return Status::success();
  Wide last = Wide(one.offset) + Wide(one.rows - 1) * one.ld + one.cols - 1;
  if (one.offset < 0 || one.ld < 0 || last >= numElements(buffer.shape))
    return Status::invalid(name, " leaves buffer ", one.id, ", which has ",
                           numElements(buffer.shape), " elements");
  return Status::success();
}

/// A bias or aux must not overlap C. If the epilogue writes it, it must not
/// overlap any other operand.
Status checkExtraApart(const Plan &plan, const MatmulOp &op, const Extra &one,
                       const Extra &other) {
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

Status checkEpilogue(const Plan &plan, const MatmulOp &op) {
  Epilogue e = op.epilogue;
  int64_t length = e == Epilogue::SumsOfA ? op.m : op.n;
  const Extra bias = {"bias",        op.bias, readsBias(e), writesBias(e),
                      op.biasOffset, 1,       length,       0},
              aux = {"aux",        op.aux, readsAux(e), writesAux(e),
                     op.auxOffset, op.m,   op.n,        op.auxLd};
  DPC_TRY(checkExtra(plan, op, bias));
  DPC_TRY(checkExtra(plan, op, aux));
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
    return Status::invalid(name, " needs ",
                           (e == Epilogue::SumsOfA ? "trans_a" : "no trans_b"));
  if (op.m == 0 || op.n == 0 || op.k == 0)
    return Status::invalid(name, " needs a GEMM that is not empty");
  for (auto [one, other] : {std::pair(bias, aux), {aux, bias}})
    if (one.isThere())
      DPC_TRY(checkExtraApart(plan, op, one, other));
  return Status::success();
}

Status checkFormats(const Fp8Factors &fp8) {
  for (auto [name, format] : {std::pair("fp8.a", fp8.a), {"fp8.b", fp8.b}})
    if (format != DType::F8E4M3FN && format != DType::F8E5M2)
      return Status::invalid(name, " is ", nameOf(format),
                             ", expected f8e4m3fn or f8e5m2");
  if (fp8.a == DType::F8E5M2 && fp8.b == DType::F8E5M2)
    return Status::invalid("fp8.a and fp8.b are f8e5m2, expected f8e4m3fn for "
                           "one of them");
  return Status::success();
}

/// Returns whether the rows of C begin at multiples of 16 bytes, which is not
/// certain if C is a view.
bool isAligned(const Buffer &c, const MatmulOp &op) {
  int64_t size = sizeOf(c.dtype);
  return (c.offset + op.cOffset * size) % 16 == 0 && op.ldc * size % 16 == 0;
}

Status checkFp8Workspace(const Plan &plan, const MatmulOp &op) {
  int id = op.fp8->workspace;
  DPC_TRY(checkBufferId(plan, "fp8.workspace", id));
  // A view may be unaligned, and buffers of other kinds contain values that the
  // GEMM would overwrite.
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
    return Status::invalid("fp8 needs a, b and compute bf16, but a and b are ",
                           nameOf(a), " and ", nameOf(b), ", and compute is ",
                           nameOf(op.compute));
  if (op.batch != 1 || op.batch2 != 1)
    return Status::invalid("fp8 needs one matrix, batch is ", op.batch,
                           " and batch2 ", op.batch2);
  for (auto [name, size] : {std::pair("m", op.m), {"n", op.n}, {"k", op.k}})
    if (size == 0 || size % kFp8Multiple != 0)
      return wrongField(name, size, "a multiple of ", kFp8Multiple, " for fp8");
  if (!isAligned(plan.buffers[op.c], op))
    return Status::invalid("fp8 needs rows of c at multiples of 16 bytes");
  return checkFp8Workspace(plan, op);
}

} // namespace

Status checkMatmul(const Plan &plan, const MatmulOp &op) {
  std::array<Matrix, 3> matrices = matricesOf(op);
  for (const Matrix &one : matrices)
    DPC_TRY(checkBufferId(plan, one.name, one.id));
  DPC_TRY(checkTypes(plan, op));
  for (auto [name, value] : {std::pair("m", op.m),
                             {"n", op.n},
                             {"k", op.k},
                             {"batch", op.batch},
                             {"batch2", op.batch2}})
    if (value < 0)
      return wrongField(name, value, "at least 0");
  if (!std::isfinite(op.alpha) || !std::isfinite(op.beta))
    return Status::invalid("alpha or beta is not finite");
  for (const Matrix &one : matrices)
    DPC_TRY(checkMatrix(plan, op, one));
  DPC_TRY(checkApart(plan, op, matrices));
  DPC_TRY(checkEpilogue(plan, op));
  return checkFp8(plan, op);
}

} // namespace dpc::rt
