//===- MarkFp8.cpp - Which products are of fp8 ----------------------------===//
//
// Products of a weight: an operand that is a parameter or a table beside it,
// moved and converted, and another that is not. The last layer is left out, as
// in other software: what it rounds goes straight into the loss or a result. It
// is the products that
// - logits of a cross entropy come from (they alone have f32 results),
// - a result comes from, moved, with a bias or as probabilities, whoever else
//   reads it,
// - elementwise ops make a loss of. Where they add up several products, as
//   those of all layers behind a residual stream, none is the last layer.
//
// Nor are mixtures of experts: which samples of an expert are multiplied at
// once depends on how many experts a rank holds, and what is in fp8 must not. A
// router's digits decide who is chosen.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "passes/graph/Fp8.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dpc {

namespace {

class Fp8Marker {
public:
  explicit Fp8Marker(func::FuncOp func) : func(func) {}
  void run();

private:
  func::FuncOp func;
  DenseSet<Operation *> lossProducts; ///< That the loss comes from.
  DenseSet<Operation *> routers;
  DenseSet<int64_t> expertCounts; ///< Of the stacks that products read.

  bool isStack(Value value);
  bool isWeight(Value value);
  bool isBias(Operation *op);
  bool isLast(MatmulOp op);
  void findLossProducts();
  void findRouters();
};

} // namespace

static bool isBF16(Value value) { return elementTypeOf(value).isBF16(); }

/// Made of parameters or buffers by moving and converting them.
bool Fp8Marker::isWeight(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto role =
        func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kRole);
    return role && (role.getValue() == role::kParameter ||
                    role.getValue() == role::kBuffer);
  }
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

/// Whether a result of the function is this product, moved, with a bias or as
/// probabilities.
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

/// From every loss back through elementwise ops. What a reduction adds up is
/// looked at by itself: losses of several outputs may be summed.
void Fp8Marker::findLossProducts() {
  llvm::SetVector<Value> roots;
  auto *end = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands()))
    if (func.getResultAttr(i, attr::kLoss))
      roots.insert(value);
  for (size_t root = 0; root < roots.size(); ++root) {
    llvm::SetVector<Value> values;
    SmallVector<Operation *> products;
    values.insert(roots[root]);
    for (size_t i = 0; i < values.size(); ++i) {
      Operation *op = values[i].getDefiningOp();
      if (isa_and_nonnull<MatmulOp>(op))
        products.push_back(op);
      else if (isa_and_nonnull<ReduceOp>(op))
        roots.insert(op->getOperand(0));
      else if (isa_and_nonnull<UnaryOp, BinaryOp, SelectOp, ConvertOp,
                               ReshapeOp, TransposeOp, SliceOp, BroadcastOp,
                               SoftmaxOp>(op))
        values.insert(op->operand_begin(), op->operand_end());
    }
    if (products.size() == 1)
      lossProducts.insert(products.front());
  }
}

/// More than a matrix, before it is moved.
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

/// What top-k chooses from, and probabilities of as many as there are experts.
void Fp8Marker::findRouters() {
  llvm::SetVector<Value> values;
  func.walk([&](Operation *op) {
    if (!isa<TopKOp, SoftmaxOp>(op))
      return;
    Value from = op->getOperand(0);
    if (isa<TopKOp>(op) || expertCounts.contains(shapeOf(from).back()))
      values.insert(from);
  });
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (isa_and_nonnull<MatmulOp>(op))
      routers.insert(op);
    else if (isa_and_nonnull<UnaryOp, BinaryOp, SelectOp, ConvertOp, ReshapeOp,
                             TransposeOp, SliceOp, SoftmaxOp>(op))
      values.insert(op->operand_begin(), op->operand_end());
  }
}

void Fp8Marker::run() {
  findLossProducts();
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
        !isLast(op) && !lossProducts.contains(op) && !routers.contains(op))
      markFp8(op, /*gradientInA=*/false, /*gradientInB=*/false);
}

void markFp8Products(func::FuncOp forward) { Fp8Marker(forward).run(); }

} // namespace dpc
