//===- MixedPrecision.cpp - dpc-mixed-precision ---------------------------===//
//
// The pass walks @forward once. Every float value has the compute type, has
// f32, or is *free*. Constants, frozen buffers, and values that are computed
// only from free values or integers are free; a free value gets the type that
// its users need. Contractions, norms and tables convert their operands to the
// compute type. Elementwise ops and data movement convert their operands to f32
// if one of the operands has f32. Sums and all other ops convert their operands
// to f32. Each value is converted at most once per type, directly after its
// definition. With fp8, matmuls are marked at the end.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/Fp8.h"
#include "passes/graph/Match.h"
#include "passes/graph/Passes.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCMIXEDPRECISION
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

namespace {

class Retyper {
public:
  Retyper(func::FuncOp func, FloatType half)
      : func(func), half(half), f32(Float32Type::get(func.getContext())) {}
  void run();

private:
  bool isHalf(Value value) const { return elementTypeOf(value) == half; }
  bool isF32(Value value) const { return elementTypeOf(value) == f32; }
  bool isFree(Value value) {
    return roleOf(value) == role::kBuffer || free.contains(value) ||
           value.getDefiningOp<ConstantOp>();
  }
  /// Returns true if users of `value` must compute in f32.
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

/// Rounds a constant to the compute type. Finite numbers remain finite.
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

/// Returns false if `op` does not compute in the compute type.
bool Retyper::visitNarrow(Operation *op) {
  if (isa<MatmulOp, ExpertMatmulOp, ConvOp, RopeOp, SoftmaxOp, EmbeddingOp>(
          op)) {
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
    setHalf(norm.getY());
    return true;
  }
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    for (unsigned i : {0, 1, 2})
      narrow(op->getOpOperand(i));
    if (Value sinks = attention.getSinks()) // with the statistics
      attention.getSinksMutable().assign(as(sinks, f32));
    setHalf(op->getResult(0));
    return true;
  }
  return false;
}

void Retyper::widenResult(Value result) {
  Value wide = as(result, f32);
  result.replaceAllUsesExcept(wide, wide.getDefiningOp());
}

void Retyper::widenAll(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(as(operand.get(), f32));
}

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

void Retyper::findLogits() {
  SmallVector<Value> values;
  func.walk([&](CrossEntropyOp op) { values.push_back(op.getLogits()); });
  dependencies(values, [&](Operation *op) {
    if (isa<MatmulOp>(op))
      logits.insert(op);
    return isa<ReshapeOp, TransposeOp, SliceOp, BinaryOp>(op);
  });
}

void Retyper::run() {
  findLogits();
  auto ops = llvm::to_vector(llvm::make_pointer_range(func.getBody().front()));
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
      markFp8Matmuls(func);
  }
};
} // namespace
