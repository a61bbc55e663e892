//===- MixedPrecision.cpp - dpc-mixed-precision ---------------------------===//
//
// One walk over @forward. Every float value is of the compute type, in f32, or
// *free* (constants, frozen buffers, what is computed from them and from
// integers): free values take the type of what they meet. An op of a
// contraction, a norm or a table brings its operands to the compute type;
// elementwise ops and data movement take f32 as soon as one operand is in f32;
// all others, and sums, are in f32. Converted values are made once, right
// behind what they convert. With fp8, products are marked afterwards.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "passes/graph/Fp8.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/graph/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCMIXEDPRECISION
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

namespace {

/// Retypes the body of one function.
class Retyper {
public:
  Retyper(func::FuncOp func, FloatType half)
      : func(func), half(half), f32(Float32Type::get(func.getContext())) {}
  void run();

private:
  bool isHalf(Value value) const { return elementTypeOf(value) == half; }
  bool isF32(Value value) const { return elementTypeOf(value) == f32; }
  /// Takes the type of what it meets.
  bool isFree(Value value);
  /// Stays in f32 whatever it meets.
  bool isWide(Value value) {
    return isF32(value) && !isFree(value) && !isa<BlockArgument>(value);
  }

  Value as(Value value, Type type);
  Value halfConstant(ConstantOp op);
  void narrow(OpOperand &operand) { operand.set(as(operand.get(), half)); }
  void setHalf(Value result);
  void findLogits();
  void visit(Operation *op);
  void visitMixed(Operation *op);
  void widenResult(Value result);
  void widenAll(Operation *op);
  bool visitNarrow(Operation *op);

  func::FuncOp func;
  FloatType half;
  Type f32;
  DenseSet<Value> free;
  DenseSet<Operation *> logits;
  DenseMap<std::pair<Value, Type>, Value> converted;
};

} // namespace

bool Retyper::isFree(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto role =
        func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kRole);
    return role && role.getValue() == role::kBuffer;
  }
  return free.contains(value) || value.getDefiningOp<ConstantOp>();
}

/// `op` in the compute type. Finite numbers stay finite.
Value Retyper::halfConstant(ConstantOp op) {
  auto value = cast<DenseFPElementsAttr>(op.getValue());
  auto narrowed = value.mapValues(half, [&](const APFloat &number) {
    APFloat result = number;
    bool inexact = false;
    result.convert(half.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &inexact);
    if (result.isInfinity() && number.isFinite())
      result =
          APFloat::getLargest(half.getFloatSemantics(), number.isNegative());
    return result.bitcastToAPInt();
  });
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  return ConstantOp::create(
      builder, op.getLoc(),
      RankedTensorType::get(op.getResult().getType().getShape(), half),
      narrowed);
}

Value Retyper::as(Value value, Type type) {
  if (elementTypeOf(value) == type || (!isHalf(value) && !isF32(value)))
    return value;
  Value &made = converted[{value, type}];
  if (made)
    return made;
  auto constant = value.getDefiningOp<ConstantOp>();
  if (constant && type == half)
    return made = halfConstant(constant);
  OpBuilder builder(func.getContext());
  builder.setInsertionPointAfterValue(value);
  return made = GraphBuilder(builder, value.getLoc()).convert(value, type);
}

void Retyper::setHalf(Value result) {
  if (isF32(result))
    result.setType(RankedTensorType::get(shapeOf(result), half));
}

/// Ops with rules of their own; false for all others.
bool Retyper::visitNarrow(Operation *op) {
  if (isa<MatmulOp, ConvOp, RopeOp, SoftmaxOp, EmbeddingOp>(op)) {
    for (OpOperand &operand : op->getOpOperands())
      narrow(operand);
    if (!logits.contains(op))
      setHalf(op->getResult(0));
    if (isa<EmbeddingOp>(op))
      widenResult(op->getResult(0));
    return true;
  }
  if (auto norm = dyn_cast<NormOp>(op)) {
    for (OpOperand &operand : op->getOpOperands().drop_front())
      narrow(operand);
    if (isWide(norm.getX()))
      return true;
    narrow(norm.getXMutable());
    // The statistics stay as they are.
    setHalf(norm.getY());
    return true;
  }
  if (isa<AttentionOp>(op)) {
    for (unsigned i : {0, 1, 2})
      narrow(op->getOpOperand(i));
    setHalf(op->getResult(0));
    return true;
  }
  return false;
}

/// Readers of `result` get it in f32.
void Retyper::widenResult(Value result) {
  Value wide = as(result, f32);
  result.replaceAllUsesExcept(wide, wide.getDefiningOp());
}

void Retyper::widenAll(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(as(operand.get(), f32));
}

/// Elementwise ops and data movement.
void Retyper::visitMixed(Operation *op) {
  bool allFree = true, anyWide = false;
  for (Value operand : op->getOperands()) {
    if (!isF32(operand) && !isHalf(operand))
      continue;
    allFree &= isFree(operand);
    anyWide |= isWide(operand);
  }
  if (allFree) {
    for (Value result : op->getResults())
      free.insert(result);
    return;
  }
  if (anyWide)
    return widenAll(op);
  for (OpOperand &operand : op->getOpOperands())
    narrow(operand);
  for (Value result : op->getResults())
    setHalf(result);
}

void Retyper::visit(Operation *op) {
  if (isa<ConstantOp>(op) || visitNarrow(op))
    return;
  if (isa<func::ReturnOp>(op))
    return widenAll(op);
  auto reduce = dyn_cast<ReduceOp>(op);
  bool isExtremum = reduce && (reduce.getKind() == ReduceKind::max ||
                               reduce.getKind() == ReduceKind::min);
  if (isExtremum ||
      isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ReshapeOp, TransposeOp,
          BroadcastOp, SliceOp, PadOp, ConcatOp, IotaOp>(op))
    return visitMixed(op);
  if (auto convert = dyn_cast<ConvertOp>(op);
      convert && !isa<FloatType>(elementTypeOf(convert.getX()))) {
    free.insert(convert.getResult());
    return;
  }
  widenAll(op);
}

/// The products that logits of a cross entropy come from.
void Retyper::findLogits() {
  SmallVector<Value> values;
  func.walk([&](CrossEntropyOp op) { values.push_back(op.getLogits()); });
  while (!values.empty()) {
    Operation *op = values.pop_back_val().getDefiningOp();
    if (isa_and_nonnull<MatmulOp>(op))
      logits.insert(op);
    else if (isa_and_nonnull<ReshapeOp, TransposeOp, SliceOp, BinaryOp>(op))
      llvm::append_range(values, op->getOperands());
  }
}

void Retyper::run() {
  findLogits();
  SmallVector<Operation *> ops;
  for (Operation &op : func.getBody().front())
    ops.push_back(&op);
  for (Operation *op : ops)
    visit(op);
}

namespace {
struct MixedPrecisionPass
    : dpc::impl::DpcMixedPrecisionBase<MixedPrecisionPass> {
  using DpcMixedPrecisionBase::DpcMixedPrecisionBase;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    func::FuncOp func = getOperation();
    FloatType half = type == "bf16"  ? FloatType(BFloat16Type::get(context))
                     : type == "f16" ? FloatType(Float16Type::get(context))
                                     : FloatType();
    if (!half) {
      func.emitError("compute type is '")
          << type.getValue() << "', expected bf16 or f16";
      return signalPassFailure();
    }
    if (fp8 && !half.isBF16()) {
      func.emitError("compute type is '")
          << type.getValue() << "', expected bf16 for fp8";
      return signalPassFailure();
    }
    if (func.getName() != kForwardFunction || func.isExternal())
      return;
    Retyper(func, half).run();
    if (fp8)
      markFp8Products(func);
  }
};
} // namespace
