//===- VerifyGraphOps.cpp - Verifiers of sources, elementwise, movement ---===//
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::verify;

LogicalResult ConstantOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getValue().getType());
  if (!type)
    return violates(*this, "C1")
           << "value is no ranked tensor but " << getValue().getType();
  return Checks(*this)
      .like("C1", "value", type, getType())
      .require("C2", !type.getEncoding(),
               "value has an encoding: ", type.getEncoding());
}

static Checks checkDim(Operation *op, int64_t dim) {
  int64_t rank = tensorType(op->getResult(0)).getRank();
  return Checks(op).require("C1", dim >= 0 && dim < rank, "dim ", dim,
                            " is no dimension of a result of rank ", rank);
}

LogicalResult IotaOp::verify() { return checkDim(*this, getDim()); }

LogicalResult UnaryOp::verify() {
  return Checks(*this).like("C1", "result", getType(), getX());
}

LogicalResult BinaryOp::verify() {
  return Checks(*this)
      .like("C1", "second operand", getB(), getA())
      .like("C1", "result", getType(), getA());
}

LogicalResult CompareOp::verify() {
  return Checks(*this)
      .like("C1", "second operand", getB(), getA())
      .shape("C2", "result", getType(), shapeOf(getA()))
      .boolean("C2", "result", getType());
}

LogicalResult SelectOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getCondition());
  Type element = elementTypeOf(getOnTrue());
  return Checks(*this)
      .boolean("C1", "condition", getCondition())
      .shape("C1", "first choice", getOnTrue(), shape)
      .shape("C1", "second choice", getOnFalse(), shape)
      .shape("C1", "result", getType(), shape)
      .element("C2", "second choice", getOnFalse(), element)
      .element("C2", "result", getType(), element);
}

LogicalResult ConvertOp::verify() {
  return Checks(*this).shape("C1", "result", getType(), shapeOf(getX()));
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType x = getX().getType(), result = getType();
  ArrayRef<int64_t> dims = getDims();
  Checks checks(*this);
  checks.require("C1", static_cast<int64_t>(dims.size()) == x.getRank(),
                 "dims has ", dims.size(), " entries for rank ", x.getRank());
  for (size_t i = 0; i < dims.size() && !checks.failed(); ++i) {
    int64_t dim = dims[i], size = x.getDimSize(i);
    checks.require("C1", dim >= 0 && dim < result.getRank(), "dims entry ", dim,
                   " is no dimension of a result of rank ", result.getRank());
    if (i > 0)
      checks.require("C1", dim > dims[i - 1],
                     "dims is not strictly increasing: ", dim, " after ",
                     dims[i - 1]);
    if (checks.failed())
      break;
    int64_t target = result.getDimSize(dim);
    checks.require("C2", size == 1 || size == target, "operand dimension ", i,
                   " has size ", size, ", expected 1 or ", target);
  }
  return checks.element("C3", "result", result, x.getElementType());
}

LogicalResult ReshapeOp::verify() {
  RankedTensorType x = getX().getType();
  int64_t from = x.getNumElements(), to = getType().getNumElements();
  return Checks(*this)
      .require("C1", from == to, "numbers of elements differ: ", from, " and ",
               to)
      .element("C1", "result", getType(), x.getElementType());
}

LogicalResult TransposeOp::verify() {
  RankedTensorType x = getX().getType();
  ArrayRef<int64_t> perm = getPerm();
  SmallVector<int64_t> sorted(perm);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, x.getRank())))
    return violates(*this, "C1") << "perm [" << perm
                                 << "] is no permutation of the dimensions of "
                                    "an operand of rank "
                                 << x.getRank();
  auto shape =
      llvm::map_to_vector(perm, [&](int64_t dim) { return x.getDimSize(dim); });
  return Checks(*this).like("C1", "result", getType(), shape,
                            x.getElementType());
}

/// Checks that a box with the shape of `small`, at `offsets` and with
/// `strides`, fits into `large`. Messages call the offsets `name`.
static LogicalResult checkBox(Checks checks, StringRef name,
                              RankedTensorType small, RankedTensorType large,
                              ArrayRef<int64_t> offsets,
                              ArrayRef<int64_t> strides) {
  size_t rank = large.getRank();
  checks.rank("C1", "result", small, rank)
      .require("C1", offsets.size() == rank && strides.size() == rank, name,
               " and strides have ", offsets.size(), " and ", strides.size(),
               " entries for rank ", rank);
  for (size_t i = 0; i < rank && !checks.failed(); ++i) {
    int64_t last = offsets[i] + (small.getDimSize(i) - 1) * strides[i];
    bool fits = small.getDimSize(i) <= 0 || last < large.getDimSize(i);
    checks
        .require("C1", offsets[i] >= 0, name, " of dimension ", i,
                 " is negative: ", offsets[i])
        .require("C1", strides[i] >= 1, "stride of dimension ", i,
                 " is not positive: ", strides[i])
        .require("C2", fits, "dimension ", i, " reaches element ", last, " of ",
                 large.getDimSize(i));
  }
  return checks;
}

LogicalResult SliceOp::verify() {
  RankedTensorType x = getX().getType();
  Checks checks(*this);
  checks.element("C1", "result", getType(), x.getElementType());
  return checkBox(checks, "offset", getType(), x, getOffsets(), getStrides());
}

LogicalResult PadOp::verify() {
  RankedTensorType x = getX().getType();
  Checks checks(*this);
  checks.element("C1", "result", getType(), x.getElementType())
      .rank("C1", "result", getType(), x.getRank());
  return checkBox(checks, "low", x, getType(), getLow(), getStrides());
}

LogicalResult ConcatOp::verify() {
  RankedTensorType result = getType();
  int64_t dim = getDim(), sum = 0;
  if (getParts().empty())
    return violates(*this, "C1") << "no operands";
  Checks checks = checkDim(*this, dim);
  for (auto [i, part] : llvm::enumerate(getParts())) {
    auto what = "operand " + std::to_string(i);
    if (checks.rank("C1", what, part, result.getRank()).failed())
      return failure();
    SmallVector<int64_t> expected(result.getShape());
    expected[dim] = shapeOf(part)[dim];
    checks.like("C1", what, part, expected, result.getElementType());
    sum += expected[dim];
  }
  return checks.require("C2", sum == result.getDimSize(dim),
                        "sizes along dimension ", dim, " sum to ", sum,
                        ", the result has ", result.getDimSize(dim));
}

LogicalResult ReduceOp::verify() {
  RankedTensorType x = getX().getType();
  ArrayRef<int64_t> dims = getDims();
  Checks checks(*this);
  for (auto [i, dim] : llvm::enumerate(dims))
    checks
        .require("C1", dim >= 0 && dim < x.getRank(), "dims entry ", dim,
                 " is no dimension of an operand of rank ", x.getRank())
        .require("C1", i == 0 || dim > dims[i - 1],
                 "dims is not ascending: ", dim, " after ",
                 dims[i ? i - 1 : 0]);
  SmallVector<int64_t> kept;
  for (auto [i, size] : llvm::enumerate(x.getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
      kept.push_back(size);
  return checks.like("C2", "result", getType(), kept, x.getElementType());
}

LogicalResult MatmulOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType();
  int64_t rank = a.getRank();
  Checks checks(*this);
  checks.minRank("C1", "first operand", a, 2)
      .require("C1", b.getRank() == 2 || b.getRank() == rank,
               "second operand has rank ", b.getRank(), ", expected 2 or ",
               rank)
      .require("C1", !getTa() || b.getRank() != 2 || rank == 2,
               "ta with a plain matrix needs a first operand of rank 2, not ",
               rank);
  if (checks.failed())
    return failure();
  ArrayRef<int64_t> batch = a.getShape().drop_back(2);
  ArrayRef<int64_t> other = b.getShape().drop_back(2);
  if (!other.empty() && batch != other)
    return violates(*this, "C2")
           << "batch dimensions differ: " << shapeText(batch) << " and "
           << shapeText(other);
  auto sizeOf = [](RankedTensorType type, int64_t fromEnd) {
    return type.getDimSize(type.getRank() - fromEnd);
  };
  int64_t ka = sizeOf(a, getTa() ? 2 : 1), kb = sizeOf(b, getTb() ? 1 : 2);
  SmallVector<int64_t> shape(batch);
  shape.append({sizeOf(a, getTa() ? 1 : 2), sizeOf(b, getTb() ? 2 : 1)});
  // A matmul of 16-bit floats may return its f32 sums unrounded.
  Type operand = a.getElementType(), element = getType().getElementType();
  if (element != statisticsType(operand))
    element = operand;
  return checks
      .require("C2", ka == kb, "contracted dimensions differ: ", ka, " and ",
               kb)
      .element("C3", "second operand", b, operand)
      .like("C3", "result", getType(), shape, element);
}

LogicalResult ReshardOp::verify() {
  ShardingAttr from = getSharding(getX().getType());
  ShardingAttr to = getSharding(getType());
  Checks checks(*this);
  checks.like("C1", "result", getType(), getX())
      .require("C1", from && to, from ? "result" : "operand",
               " has no sharding");
  if (checks.failed())
    return failure();
  checks.require("C1", from.getMesh() == to.getMesh(),
                 "meshes differ: ", from.getMesh(), " and ", to.getMesh());
  auto old = llvm::to_vector(
      llvm::zip_equal(from.getPartialAxes(), from.getPartialKinds()));
  for (auto [axis, kind] :
       llvm::zip_equal(to.getPartialAxes(), to.getPartialKinds()))
    if (!checks.failed())
      checks.require("C2", llvm::is_contained(old, std::make_tuple(axis, kind)),
                     "result is partial over ", to.getMesh().getNames()[axis],
                     " (", partialKindName(kind), "), the operand is not");
  // The rows of a routed value are on different ranks, which the type does not
  // say, so that no collective completes them.
  for (auto [axis, kind] : old)
    if (kind == kRoutedKind && !checks.failed())
      checks.require(
          "C2", ShardingSpec::get(tensorType(getResult()))->isRoutedOver(axis),
          "operand is routed over ", from.getMesh().getNames()[axis],
          ", the result is not");
  return checks;
}
