//===- Contraction.cpp - MatMul, Gemm, Einsum -----------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

Val matmul(Emitter &e, Val a, Val b) { return stackedMatmul(e, a, b); }

Val gemm(NodeContext &c, Val a, Val b) {
  Emitter &e = c.emit;
  double alpha = c.floatAttr("alpha", 1.0), beta = c.floatAttr("beta", 1.0);
  if (a.rank() != 2 || b.rank() != 2)
    return c.fail("operands must be matrices, not {0} and {1}", a, b);
  Val result =
      e.matmul(a, b, c.intAttr("transA", 0) != 0, c.intAttr("transB", 0) != 0);
  if (alpha != 1.0)
    result = e.mul(result, alpha);
  if (c.has(2) && beta != 0.0) {
    Val bias = c.in(2);
    if (beta != 1.0)
      bias = e.mul(bias, beta);
    result = e.add(result, bias);
  }
  return result;
}

Val einsumOf(NodeContext &c) {
  llvm::SmallVector<Val> operands = c.allIn();
  return c.emit.failed()
             ? Val()
             : einsum(c.emit, c.stringAttr("equation", ""), operands);
}

} // namespace

void addContractionOps(OpTable &table) {
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
  table["Einsum"] = einsumOf;
}

} // namespace dpc::frontend
