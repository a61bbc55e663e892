//===- VerifyGraphOps.cpp - Verifiers of sources, elementwise, movement ---===//
//
// One verifier per op; the constraint numbers are those of the td files.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"

using namespace dpc;
using namespace dpc::verify;
using llvm::ArrayRef;
using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using mlir::Operation;
using mlir::RankedTensorType;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  auto type = mlir::dyn_cast<RankedTensorType>(getValue().getType());
  if (!type)
    return violates(*this, "C1")
           << "value is no ranked tensor but " << getValue().getType();
  if (failed(checkLike(*this, "C1", "value", type, getType())))
    return failure();
  if (type.getEncoding())
    return violates(*this, "C2")
           << "value has an encoding: " << type.getEncoding();
  return success();
}

LogicalResult IotaOp::verify() {
  int64_t dim = getDim(), rank = getType().getRank();
  if (dim < 0 || dim >= rank)
    return violates(*this, "C1")
           << "dim " << dim << " is no dimension of a result of rank " << rank;
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

LogicalResult UnaryOp::verify() {
  return checkLike(*this, "C1", "result", getType(), getX().getType());
}

LogicalResult BinaryOp::verify() {
  RankedTensorType a = getA().getType();
  if (failed(checkLike(*this, "C1", "second operand", getB().getType(), a)))
    return failure();
  return checkLike(*this, "C1", "result", getType(), a);
}

LogicalResult CompareOp::verify() {
  RankedTensorType a = getA().getType();
  if (failed(checkLike(*this, "C1", "second operand", getB().getType(), a)) ||
      failed(checkShape(*this, "C2", "result", getType(), a.getShape())))
    return failure();
  return checkElement(*this, "C2", "result", getType(),
                      mlir::IntegerType::get(getContext(), 1));
}

LogicalResult SelectOp::verify() {
  RankedTensorType condition = getCondition().getType();
  ArrayRef<int64_t> shape = condition.getShape();
  if (failed(checkElement(*this, "C1", "condition", condition,
                          mlir::IntegerType::get(getContext(), 1))) ||
      failed(checkShape(*this, "C1", "first choice", getOnTrue().getType(),
                        shape)) ||
      failed(checkShape(*this, "C1", "second choice", getOnFalse().getType(),
                        shape)) ||
      failed(checkShape(*this, "C1", "result", getType(), shape)))
    return failure();
  mlir::Type element = getOnTrue().getType().getElementType();
  if (failed(checkElement(*this, "C2", "second choice", getOnFalse().getType(),
                          element)))
    return failure();
  return checkElement(*this, "C2", "result", getType(), element);
}

LogicalResult ConvertOp::verify() {
  return checkShape(*this, "C1", "result", getType(),
                    getX().getType().getShape());
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  RankedTensorType x = getX().getType(), result = getType();
  ArrayRef<int64_t> dims = getDims();
  if (static_cast<int64_t>(dims.size()) != x.getRank())
    return violates(*this, "C1")
           << "dims has " << dims.size() << " entries for rank " << x.getRank();
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim < 0 || dim >= result.getRank())
      return violates(*this, "C1")
             << "dims entry " << dim << " is no dimension of a result of rank "
             << result.getRank();
    if (i > 0 && dim <= dims[i - 1])
      return violates(*this, "C1") << "dims is not strictly increasing: " << dim
                                   << " after " << dims[i - 1];
    int64_t size = x.getDimSize(i), target = result.getDimSize(dim);
    if (size != 1 && size != target)
      return violates(*this, "C2") << "operand dimension " << i << " has size "
                                   << size << ", expected 1 or " << target;
  }
  return checkElement(*this, "C3", "result", result, x.getElementType());
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType x = getX().getType(), result = getType();
  if (x.getNumElements() != result.getNumElements())
    return violates(*this, "C1")
           << "numbers of elements differ: " << x.getNumElements() << " and "
           << result.getNumElements();
  return checkElement(*this, "C1", "result", result, x.getElementType());
}

LogicalResult TransposeOp::verify() {
  RankedTensorType x = getX().getType();
  ArrayRef<int64_t> perm = getPerm();
  llvm::SmallVector<bool> seen(x.getRank(), false);
  bool isPermutation = static_cast<int64_t>(perm.size()) == x.getRank();
  for (int64_t source : perm) {
    isPermutation =
        isPermutation && source >= 0 && source < x.getRank() && !seen[source];
    if (!isPermutation)
      break;
    seen[source] = true;
  }
  if (!isPermutation)
    return violates(*this, "C1") << "perm [" << perm
                                 << "] is no permutation of the dimensions of "
                                    "an operand of rank "
                                 << x.getRank();
  auto shape = llvm::map_to_vector(
      perm, [&](int64_t source) { return x.getDimSize(source); });
  return checkLike(*this, "C1", "result", getType(),
                   RankedTensorType::get(shape, x.getElementType()));
}

/// The box of `small` placed at `offsets` with `strides` lies inside `large`;
/// `name` is what the op calls the offsets.
static LogicalResult checkBox(Operation *op, StringRef name,
                              RankedTensorType small, RankedTensorType large,
                              ArrayRef<int64_t> offsets,
                              ArrayRef<int64_t> strides) {
  int64_t rank = large.getRank();
  if (failed(checkRank(op, "C1", "result", small, rank)))
    return failure();
  if (static_cast<int64_t>(offsets.size()) != rank ||
      static_cast<int64_t>(strides.size()) != rank)
    return violates(op, "C1")
           << name << " and strides have " << offsets.size() << " and "
           << strides.size() << " entries for rank " << rank;
  for (int64_t i = 0; i < rank; ++i) {
    if (offsets[i] < 0)
      return violates(op, "C1")
             << name << " of dimension " << i << " is negative: " << offsets[i];
    if (strides[i] < 1)
      return violates(op, "C1") << "stride of dimension " << i
                                << " is not positive: " << strides[i];
    int64_t last = offsets[i] + (small.getDimSize(i) - 1) * strides[i];
    if (small.getDimSize(i) > 0 && last >= large.getDimSize(i))
      return violates(op, "C2") << "dimension " << i << " reaches element "
                                << last << " of " << large.getDimSize(i);
  }
  return success();
}

LogicalResult SliceOp::verify() {
  RankedTensorType x = getX().getType();
  if (failed(
          checkElement(*this, "C1", "result", getType(), x.getElementType())))
    return failure();
  return checkBox(*this, "offset", getType(), x, getOffsets(), getStrides());
}

LogicalResult PadOp::verify() {
  RankedTensorType x = getX().getType();
  if (failed(
          checkElement(*this, "C1", "result", getType(), x.getElementType())) ||
      failed(checkRank(*this, "C1", "result", getType(), x.getRank())))
    return failure();
  return checkBox(*this, "low", x, getType(), getLow(), getStrides());
}

LogicalResult ConcatOp::verify() {
  RankedTensorType result = getType();
  int64_t dim = getDim(), sum = 0;
  if (getParts().empty())
    return violates(*this, "C1") << "no operands";
  if (dim < 0 || dim >= result.getRank())
    return violates(*this, "C1")
           << "dim " << dim << " is no dimension of a result of rank "
           << result.getRank();
  for (auto [i, part] : llvm::enumerate(getParts())) {
    auto type = tensorType(part);
    if (failed(checkRank(*this, "C1", "operand " + llvm::Twine(i), type,
                         result.getRank())))
      return failure();
    llvm::SmallVector<int64_t> expected(result.getShape());
    expected[dim] = type.getDimSize(dim);
    if (failed(checkLike(
            *this, "C1", "operand " + llvm::Twine(i), type,
            RankedTensorType::get(expected, result.getElementType()))))
      return failure();
    sum += type.getDimSize(dim);
  }
  if (sum != result.getDimSize(dim))
    return violates(*this, "C2")
           << "sizes along dimension " << dim << " sum to " << sum
           << ", the result has " << result.getDimSize(dim);
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions and matmul
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::verify() {
  RankedTensorType x = getX().getType();
  ArrayRef<int64_t> dims = getDims();
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim < 0 || dim >= x.getRank())
      return violates(*this, "C1")
             << "dims entry " << dim << " is no dimension of an operand of "
             << "rank " << x.getRank();
    if (i > 0 && dim <= dims[i - 1])
      return violates(*this, "C1")
             << "dims is not ascending: " << dim << " after " << dims[i - 1];
  }
  llvm::SmallVector<int64_t> kept;
  for (int64_t i = 0; i < x.getRank(); ++i)
    if (!llvm::is_contained(dims, i))
      kept.push_back(x.getDimSize(i));
  return checkLike(*this, "C2", "result", getType(),
                   RankedTensorType::get(kept, x.getElementType()));
}

LogicalResult MatmulOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  int64_t rank = a.getRank();
  if (failed(checkMinRank(*this, "C1", "first operand", a, 2)))
    return failure();
  if (b.getRank() != 2 && b.getRank() != rank)
    return violates(*this, "C1") << "second operand has rank " << b.getRank()
                                 << ", expected 2 or " << rank;
  if (getTa() && b.getRank() == 2 && rank != 2)
    return violates(*this, "C1") << "ta with a plain matrix needs a first "
                                    "operand of rank 2, not "
                                 << rank;
  if (b.getRank() > 2 && a.getShape().drop_back(2) != b.getShape().drop_back(2))
    return violates(*this, "C2")
           << "batch dimensions differ: "
           << shapeText(a.getShape().drop_back(2)) << " and "
           << shapeText(b.getShape().drop_back(2));
  auto sizeOf = [](RankedTensorType type, int64_t fromEnd) {
    return type.getDimSize(type.getRank() - fromEnd);
  };
  int64_t m = sizeOf(a, getTa() ? 1 : 2), ka = sizeOf(a, getTa() ? 2 : 1);
  int64_t n = sizeOf(b, getTb() ? 2 : 1), kb = sizeOf(b, getTb() ? 1 : 2);
  if (ka != kb)
    return violates(*this, "C2")
           << "contracted dimensions differ: " << ka << " and " << kb;
  if (failed(
          checkElement(*this, "C3", "second operand", b, a.getElementType())))
    return failure();
  llvm::SmallVector<int64_t> shape(a.getShape().drop_back(2));
  shape.append({m, n});
  // The sums may be kept as they are.
  mlir::Type element = getType().getElementType();
  if (element != statisticsType(a.getElementType()))
    element = a.getElementType();
  return checkLike(*this, "C3", "result", getType(),
                   RankedTensorType::get(shape, element));
}

//===----------------------------------------------------------------------===//
// Reshard
//===----------------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  if (failed(checkLike(*this, "C1", "result", getType(), getX().getType())))
    return failure();
  ShardingAttr from = getSharding(getX().getType());
  ShardingAttr to = getSharding(getType());
  if (!from || !to)
    return violates(*this, "C1")
           << (from ? "result" : "operand") << " has no sharding";
  if (from.getMesh() != to.getMesh())
    return violates(*this, "C1")
           << "meshes differ: " << from.getMesh() << " and " << to.getMesh();
  for (auto [axis, kind] :
       llvm::zip_equal(to.getPartialAxes(), to.getPartialKinds())) {
    bool wasPartial = false;
    for (auto [fromAxis, fromKind] :
         llvm::zip_equal(from.getPartialAxes(), from.getPartialKinds()))
      wasPartial |= fromAxis == axis && fromKind == kind;
    if (!wasPartial)
      return violates(*this, "C2")
             << "result is partial over " << to.getMesh().getNames()[axis]
             << " (" << stringifyReduceKind(static_cast<ReduceKind>(kind))
             << "), the operand is not";
  }
  return success();
}
