//===- SimplifyMovement.cpp - Data movement rewrites of dpc-simplify ------===//
#include "ir/TensorUtils.h"
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// The largest number of elements of a constant slice that is computed at
/// compile time.
static constexpr int64_t kMaxSlicedElements = 1 << 22;

static LogicalResult sliceOfSlice(SliceOp op, SliceOp inner,
                                  PatternRewriter &rewriter) {
  SmallVector<int64_t> offsets, strides;
  for (auto [outerOffset, outerStride, offset, stride] :
       llvm::zip(op.getOffsets(), op.getStrides(), inner.getOffsets(),
                 inner.getStrides())) {
    offsets.push_back(offset + outerOffset * stride);
    strides.push_back(outerStride * stride);
  }
  rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getX(), offsets,
                                       strides);
  return success();
}

static LogicalResult sliceOfConcat(SliceOp op, ConcatOp concat,
                                   PatternRewriter &rewriter) {
  int64_t dim = concat.getDim(), start = 0;
  for (Value part : concat.getParts()) {
    bool matches = part.getType() == op.getType();
    for (auto [d, offset, stride] :
         llvm::enumerate(op.getOffsets(), op.getStrides()))
      matches &=
          stride == 1 && offset == (static_cast<int64_t>(d) == dim ? start : 0);
    if (matches) {
      rewriter.replaceOp(op, part);
      return success();
    }
    start += shapeOf(part)[dim];
  }
  return failure();
}

/// Returns the elements of type T that `op` selects. They are not read as
/// Attributes, because an Attribute stays in memory until the context is
/// destroyed.
template <typename T>
static DenseElementsAttr slicedElements(SliceOp op, DenseElementsAttr values) {
  auto type = tensorType(op);
  ArrayRef<int64_t> from = values.getType().getShape();
  auto elements = values.tryGetValues<T>();
  if (failed(elements))
    return {};
  SmallVector<T> taken;
  taken.reserve(type.getNumElements());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t rest = i, linear = 0, pitch = 1;
    for (size_t d = from.size(); d-- > 0;) {
      int64_t index = rest % type.getDimSize(d);
      rest /= type.getDimSize(d);
      linear += (op.getOffsets()[d] + index * op.getStrides()[d]) * pitch;
      pitch *= from[d];
    }
    taken.push_back((*elements)[linear]);
  }
  return DenseElementsAttr::get(type, ArrayRef<T>(taken));
}

static LogicalResult sliceOfConstant(SliceOp op, ConstantOp constant,
                                     PatternRewriter &rewriter) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  auto type = tensorType(op);
  if (!dense || dense.isSplat() || type.getNumElements() > kMaxSlicedElements)
    return failure();
  Type element = type.getElementType();
  DenseElementsAttr sliced;
  if (element.isInteger(1))
    sliced = slicedElements<bool>(op, dense);
  else if (isa<IntegerType>(element))
    sliced = slicedElements<APInt>(op, dense);
  else
    sliced = slicedElements<APFloat>(op, dense);
  if (!sliced)
    return failure();
  rewriter.replaceOpWithNewOp<ConstantOp>(op, type, sliced);
  return success();
}

static LogicalResult simplifySlice(SliceOp op, PatternRewriter &rewriter) {
  Operation *producer = op.getX().getDefiningOp();
  if (auto inner = dyn_cast_if_present<SliceOp>(producer))
    return sliceOfSlice(op, inner, rewriter);
  if (auto concat = dyn_cast_if_present<ConcatOp>(producer))
    return sliceOfConcat(op, concat, rewriter);
  if (auto constant = dyn_cast_if_present<ConstantOp>(producer))
    return sliceOfConstant(op, constant, rewriter);
  return failure();
}

/// Replaces a broadcast that repeats nothing by a reshape, and two broadcasts
/// by one. Removes the operand's dimensions of size 1, so that the broadcast of
/// a bias always has `dims = [last]`.
static LogicalResult simplifyBroadcast(BroadcastOp op,
                                       PatternRewriter &rewriter) {
  GraphBuilder g(rewriter, op.getLoc());
  ArrayRef<int64_t> to = shapeOf(op.getResult());
  if (tensorType(op.getX()).getNumElements() ==
      tensorType(op.getResult()).getNumElements()) {
    rewriter.replaceOp(op, g.reshape(op.getX(), to));
    return success();
  }
  if (auto inner = op.getX().getDefiningOp<BroadcastOp>()) {
    auto dims = llvm::map_to_vector(
        inner.getDims(), [&](int64_t dim) { return op.getDims()[dim]; });
    rewriter.replaceOp(op, g.broadcast(inner.getX(), to, dims));
    return success();
  }
  SmallVector<int64_t> shape, dims;
  for (auto [size, dim] : llvm::zip(shapeOf(op.getX()), op.getDims()))
    if (size != 1) {
      shape.push_back(size);
      dims.push_back(dim);
    }
  if (dims.size() == op.getDims().size())
    return failure();
  rewriter.replaceOp(op, g.broadcast(g.reshape(op.getX(), shape), to, dims));
  return success();
}

/// Replaces a transpose that moves only dimensions of size 1 by a reshape.
static LogicalResult simplifyTranspose(TransposeOp op,
                                       PatternRewriter &rewriter) {
  int64_t last = -1;
  for (int64_t dim : op.getPerm()) {
    if (shapeOf(op.getX())[dim] == 1)
      continue;
    if (dim < last)
      return failure();
    last = dim;
  }
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
  return success();
}

/// Replaces a reduction along dimensions of size 1 by a reshape.
static LogicalResult simplifyReduce(ReduceOp op, PatternRewriter &rewriter) {
  for (int64_t dim : op.getDims())
    if (shapeOf(op.getX())[dim] != 1)
      return failure();
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getX());
  return success();
}

static LogicalResult simplifyConcat(ConcatOp op, PatternRewriter &rewriter) {
  if (op.getParts().size() != 1)
    return failure();
  rewriter.replaceOp(op, op.getParts().front());
  return success();
}

/// False if the sum has other terms, or if an inner sum has other users.
static bool collectPads(Value value, bool isRoot, SmallVector<PadOp> &pads) {
  if (auto pad = value.getDefiningOp<PadOp>()) {
    pads.push_back(pad);
    return true;
  }
  BinaryOp sum = binaryOf(value, BinaryKind::add);
  return sum && (isRoot || value.hasOneUse()) &&
         collectPads(sum.getA(), false, pads) &&
         collectPads(sum.getB(), false, pads);
}

/// Returns the only changed dimension; -1 if not unique or strided.
static int64_t padDim(PadOp pad) {
  int64_t found = -1;
  for (auto [dim, from, to] :
       llvm::enumerate(shapeOf(pad.getX()), shapeOf(pad.getResult()))) {
    if (pad.getStrides()[dim] != 1)
      return -1;
    if (from == to)
      continue;
    if (found >= 0)
      return -1;
    found = dim;
  }
  return found;
}

/// Replaces a sum of pads that place their operands next to each other by a
/// concat. Such sums are the gradients of slices that split q, k and v.
static LogicalResult simplifySumOfPads(BinaryOp op, PatternRewriter &rewriter) {
  SmallVector<PadOp> pads;
  if (op.getKind() != BinaryKind::add ||
      !collectPads(op.getResult(), true, pads))
    return failure();
  int64_t dim = padDim(pads.front()), end = 0;
  if (dim < 0)
    return failure();
  llvm::sort(pads, [&](PadOp a, PadOp b) {
    return a.getLow()[dim] < b.getLow()[dim];
  });
  SmallVector<Value> parts;
  for (PadOp pad : pads) {
    if (padDim(pad) != dim || pad.getLow()[dim] != end)
      return failure();
    end += shapeOf(pad.getX())[dim];
    parts.push_back(pad.getX());
  }
  if (end != shapeOf(op.getResult())[dim])
    return failure();
  rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), parts, dim);
  return success();
}

/// If `x` is a transpose that moves the innermost dimension to the second to
/// last position, returns `x` with its last two dimensions swapped, so that the
/// innermost dimension stays last; else null. The caller flips the transpose
/// flag of the matmul.
static Value untransposed(Value x, PatternRewriter &rewriter) {
  auto transpose = x.getDefiningOp<TransposeOp>();
  if (!transpose)
    return nullptr;
  auto perm = llvm::to_vector(transpose.getPerm());
  int64_t rank = perm.size();
  if (perm[rank - 2] != rank - 1)
    return nullptr;
  std::swap(perm[rank - 2], perm[rank - 1]);
  return GraphBuilder(rewriter, transpose.getLoc())
      .transpose(transpose.getX(), perm);
}

static Value sharedMatrix(Value b) {
  auto broadcast = b.getDefiningOp<BroadcastOp>();
  int64_t rank = shapeOf(b).size();
  if (!broadcast || rank < 3)
    return nullptr;
  Value matrix = broadcast.getX();
  ArrayRef<int64_t> dims = broadcast.getDims();
  if (dims.size() != 2 || dims[0] != rank - 2 || dims[1] != rank - 1 ||
      shapeOf(matrix) != shapeOf(b).take_back(2))
    return nullptr;
  return matrix;
}

static LogicalResult simplifyMatmul(MatmulOp op, PatternRewriter &rewriter) {
  Value a = op.getA(), b = op.getB();
  bool ta = op.getTa(), tb = op.getTb();
  bool isShared = shapeOf(b).size() < shapeOf(a).size();
  if (Value plain = isShared ? Value() : untransposed(a, rewriter)) {
    a = plain;
    ta = !ta;
  } else if (Value plain = untransposed(b, rewriter)) {
    b = plain;
    tb = !tb;
  } else if (Value matrix = ta ? Value() : sharedMatrix(b)) {
    b = matrix;
  } else {
    return failure();
  }
  auto marks = op->getDiscardableAttrDictionary();
  auto made =
      rewriter.replaceOpWithNewOp<MatmulOp>(op, op.getType(), a, b, ta, tb);
  made->setDiscardableAttrs(marks);
  return success();
}

void dpc::populateMovementPatterns(RewritePatternSet &patterns) {
  patterns.add(simplifySlice)
      .add(simplifyBroadcast)
      .add(simplifyTranspose)
      .add(simplifyReduce)
      .add(simplifyConcat)
      .add(simplifySumOfPads)
      .add(simplifyMatmul);
}
