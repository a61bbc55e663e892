//===- FormKernelsViews.cpp - Movers without buffers ----------------------===//
//
// Decides which movers (transpose, slice, broadcast) are views and which copy
// into a buffer. At first, every mover is a view. If a reader does not accept
// the strides of an operand, the nearest mover above the operand, other than a
// reshape, gets a buffer. This repeats until all readers accept their operands:
//   * A kernel accepts all strides.
//   * A matmul needs contiguous rows or columns.
//   * Attention needs a contiguous last dimension. If this dimension has a
//     multiple of 16 bytes, so must all strides. The operands out and dout of
//     the gradient must have the same layout for cuDNN.
//   * Collectives, accumulations and results need dense memory.
//   * A reshape needs evenly spaced dimensions (ir/StridedView.h).
//
// If the result of a matmul or attention is transposed, and its other readers
// accept strides, the op writes the transposed layout itself (`dpc.out_perm`,
// `dpc.out_perms`), and the transpose is a dense view.
//
//===----------------------------------------------------------------------===//
#include "ir/Attributes.h"
#include "ir/TensorUtils.h"
#include "passes/local/FormKernels.h"
#include "passes/local/Partition.h"

using namespace mlir;

namespace dpc {

/// True if BLAS accepts the layout: one dimension is contiguous, and the stride
/// of the other is at least the size of the contiguous one.
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

/// True if the last dimension is contiguous and, if its size is a multiple of
/// 8, the offset and all strides are multiples of 8.
static bool isAttentionOperand(const StridedView &view) {
  int64_t depth = view.shape.back();
  if (depth != 1 && view.strides.back() != 1)
    return false;
  int64_t unit = depth % 8 == 0 ? 8 : 1;
  if (view.offset % unit != 0)
    return false;
  for (size_t d = 0; d + 1 < view.shape.size(); ++d)
    if (view.shape[d] != 1 &&
        (view.strides[d] < depth || view.strides[d] % unit != 0))
      return false;
  return true;
}

static bool haveSameStrides(const StridedView &a, const StridedView &b) {
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d])
      return false;
  return true;
}

/// Returns the stored order of the dimensions; empty for the default order.
static ArrayRef<int64_t> writtenOrder(OpResult result) {
  Operation *op = result.getOwner();
  if (auto perm = op->getAttrOfType<DenseI64ArrayAttr>(attr::kOutPerm))
    return perm.asArrayRef();
  if (auto perms = op->getAttrOfType<ArrayAttr>(attr::kOutPerms))
    return cast<DenseI64ArrayAttr>(perms[result.getResultNumber()])
        .asArrayRef();
  return {};
}

static StridedView writtenView(OpResult result) {
  ArrayRef<int64_t> order = writtenOrder(result);
  if (order.empty())
    return StridedView::dense(shapeOf(result));
  SmallVector<int64_t> inverse(order.size()), shape;
  for (auto [i, d] : llvm::enumerate(order)) {
    inverse[d] = i;
    shape.push_back(shapeOf(result)[d]);
  }
  return StridedView::dense(shape).transpose(inverse);
}

static std::optional<StridedView> viewOf(Operation *mover,
                                         const StridedView &from) {
  ArrayRef<int64_t> shape = shapeOf(mover->getResult(0));
  if (auto transpose = dyn_cast<TransposeOp>(mover))
    return from.transpose(transpose.getPerm());
  if (auto slice = dyn_cast<SliceOp>(mover))
    return from.slice(slice.getOffsets(), slice.getStrides(), shape);
  if (auto broadcast = dyn_cast<BroadcastOp>(mover))
    return from.broadcast(broadcast.getDims(), shape);
  return from.reshape(shape);
}

StridedView layoutOf(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return StridedView::dense(shapeOf(value));
  Operation *op = result.getOwner();
  bool isMover = isa<TransposeOp, SliceOp, BroadcastOp>(op);
  if (isa<ReshapeOp>(op) || (isMover && op->hasAttr(attr::kView)))
    if (auto view = viewOf(op, layoutOf(op->getOperand(0))))
      return *view;
  return writtenView(result);
}

static void dropOrder(OpResult result) {
  Operation *op = result.getOwner();
  op->removeAttr(attr::kOutPerm);
  if (auto perms = op->getAttrOfType<ArrayAttr>(attr::kOutPerms)) {
    SmallVector<Attribute> kept(perms.begin(), perms.end());
    kept[result.getResultNumber()] =
        DenseI64ArrayAttr::get(op->getContext(), ArrayRef<int64_t>());
    op->setAttr(attr::kOutPerms, ArrayAttr::get(op->getContext(), kept));
  }
}

/// Returns the value that determines the strides of `value`: the result of a
/// mover, or of an op that writes a transposed layout.
static OpResult stridedSource(Value value) {
  return dyn_cast<OpResult>(withoutReshapes(value));
}

/// Returns the order of dimensions in which `value` must be stored so that the
/// result of the first transpose that reads `value` is dense. Returns null if
/// there is no transpose or if it moves the innermost dimension.
static DenseI64ArrayAttr orderOfReaders(Value value) {
  for (Operation *user : value.getUsers())
    if (auto transpose = dyn_cast<TransposeOp>(user)) {
      ArrayRef<int64_t> perm = transpose.getPerm();
      return perm.back() == static_cast<int64_t>(perm.size()) - 1
                 ? transpose.getPermAttr()
                 : DenseI64ArrayAttr();
    }
  return nullptr;
}

namespace {

class ViewMarker {
public:
  explicit ViewMarker(Block &block) : block(block) {}
  void run() {
    permuteResults();
    Block::iterator begin = block.begin();
    while (auto value = findConflict(begin)) {
      OpResult source = stridedSource(*value);
      Operation *op = source ? source.getOwner() : nullptr;
      // Only the views from `op` on change.
      begin = op ? op->getIterator() : block.begin();
      if (source && !writtenOrder(source).empty()) {
        dropOrder(source);
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

private:
  void permuteResults() {
    for (Operation &op : block) {
      if (isa<MatmulOp>(op)) {
        if (DenseI64ArrayAttr order = orderOfReaders(op.getResult(0)))
          op.setAttr(attr::kOutPerm, order);
      } else if (op.hasAttr(attr::kFused)) {
        SmallVector<Attribute> orders;
        for (Value result : op.getResults()) {
          DenseI64ArrayAttr order;
          if (shapeOf(result).size() == 4)
            order = orderOfReaders(result);
          orders.push_back(order ? order
                                 : DenseI64ArrayAttr::get(op.getContext(),
                                                          ArrayRef<int64_t>()));
        }
        op.setAttr(attr::kOutPerms, ArrayAttr::get(op.getContext(), orders));
      }
    }
  }

  /// Computes the views from `begin` on and returns the first operand that its
  /// reader does not accept. Views before `begin` must be valid.
  std::optional<Value> findConflict(Block::iterator begin) {
    for (Operation &op : llvm::make_range(begin, block.end())) {
      for (Value result : op.getResults())
        views.erase(result);
      for (OpResult result : op.getResults()) {
        if (!writtenOrder(result).empty())
          views[result] = writtenView(result);
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

  bool accepts(OpOperand &operand, const StridedView &view) const {
    Operation *op = operand.getOwner();
    if (isa<KernelOp>(op) || kernelRole(op) == KernelRole::mover)
      return true;
    if (isa<MatmulOp>(op))
      return isMatrix(view);
    if (op->hasAttr(attr::kFused) && view.shape.size() == 4) {
      auto grad = dyn_cast<AttentionGradOp>(op);
      return isAttentionOperand(view) && (!grad || isAccepted(grad, operand));
    }
    return view.isDense();
  }

  StridedView lookup(Value value) const {
    auto it = views.find(value);
    return it != views.end() ? it->second : StridedView::dense(shapeOf(value));
  }

  /// cuDNN needs equal layouts of out and dout. If they differ, dout is made
  /// dense if possible, otherwise out.
  bool isAccepted(AttentionGradOp grad, OpOperand &operand) const {
    bool isOut = operand.get() == grad.getOut(),
         isDout = operand.get() == grad.getDout();
    if ((!isOut && !isDout) ||
        haveSameStrides(lookup(grad.getOut()), lookup(grad.getDout())))
      return true;
    return isDout ? !canBeDense(grad.getDout()) : canBeDense(grad.getDout());
  }

  bool canBeDense(Value value) const {
    OpResult source = stridedSource(value);
    if (!source)
      return false;
    Operation *op = source.getOwner();
    return !writtenOrder(source).empty() ||
           (kernelRole(op) == KernelRole::mover && !buffered.contains(op));
  }

  Block &block;
  DenseMap<Value, StridedView> views;
  llvm::SmallPtrSet<Operation *, 16> buffered;
};

} // namespace

void markViews(Block &block) { ViewMarker(block).run(); }

} // namespace dpc
