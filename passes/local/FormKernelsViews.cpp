//===- FormKernelsViews.cpp - Data movement that moves nothing ------------===//
//
// Every mover starts as a view. Where a reader cannot take the strides, the
// nearest mover above it that is not a reshape gets a buffer, until all readers
// are content:
//   * a kernel takes any strides;
//   * a matmul operand needs rows or columns that are contiguous;
//   * collectives, accumulations and results need dense memory;
//   * a reshape needs evenly spaced dimensions (ir/StridedView.h).
// A matmul whose result is transposed writes the transposed layout in the first
// place (`dpc.out_perm`), so that the transpose is dense, if its other readers
// take strides.
//
//===----------------------------------------------------------------------===//
#include "ir/StridedView.h"
#include "passes/local/FormKernels.h"

using namespace mlir;

namespace dpc {

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// BLAS wants one contiguous dimension and a stride no smaller than it.
static bool isMatrix(const StridedView &view) {
  size_t rank = view.shape.size();
  int64_t rows = view.shape[rank - 2], cols = view.shape[rank - 1];
  int64_t rowStride = view.strides[rank - 2];
  int64_t colStride = view.strides[rank - 1];
  bool rowMajor =
      (colStride == 1 || cols == 1) && (rows == 1 || rowStride >= cols);
  bool colMajor =
      (rowStride == 1 || rows == 1) && (cols == 1 || colStride >= rows);
  return rowMajor || colMajor;
}

namespace {

class ViewMarker {
public:
  explicit ViewMarker(Block &block) : block(block) {}
  void run();

private:
  void permuteMatmuls();
  /// Views of all values from `begin` on; the first operand that its reader
  /// cannot take. Views of values before `begin` must be known.
  std::optional<Value> findConflict(Block::iterator begin);
  std::optional<StridedView> viewOf(Operation *mover,
                                    const StridedView &from) const;
  bool accepts(OpOperand &operand, const StridedView &view) const;
  StridedView lookup(Value value) const;
  Operation *nearestView(Value value) const;

  Block &block;
  DenseMap<Value, StridedView> views;
  llvm::SmallPtrSet<Operation *, 16> buffered;
};

} // namespace

void ViewMarker::permuteMatmuls() {
  for (auto matmul : block.getOps<MatmulOp>())
    for (Operation *user : matmul.getResult().getUsers()) {
      auto transpose = dyn_cast<TransposeOp>(user);
      if (!transpose)
        continue;
      // The innermost dimension must stay where BLAS writes it.
      ArrayRef<int64_t> perm = transpose.getPerm();
      if (perm.back() == static_cast<int64_t>(perm.size()) - 1)
        matmul->setAttr(attr::kOutPerm, transpose.getPermAttr());
      break;
    }
}

StridedView ViewMarker::lookup(Value value) const {
  auto it = views.find(value);
  return it != views.end() ? it->second : StridedView::dense(shapeOf(value));
}

std::optional<StridedView> ViewMarker::viewOf(Operation *mover,
                                              const StridedView &from) const {
  ArrayRef<int64_t> shape = shapeOf(mover->getResult(0));
  if (auto transpose = dyn_cast<TransposeOp>(mover))
    return from.transpose(transpose.getPerm());
  if (auto slice = dyn_cast<SliceOp>(mover))
    return from.slice(slice.getOffsets(), slice.getStrides(), shape);
  if (auto broadcast = dyn_cast<BroadcastOp>(mover))
    return from.broadcast(broadcast.getDims(), shape);
  return from.reshape(shape);
}

bool ViewMarker::accepts(OpOperand &operand, const StridedView &view) const {
  Operation *op = operand.getOwner();
  if (isa<KernelOp>(op) || kernelRole(op) == KernelRole::mover)
    return true;
  if (isa<MatmulOp>(op))
    return isMatrix(view);
  return view.isDense();
}

/// The mover above `value` that makes it strided.
Operation *ViewMarker::nearestView(Value value) const {
  Operation *op = value.getDefiningOp();
  while (isa<ReshapeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

std::optional<Value> ViewMarker::findConflict(Block::iterator begin) {
  for (Operation &op : llvm::make_range(begin, block.end())) {
    for (Value result : op.getResults())
      views.erase(result);
    if (auto perm = op.getAttrOfType<DenseI64ArrayAttr>(attr::kOutPerm)) {
      SmallVector<int64_t> inverse(perm.size()), shape;
      for (auto [i, d] : llvm::enumerate(perm.asArrayRef())) {
        inverse[d] = i;
        shape.push_back(shapeOf(op.getResult(0))[d]);
      }
      views[op.getResult(0)] = StridedView::dense(shape).transpose(inverse);
    }
    for (OpOperand &operand : op.getOpOperands())
      if (!accepts(operand, lookup(operand.get())))
        return operand.get();
    if (kernelRole(&op) != KernelRole::mover || buffered.contains(&op))
      continue;
    auto view = viewOf(&op, lookup(op.getOperand(0)));
    if (!view)
      return op.getOperand(0);
    views[op.getResult(0)] = *view;
  }
  return std::nullopt;
}

void ViewMarker::run() {
  permuteMatmuls();
  Block::iterator begin = block.begin();
  while (auto value = findConflict(begin)) {
    Operation *op = nearestView(*value);
    // What comes before the op that changes keeps its views.
    begin = op ? op->getIterator() : block.begin();
    if (op && isa<MatmulOp>(op)) {
      op->removeAttr(attr::kOutPerm);
      continue;
    }
    bool isNew = op && buffered.insert(op).second;
    assert(isNew && "only a mover makes a value strided");
    if (!isNew)
      return;
  }
  for (Operation &op : block)
    if (isa<TransposeOp, SliceOp, BroadcastOp>(op) && !buffered.contains(&op))
      op.setAttr(attr::kView, UnitAttr::get(op.getContext()));
}

void markViews(Block &block) { ViewMarker(block).run(); }

} // namespace dpc
