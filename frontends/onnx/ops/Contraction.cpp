//===- Contraction.cpp - MatMul, Gemm, Einsum -----------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

void matmul(NodeContext &c) {
  if (Val a = c.in(0), b = c.in(1); a && b)
    c.out(stackedMatmul(c.emit, a, b));
}

void gemm(NodeContext &c) {
  Emitter &e = c.emit;
  Val a = c.in(0), b = c.in(1);
  double alpha = c.floatAttr("alpha", 1.0), beta = c.floatAttr("beta", 1.0);
  if (!a || !b)
    return;
  if (a.rank() != 2 || b.rank() != 2) {
    c.fail("operands must be matrices, not " + describe(a.type()) + " and " +
           describe(b.type()));
    return;
  }
  Val result =
      e.matmul(a, b, c.intAttr("transA", 0) != 0, c.intAttr("transB", 0) != 0);
  if (alpha != 1.0)
    result = e.binary(BinaryKind::mul, result, alpha);
  if (c.has(2) && beta != 0.0) {
    Val bias = c.in(2);
    if (beta != 1.0)
      bias = e.binary(BinaryKind::mul, bias, beta);
    result = e.binary(BinaryKind::add, result, bias);
  }
  c.out(result);
}

void einsum(NodeContext &c) {
  llvm::SmallVector<Val> operands;
  for (int64_t i = 0; i < c.numInputs(); ++i)
    operands.push_back(c.in(i));
  if (!c.emit.failed())
    c.out(einsum(c.emit, c.stringAttr("equation", ""), operands));
}

} // namespace

void addContractionOps(OpTable &table) {
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
  table["Einsum"] = einsum;
}

} // namespace dpc::frontend
