//===- PlanMatmul.cpp - Matrix products over strided operands -------------===//
#include "codegen/PlanBuilder.h"

using namespace mlir;

namespace dpc::codegen {

namespace {

/// The last two dimensions of an operand as a BLAS matrix.
struct Matrix {
  int64_t rows, cols;
  int64_t ld;      ///< distance of rows (of columns when transposed)
  bool transposed; ///< columns are contiguous
};

/// A batch dimension and how far each operand moves along it.
struct Batch {
  int64_t size, a, b, c;
};

} // namespace

static std::optional<Matrix> matrixOf(const StridedView &view) {
  size_t rank = view.shape.size();
  int64_t rows = view.shape[rank - 2], cols = view.shape[rank - 1];
  int64_t rowStride = view.strides[rank - 2],
          colStride = view.strides[rank - 1];
  if (colStride == 1 || cols == 1) {
    int64_t ld = rows == 1 ? std::max<int64_t>(cols, 1) : rowStride;
    if (ld >= cols)
      return Matrix{rows, cols, ld, false};
  }
  if (rowStride == 1 || rows == 1) {
    int64_t ld = cols == 1 ? std::max<int64_t>(rows, 1) : colStride;
    if (ld >= rows)
      return Matrix{rows, cols, ld, true};
  }
  return std::nullopt;
}

/// Batch dimensions, outermost first, neighbours merged where all operands
/// advance evenly.
static SmallVector<Batch> batchesOf(const StridedView &a, const StridedView &b,
                                    const StridedView &c) {
  SmallVector<Batch> batches;
  bool shared = b.shape.size() == 2 && a.shape.size() > 2;
  for (size_t d = 0; d + 2 < c.shape.size(); ++d) {
    Batch batch{c.shape[d], a.strides[d], shared ? 0 : b.strides[d],
                c.strides[d]};
    if (batch.size == 1)
      continue;
    if (!batches.empty()) {
      Batch &outer = batches.back();
      if (outer.a == batch.size * batch.a && outer.b == batch.size * batch.b &&
          outer.c == batch.size * batch.c) {
        outer = {outer.size * batch.size, batch.a, batch.b, batch.c};
        continue;
      }
    }
    batches.push_back(batch);
  }
  return batches;
}

/// Rows of all matrices of the innermost batch as one matrix, where a plain b
/// is applied to all of them.
static void foldIntoRows(SmallVector<Batch> &batches, rt::MatmulOp &op) {
  while (!batches.empty() && !op.transA) {
    Batch &inner = batches.back();
    bool evenA = op.m == 1 || inner.a == op.m * op.lda;
    bool evenC = op.m == 1 || inner.c == op.m * op.ldc;
    if (inner.b != 0 || !evenA || !evenC || inner.a < op.k || inner.c < op.n)
      return;
    if (op.m == 1) {
      op.lda = inner.a;
      op.ldc = inner.c;
    }
    op.m *= inner.size;
    batches.pop_back();
  }
}

/// One instruction per point of all but the two innermost batch dimensions.
static void emitBatched(rt::MatmulOp op, ArrayRef<Batch> batches,
                        SmallVector<rt::MatmulOp> &out) {
  if (batches.size() > 2) {
    for (int64_t i = 0; i < batches.front().size; ++i) {
      emitBatched(op, batches.drop_front(), out);
      op.aOffset += batches.front().a;
      op.bOffset += batches.front().b;
      op.cOffset += batches.front().c;
    }
    return;
  }
  if (!batches.empty()) {
    const Batch &inner = batches.back();
    op.batch2 = inner.size;
    op.stride2A = inner.a;
    op.stride2B = inner.b;
    op.stride2C = inner.c;
  }
  if (batches.size() == 2) {
    const Batch &outer = batches.front();
    op.batch = outer.size;
    op.strideA = outer.a;
    op.strideB = outer.b;
    op.strideC = outer.c;
  }
  out.push_back(op);
}

/// A new slot whose memory holds `value` transposed by `order`; the value is a
/// view of it.
Slot PlanBuilder::permutedSlot(Value value, ArrayRef<int64_t> order) {
  Slot slot = newSlot(value);
  SmallVector<int64_t> shape, inverse(order.size());
  for (auto [i, d] : llvm::enumerate(order)) {
    shape.push_back(slot.view.shape[d]);
    inverse[d] = i;
  }
  slot.view = StridedView::dense(shape).transpose(inverse);
  return slots[value] = slot;
}

/// The calls that compute `op` into a value that lies as `c` says; without the
/// buffer of C.
LogicalResult PlanBuilder::callsOf(MatmulOp op, const StridedView &c,
                                   SmallVector<rt::MatmulOp> &calls) {
  Type type = op.getA().getType().getElementType();
  std::optional<rt::DType> compute = dtypeOf(type);
  if (!compute || !rt::isFloat(*compute))
    return op.emitOpError() << "of " << type << " cannot be executed; f32, "
                            << "f64, bf16 and f16 can";
  Slot a = slots[op.getA()], b = slots[op.getB()];
  auto ma = matrixOf(a.view), mb = matrixOf(b.view), mc = matrixOf(c);
  if (!ma || !mb || !mc || mc->transposed)
    return op.emitOpError("has an operand whose rows and columns are both "
                          "strided; it must not be marked dpc.view");
  rt::MatmulOp call;
  call.a = a.buffer;
  call.b = b.buffer;
  call.aOffset = a.view.offset;
  call.bOffset = b.view.offset;
  call.m = mc->rows;
  call.n = mc->cols;
  call.k = op.getTa() ? ma->rows : ma->cols;
  call.transA = op.getTa() != ma->transposed;
  call.transB = op.getTb() != mb->transposed;
  call.lda = ma->ld;
  call.ldb = mb->ld;
  call.ldc = mc->ld;
  call.compute = *compute;
  SmallVector<Batch> batches = batchesOf(a.view, b.view, c);
  foldIntoRows(batches, call);
  emitBatched(call, batches, calls);
  return success();
}

LogicalResult PlanBuilder::lowerMatmul(MatmulOp op) {
  auto it = epilogues.find(op);
  if (it != epilogues.end()) {
    FailureOr<bool> isDone = lowerEnding(op, it->second);
    if (failed(isDone) || *isDone)
      return isDone;
  }
  auto perm = op->getAttrOfType<DenseI64ArrayAttr>(attr::kOutPerm);
  Slot c = perm ? permutedSlot(op.getResult(), perm.asArrayRef())
                : newSlot(op.getResult());
  SmallVector<rt::MatmulOp> calls;
  if (failed(callsOf(op, c.view, calls)))
    return failure();
  double flops = cast<CostOpInterface>(op.getOperation()).getFlops();
  for (rt::MatmulOp &part : calls) {
    part.c = c.buffer;
    if (calls.size() == 1)
      codeFactors(op, part);
    emit(phaseOf(op), part, nameOfOp(op)).flops = flops / calls.size();
  }
  return it == epilogues.end() ? success() : giveBack(op);
}

} // namespace dpc::codegen
