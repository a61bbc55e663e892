//===- MarkFp8.cpp - The matmuls that run in fp8 --------------------------===//
//
// A matmul is marked if exactly one operand is a weight: a parameter or buffer
// after data movement and conversions. Three kinds of matmuls are not marked.
//
// The last layer is not marked, because its rounding affects the loss or a
// result directly. Other software does the same. The last layer is a matmul
//   * that computes the logits of a cross entropy and has an f32 result;
//   * whose result, after data movement, a bias or softmax, is a result of the
//     function, even if the matmul has other users;
//   * from which elementwise ops compute a loss. If these ops add several
//     matmuls, such as all layers of a residual stream, none of them is the
//     last layer.
//
// Matmuls of experts are not marked. The number of experts on a rank determines
// which samples one GEMM multiplies, and the choice of fp8 must not depend on
// this number.
//
// Routers are not marked, because their precision affects the choice of
// experts.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/Fp8.h"
#include "passes/graph/Match.h"

using namespace mlir;

namespace dpc {

namespace {

class Fp8Marker {
public:
  explicit Fp8Marker(func::FuncOp func) : func(func) {}
  void run();

private:
  func::FuncOp func;
  DenseSet<Operation *> lossMatmuls;
  DenseSet<Operation *> routers;
  DenseSet<int64_t> expertCounts;

  bool isStack(Value value);
  bool isWeight(Value value);
  bool isBias(Operation *op);
  bool isLast(MatmulOp op);
  void findLossMatmuls();
  void findRouters();
};

} // namespace

static bool isBF16(Value value) { return elementTypeOf(value).isBF16(); }

/// True if `value` is a parameter or buffer, perhaps moved or converted.
bool Fp8Marker::isWeight(Value value) {
  if (isa<BlockArgument>(value))
    return roleOf(value) == role::kParameter || roleOf(value) == role::kBuffer;
  Operation *op = value.getDefiningOp();
  return isa<ConvertOp, ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp>(
             op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isWeight(operand); });
}

bool Fp8Marker::isBias(Operation *op) {
  auto sum = dyn_cast<BinaryOp>(op);
  return sum && sum.getKind() == BinaryKind::add &&
         llvm::any_of(sum->getOperands(),
                      [&](Value operand) { return isWeight(operand); });
}

/// Returns true if the function returns the result of `op`, possibly after data
/// movement, a bias or softmax.
bool Fp8Marker::isLast(MatmulOp op) {
  llvm::SetVector<Operation *> readers;
  auto follow = [&](Operation *from) {
    readers.insert(from->user_begin(), from->user_end());
  };
  follow(op);
  for (size_t i = 0; i < readers.size(); ++i) {
    Operation *reader = readers[i];
    if (isa<func::ReturnOp>(reader))
      return true;
    if (isa<ConvertOp, ReshapeOp, TransposeOp, SliceOp, SoftmaxOp>(reader) ||
        isBias(reader))
      follow(reader);
  }
  return false;
}

/// Walks from every loss back through elementwise ops. A loss may be the sum of
/// the losses of several outputs, so the walk starts again before each
/// reduction.
void Fp8Marker::findLossMatmuls() {
  llvm::SetVector<Value> roots;
  Operation *end = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (func.getResultAttr(i, attr::kLoss))
      roots.insert(value);
  for (size_t root = 0; root < roots.size(); ++root) {
    llvm::SetVector<Operation *> products;
    dependencies({roots[root]}, [&](Operation *op) {
      if (isa<MatmulOp>(op))
        products.insert(op);
      else if (isa<ReduceOp>(op))
        roots.insert(op->getOperand(0));
      return isa<UnaryOp, BinaryOp, SelectOp, ConvertOp, ReshapeOp, TransposeOp,
                 SliceOp, BroadcastOp, SoftmaxOp>(op);
    });
    if (products.size() == 1)
      lossMatmuls.insert(products.front());
  }
}

/// Returns true if `value` had more than two dimensions before data movement,
/// as the stacked weights of several experts have.
bool Fp8Marker::isStack(Value value) {
  Operation *op = value.getDefiningOp();
  ArrayRef<int64_t> shape = shapeOf(value);
  if (!op || isa<ConcatOp>(op)) {
    if (llvm::count_if(shape, [](int64_t size) { return size > 1; }) > 2)
      return expertCounts.insert(shape.front()), true;
    if (!op)
      return false;
  }
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return isStack(operand); });
}

/// Routers feed a top-k, or a softmax over as many elements as experts.
void Fp8Marker::findRouters() {
  SmallVector<Value> choices;
  func.walk([&](Operation *op) {
    if (isa<TopKOp>(op) ||
        (isa<SoftmaxOp>(op) &&
         expertCounts.contains(shapeOf(op->getOperand(0)).back())))
      choices.push_back(op->getOperand(0));
  });
  dependencies(choices, [&](Operation *op) {
    if (isa<MatmulOp>(op))
      routers.insert(op);
    return isa<UnaryOp, BinaryOp, SelectOp, ConvertOp, ReshapeOp, TransposeOp,
               SliceOp, SoftmaxOp>(op);
  });
}

void Fp8Marker::run() {
  findLossMatmuls();
  SmallVector<MatmulOp> products;
  func.walk([&](MatmulOp op) {
    bool isLeft = isWeight(op.getA());
    if (isLeft != isWeight(op.getB()) &&
        !isStack(isLeft ? op.getA() : op.getB()))
      products.push_back(op);
  });
  findRouters();
  for (MatmulOp op : products)
    if (isBF16(op.getA()) && isBF16(op.getB()) && isBF16(op.getResult()) &&
        !isLast(op) && !lossMatmuls.contains(op) && !routers.contains(op))
      markFp8(op, /*gradientInA=*/false, /*gradientInB=*/false);
}

void markFp8Matmuls(func::FuncOp forward) { Fp8Marker(forward).run(); }

} // namespace dpc
