//===- VerifySpatialOps.cpp - Verifiers of conv, pool and batch norm ------===//
//
// One verifier per op; the constraint numbers are those of DpcSpatialOps.td.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/VerifyUtils.h"
#include "ir/Window.h"

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
// Windows
//===----------------------------------------------------------------------===//

llvm::SmallVector<Window, 3>
dpc::windowsOf(ArrayRef<int64_t> in, ArrayRef<int64_t> out,
               ArrayRef<int64_t> taps, ArrayRef<int64_t> strides,
               ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  llvm::SmallVector<Window, 3> windows;
  size_t spatial = taps.size();
  for (size_t d = 0; d < spatial; ++d)
    windows.push_back({in[d + 2], out[d + 2], taps[d], strides[d], pads[d],
                       pads[d + spatial], dilations[d]});
  return windows;
}

/// `values` has `count` entries, none below `least`.
static LogicalResult checkEntries(Operation *op, StringRef name,
                                  ArrayRef<int64_t> values, size_t count,
                                  int64_t least) {
  if (values.size() != count)
    return violates(op, "C1") << name << " has " << values.size()
                              << " entries, expected " << count;
  for (int64_t value : values)
    if (value < least)
      return violates(op, "C1")
             << name << " holds " << value << ", expected at least " << least;
  return success();
}

template <typename Op>
static LogicalResult checkWindowAttributes(Op op, size_t spatial) {
  if (failed(checkEntries(op, "strides", op.getStrides(), spatial, 1)) ||
      failed(checkEntries(op, "dilations", op.getDilations(), spatial, 1)))
    return failure();
  return checkEntries(op, "pads", op.getPads(), 2 * spatial, 0);
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// The types of x, w and y of a conv, each with its name in `op`.
struct Named {
  StringRef name;
  RankedTensorType type;
};

template <typename Op>
static LogicalResult checkConv(Op op, Named x, Named w, Named y) {
  int64_t rank = x.type.getRank();
  if (failed(checkFloat(op, "C1", x.name, x.type)) ||
      failed(checkMinRank(op, "C1", x.name, x.type, 3)))
    return failure();
  for (const Named &other : {w, y})
    if (failed(checkRank(op, "C1", other.name, other.type, rank)) ||
        failed(checkElement(op, "C1", other.name, other.type,
                            x.type.getElementType())))
      return failure();
  if (failed(checkWindowAttributes(op, rank - 2)))
    return failure();
  int64_t channels = x.type.getDimSize(1), perGroup = w.type.getDimSize(1);
  if (perGroup < 1 || channels % perGroup != 0)
    return violates(op, "C2")
           << x.name << " has " << channels << " channels, no multiple of "
           << w.name << "'s " << perGroup;
  int64_t groups = channels / perGroup, filters = w.type.getDimSize(0);
  if (groups < 1 || filters % groups != 0)
    return violates(op, "C2")
           << w.name << " has " << filters << " filters, no multiple of "
           << groups << " groups";
  llvm::SmallVector<int64_t> expected = {x.type.getDimSize(0), filters};
  for (const Window &window :
       windowsOf(x.type.getShape(), y.type.getShape(),
                 w.type.getShape().drop_front(2), op.getStrides(), op.getPads(),
                 op.getDilations())) {
    expected.push_back(window.fitting());
    if (expected.back() < 1)
      return violates(op, "C3") << window.taps << " taps do not fit into "
                                << window.in << " elements and their padding";
  }
  return checkShape(op, "C3", y.name, y.type, expected);
}

LogicalResult ConvOp::verify() {
  return checkConv(*this, {"x", getX().getType()}, {"w", getW().getType()},
                   {"result", getType()});
}

LogicalResult ConvGradInputOp::verify() {
  return checkConv(*this, {"dx", getType()}, {"w", getW().getType()},
                   {"dy", getDy().getType()});
}

LogicalResult ConvGradFilterOp::verify() {
  return checkConv(*this, {"x", getX().getType()}, {"dw", getType()},
                   {"dy", getDy().getType()});
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

/// Some tap of every window lies inside the image.
static bool touchesAlways(const Window &window) {
  for (int64_t o = 0; o < window.out; ++o) {
    int64_t first = o * window.stride - window.before;
    bool touches = false;
    for (int64_t j = 0; j < window.taps && !touches; ++j) {
      int64_t at = first + j * window.dilation;
      touches = at >= 0 && at < window.in;
    }
    if (!touches)
      return false;
  }
  return true;
}

template <typename Op>
static LogicalResult checkMaxPool(Op op, Named x, Named y,
                                  RankedTensorType index) {
  size_t spatial = x.type.getRank() - 2;
  if (failed(checkFloat(op, "C1", x.name, x.type)) ||
      failed(checkMinRank(op, "C1", x.name, x.type, 3)) ||
      failed(checkEntries(op, "kernel", op.getKernel(), spatial, 1)) ||
      failed(checkWindowAttributes(op, spatial)) ||
      failed(checkRank(op, "C2", y.name, y.type, x.type.getRank())))
    return failure();
  llvm::SmallVector<int64_t> expected(x.type.getShape().take_front(2));
  auto windows = windowsOf(x.type.getShape(), y.type.getShape(), op.getKernel(),
                           op.getStrides(), op.getPads(), op.getDilations());
  for (const Window &window : windows)
    expected.push_back(window.fitting());
  auto wanted = RankedTensorType::get(expected, x.type.getElementType());
  auto i32 = mlir::IntegerType::get(op->getContext(), 32);
  if (failed(checkLike(op, "C2", y.name, y.type, wanted)) ||
      failed(checkLike(op, "C2", "index", index,
                       RankedTensorType::get(expected, i32))))
    return failure();
  for (auto [d, window] : llvm::enumerate(windows))
    if (!touchesAlways(window))
      return violates(op, "C3") << "a window of spatial dimension " << d
                                << " lies in the padding only";
  return success();
}

LogicalResult MaxPoolOp::verify() {
  return checkMaxPool(*this, {"x", getX().getType()}, {"y", getY().getType()},
                      getIndex().getType());
}

LogicalResult MaxPoolGradOp::verify() {
  return checkMaxPool(*this, {"dx", getType()}, {"dy", getDy().getType()},
                      getIndex().getType());
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

/// x and what is like it, what is [C] of its element type, and statistics.
static LogicalResult checkBatchNorm(Operation *op, RankedTensorType x,
                                    ArrayRef<Named> like,
                                    ArrayRef<Named> channels,
                                    ArrayRef<Named> statistics) {
  if (failed(checkFloat(op, "C1", "x", x)) ||
      failed(checkMinRank(op, "C1", "x", x, 2)))
    return failure();
  for (const Named &one : like)
    if (failed(checkLike(op, "C1", one.name, one.type, x)))
      return failure();
  llvm::SmallVector<int64_t> shape = {x.getDimSize(1)};
  mlir::Type element = x.getElementType();
  for (const Named &one : channels)
    if (failed(checkLike(op, "C2", one.name, one.type,
                         RankedTensorType::get(shape, element))))
      return failure();
  for (const Named &one : statistics)
    if (failed(
            checkLike(op, "C3", one.name, one.type,
                      RankedTensorType::get(shape, statisticsType(element)))))
      return failure();
  return success();
}

LogicalResult BatchNormOp::verify() {
  return checkBatchNorm(
      *this, getX().getType(), {{"y", getY().getType()}},
      {{"scale", getScale().getType()}, {"bias", getBias().getType()}},
      {{"mean", getMean().getType()}, {"var", getVar().getType()}});
}

LogicalResult BatchNormGradOp::verify() {
  return checkBatchNorm(
      *this, getX().getType(),
      {{"dy", getDy().getType()}, {"dx", getDx().getType()}},
      {{"scale", getScale().getType()},
       {"dscale", getDscale().getType()},
       {"dbias", getDbias().getType()}},
      {{"mean", getMean().getType()}, {"var", getVar().getType()}});
}
