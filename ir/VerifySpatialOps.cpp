//===- VerifySpatialOps.cpp - Verifiers of conv, pool and batch norm ------===//
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"
#include "ir/Window.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::verify;

SmallVector<Window, 3>
dpc::windowsOf(ArrayRef<int64_t> in, ArrayRef<int64_t> out,
               ArrayRef<int64_t> taps, ArrayRef<int64_t> strides,
               ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  SmallVector<Window, 3> windows;
  size_t spatial = taps.size();
  for (size_t d = 0; d < spatial; ++d)
    windows.push_back({in[d + 2], out[d + 2], taps[d], strides[d], pads[d],
                       pads[d + spatial], dilations[d]});
  return windows;
}

static void checkEntries(Checks &checks, StringRef name,
                         ArrayRef<int64_t> values, size_t count,
                         int64_t least) {
  checks.require("C1", values.size() == count, name, " has ", values.size(),
                 " entries, expected ", count);
  for (int64_t value : values)
    checks.require("C1", value >= least, name, " holds ", value,
                   ", expected at least ", least);
}

template <typename Op>
static void checkWindowAttributes(Checks &checks, Op op, size_t spatial) {
  checkEntries(checks, "strides", op.getStrides(), spatial, 1);
  checkEntries(checks, "dilations", op.getDilations(), spatial, 1);
  checkEntries(checks, "pads", op.getPads(), 2 * spatial, 0);
}

struct Named {
  StringRef name;
  RankedTensorType type;
};

/// Checks y = conv(x, w). In a gradient op, x or w is the result.
template <typename Op>
static LogicalResult checkConv(Op op, Named x, Named w, Named y) {
  int64_t rank = x.type.getRank();
  Type element = x.type.getElementType();
  Checks checks(op);
  checks.floats("C1", x.name, x.type).minRank("C1", x.name, x.type, 3);
  for (const Named &other : {w, y})
    checks.rank("C1", other.name, other.type, rank)
        .element("C1", other.name, other.type, element);
  checkWindowAttributes(checks, op, rank - 2);
  if (checks.failed())
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
  SmallVector<int64_t> expected = {x.type.getDimSize(0), filters};
  for (const Window &window :
       windowsOf(x.type.getShape(), y.type.getShape(),
                 w.type.getShape().drop_front(2), op.getStrides(), op.getPads(),
                 op.getDilations())) {
    expected.push_back(window.fitting());
    checks.require("C3", expected.back() >= 1, window.taps,
                   " taps do not fit into ", window.in,
                   " elements and their padding");
  }
  return checks.shape("C3", y.name, y.type, expected);
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

static bool alwaysTouchesImage(const Window &window) {
  return llvm::all_of(llvm::seq(window.out), [&](int64_t o) {
    int64_t first = o * window.stride - window.before;
    return llvm::any_of(llvm::seq(window.taps), [&](int64_t j) {
      int64_t at = first + j * window.dilation;
      return at >= 0 && at < window.in;
    });
  });
}

template <typename Op>
static LogicalResult checkMaxPool(Op op, Named x, Named y) {
  size_t spatial = x.type.getRank() - 2;
  Checks checks(op);
  checks.floats("C1", x.name, x.type).minRank("C1", x.name, x.type, 3);
  checkEntries(checks, "kernel", op.getKernel(), spatial, 1);
  checkWindowAttributes(checks, op, spatial);
  if (checks.rank("C2", y.name, y.type, x.type.getRank()).failed())
    return failure();
  SmallVector<int64_t> expected(x.type.getShape().take_front(2));
  auto windows = windowsOf(x.type.getShape(), y.type.getShape(), op.getKernel(),
                           op.getStrides(), op.getPads(), op.getDilations());
  for (const Window &window : windows)
    expected.push_back(window.fitting());
  checks.like("C2", y.name, y.type, expected, x.type.getElementType())
      .like("C2", "index", op.getIndex(), expected, Builder(op).getI32Type());
  for (auto [d, window] : llvm::enumerate(windows))
    if (!checks.failed())
      checks.require("C3", alwaysTouchesImage(window),
                     "a window of spatial dimension ", d,
                     " lies in the padding only");
  return checks;
}

LogicalResult MaxPoolOp::verify() {
  return checkMaxPool(*this, {"x", getX().getType()}, {"y", getY().getType()});
}

LogicalResult MaxPoolGradOp::verify() {
  return checkMaxPool(*this, {"dx", getType()}, {"dy", getDy().getType()});
}

/// Checks that `like` have the shape and element type of x, `channels` are [C]
/// in the element type of x, and `statistics` are [C] in the type of
/// statistics.
static LogicalResult checkBatchNorm(Operation *op, RankedTensorType x,
                                    ArrayRef<Named> like,
                                    ArrayRef<Named> channels,
                                    ArrayRef<Named> statistics) {
  Checks checks(op);
  checks.floats("C1", "x", x).minRank("C1", "x", x, 2);
  if (checks.failed())
    return failure();
  for (const Named &one : like)
    checks.like("C1", one.name, one.type, x);
  ArrayRef<int64_t> shape = x.getShape().slice(1, 1);
  Type element = x.getElementType();
  for (const Named &one : channels)
    checks.like("C2", one.name, one.type, shape, element);
  for (const Named &one : statistics)
    checks.like("C3", one.name, one.type, shape, statisticsType(element));
  return checks;
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
