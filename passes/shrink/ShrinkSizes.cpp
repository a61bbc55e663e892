//===- ShrinkSizes.cpp - Cutting dimensions -------------------------------===//
#include "ir/Dialect.h"
#include "passes/shard/Factors.h"
#include "passes/shrink/Shrink.h"

using namespace mlir;
using namespace dpc;

namespace {

using Sizes = SmallVector<int64_t, 2>;

class SizeShrinker {
public:
  SizeShrinker(func::FuncOp func, const ShrinkOptions &options)
      : func(func), options(options), factors(func) {}
  LogicalResult run();

private:
  func::FuncOp func;
  const ShrinkOptions &options;
  FactorAnalysis factors;
  DenseSet<int64_t> pinned;            ///< classes that keep their size
  DenseMap<int64_t, int64_t> assigned; ///< new size of the batch's class
  /// Computed before any change, because `factors` reads the old types.
  DenseMap<Value, RankedTensorType> newTypes;
  DenseMap<Operation *, SmallVector<int64_t>> newStarts;
  DenseMap<Operation *, DenseElementsAttr> newConstants;

  void pinDim(Value value, int64_t dim);
  void pinIterDim(Operation *op, int64_t dim);
  void pinTensor(Operation *op, const TensorMap &map, Value value);
  void pinOp(Operation *op);
  LogicalResult assignBatch();

  int64_t firstFactor(Value value, int64_t dim) const;
  int64_t newSize(int64_t factorClass, int64_t size) const;
  Sizes newFactors(Value value, int64_t dim) const;
  RankedTensorType newType(Value value) const;
  int64_t newIterSize(Operation *op, int64_t dim) const;
  SmallVector<int64_t> movedStarts(Operation *op, const TensorMap &large,
                                   const TensorMap &small,
                                   ArrayRef<int64_t> starts) const;
  DenseElementsAttr leadingPart(ConstantOp constant) const;
  void decide();
  void apply();
};

} // namespace

int64_t SizeShrinker::firstFactor(Value value, int64_t dim) const {
  int64_t first = 0;
  for (int64_t d = 0; d < dim; ++d)
    first += factors.factors(value, d).size();
  return first;
}

void SizeShrinker::pinDim(Value value, int64_t dim) {
  int64_t first = firstFactor(value, dim);
  for (size_t i = 0; i < factors.factors(value, dim).size(); ++i)
    pinned.insert(factors.classOf(value, first + i));
}

void SizeShrinker::pinIterDim(Operation *op, int64_t dim) {
  for (int64_t i = 0, e = factors.factors(op, dim).size(); i < e; ++i)
    pinned.insert(factors.classOf(op, {dim, i}));
}

/// Pins dimensions whose iteration dimension is missing or blocked.
void SizeShrinker::pinTensor(Operation *op, const TensorMap &map, Value value) {
  for (auto [d, dimMap] : llvm::enumerate(map)) {
    bool isLinked = !dimMap.empty() && llvm::none_of(dimMap, [&](int64_t dim) {
      return factors.isBlocked(op, dim);
    });
    if (isLinked)
      continue;
    pinDim(value, d);
    for (int64_t dim : dimMap)
      pinIterDim(op, dim);
  }
}

void SizeShrinker::pinOp(Operation *op) {
  auto pinWhole = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    for (int64_t d = 0, e = type ? type.getRank() : 0; d < e; ++d)
      pinDim(value, d);
  };
  if (!factors.hasRule(op)) {
    if (isa<ConstantOp>(op) || op->hasTrait<mlir::OpTrait::IsTerminator>())
      return; // other ops determine the sizes
    for (Value operand : op->getOperands())
      pinWhole(operand);
    for (Value result : op->getResults())
      pinWhole(result);
    return;
  }
  const ShardingRule &rule = factors.rule(op);
  for (auto [map, value] : llvm::zip(rule.operands, op->getOperands()))
    pinTensor(op, map, value);
  for (auto [map, value] : llvm::zip(rule.results, op->getResults()))
    pinTensor(op, map, value);
  // If one of these ops cannot split a dimension, the size of the dimension
  // depends on an attribute or on other dimensions.
  if (isa<SliceOp, PadOp, ConcatOp, ReshapeOp, ConvOp, ConvGradInputOp,
          ConvGradFilterOp, MaxPoolOp, MaxPoolGradOp>(op))
    for (auto [dim, iter] : llvm::enumerate(rule.dims))
      if (iter.whole)
        pinIterDim(op, dim);
}

LogicalResult SizeShrinker::assignBatch() {
  for (BlockArgument argument : func.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto dim = func.getArgAttrOfType<IntegerAttr>(number, attr::kBatchDim);
    if (!dim || options.batch == 0)
      continue;
    int64_t first = firstFactor(argument, dim.getInt());
    ArrayRef<int64_t> sizes = factors.factors(argument, dim.getInt());
    int64_t batch =
        cast<RankedTensorType>(argument.getType()).getDimSize(dim.getInt());
    if (batch == options.batch)
      continue;
    if (sizes.size() != 1 || pinned.contains(factors.classOf(argument, first)))
      return func.emitError("the batch of input ")
             << number << " (" << batch
             << " samples) is tied to sizes that cannot change";
    assigned[factors.classOf(argument, first)] = options.batch;
  }
  return success();
}

int64_t SizeShrinker::newSize(int64_t factorClass, int64_t size) const {
  if (auto it = assigned.find(factorClass); it != assigned.end())
    return it->second;
  if (pinned.contains(factorClass))
    return size;
  auto agrees = [&](int64_t candidate) {
    return candidate % 2 == size % 2 && (candidate % options.newParts == 0) ==
                                            (size % options.oldParts == 0);
  };
  for (int64_t candidate = options.size; candidate < size; ++candidate) {
    if (agrees(candidate))
      return candidate;
    // No size near options.size has both properties: keep only the parity.
    if (candidate > options.size + 2 * options.newParts)
      return options.size + size % 2;
  }
  return size;
}

Sizes SizeShrinker::newFactors(Value value, int64_t dim) const {
  Sizes result;
  int64_t at = firstFactor(value, dim);
  for (int64_t size : factors.factors(value, dim))
    result.push_back(newSize(factors.classOf(value, at++), size));
  return result;
}

RankedTensorType SizeShrinker::newType(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    shape.push_back(
        type.getDimSize(d) == 0 ? 0 : llvm::product_of(newFactors(value, d)));
  Type element = type.getElementType();
  if (element.isBF16() || element.isF16())
    element = Float32Type::get(type.getContext());
  return RankedTensorType::get(shape, element);
}

int64_t SizeShrinker::newIterSize(Operation *op, int64_t dim) const {
  int64_t result = 1;
  for (auto [i, size] : llvm::enumerate(factors.factors(op, dim)))
    result *=
        newSize(factors.classOf(op, {dim, static_cast<int64_t>(i)}), size);
  return result;
}

/// Returns the offsets `starts` into `large` after shrinking. An offset is a
/// multiple of the size of the innermost dimension that `large` and `small`
/// share, and changes in proportion to this size.
SmallVector<int64_t> SizeShrinker::movedStarts(Operation *op,
                                               const TensorMap &large,
                                               const TensorMap &small,
                                               ArrayRef<int64_t> starts) const {
  SmallVector<int64_t> moved(starts);
  for (auto [start, from, to] : llvm::zip(moved, large, small)) {
    if (start == 0 || from.empty() || to.empty() || from.back() != to.back())
      continue;
    int64_t inner = factors.rule(op).dims[from.back()].size;
    start = start / inner * newIterSize(op, from.back());
  }
  return moved;
}

static Attribute asF32(Attribute value) {
  auto number = dyn_cast<FloatAttr>(value);
  if (!number || !(number.getType().isBF16() || number.getType().isF16()))
    return value;
  return FloatAttr::get(Float32Type::get(value.getContext()),
                        number.getValueAsDouble());
}

DenseElementsAttr SizeShrinker::leadingPart(ConstantOp constant) const {
  auto value = cast<DenseElementsAttr>(constant.getValue());
  RankedTensorType type = newTypes.lookup(constant.getResult());
  if (value.isSplat())
    return DenseElementsAttr::get(type,
                                  asF32(value.getSplatValue<Attribute>()));
  Sizes before, after;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    llvm::append_range(before, factors.factors(constant.getResult(), d));
    after.append(newFactors(constant.getResult(), d));
  }
  SmallVector<Attribute> elements;
  auto all = value.getValues<Attribute>();
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i) {
    int64_t left = i, index = 0, stride = 1;
    for (int64_t f = after.size() - 1; f >= 0; --f) {
      index += left % after[f] * stride;
      left /= after[f];
      stride *= before[f];
    }
    elements.push_back(asF32(all[index]));
  }
  return DenseElementsAttr::get(type, elements);
}

void SizeShrinker::decide() {
  for (BlockArgument argument : func.getArguments())
    newTypes[argument] = newType(argument);
  for (Operation &op : func.getBody().front()) {
    for (Value result : op.getResults())
      newTypes[result] = newType(result);
    if (auto constant = dyn_cast<ConstantOp>(op))
      newConstants[&op] = leadingPart(constant);
    if (!factors.hasRule(&op))
      continue;
    const ShardingRule &rule = factors.rule(&op);
    if (auto slice = dyn_cast<SliceOp>(op))
      newStarts[&op] = movedStarts(&op, rule.operands[0], rule.results[0],
                                   slice.getOffsets());
    if (auto pad = dyn_cast<PadOp>(op))
      newStarts[&op] =
          movedStarts(&op, rule.results[0], rule.operands[0], pad.getLow());
  }
}

void SizeShrinker::apply() {
  for (auto [value, type] : newTypes) {
    auto argument = dyn_cast<BlockArgument>(value);
    // The weights in the file have the old shape.
    if (argument &&
        cast<RankedTensorType>(value.getType()).getShape() != type.getShape())
      func.removeArgAttr(argument.getArgNumber(),
                         StringAttr::get(func.getContext(), attr::kSource));
    Value(value).setType(type);
  }
  for (auto [op, starts] : newStarts)
    if (auto slice = dyn_cast<SliceOp>(op))
      slice.setOffsets(starts);
    else
      cast<PadOp>(op).setLow(starts);
  for (auto [op, value] : newConstants)
    cast<ConstantOp>(op).setValueAttr(value);
  Block &body = func.getBody().front();
  func.setType(FunctionType::get(func.getContext(), body.getArgumentTypes(),
                                 body.getTerminator()->getOperandTypes()));
}

LogicalResult SizeShrinker::run() {
  for (Operation &op : func.getBody().front()) {
    auto constant = dyn_cast<ConstantOp>(op);
    if (constant && !isa<DenseElementsAttr>(constant.getValue()))
      return op.emitError(
          "the constant cannot be cut: expected dense elements");
    pinOp(&op);
  }
  if (failed(assignBatch()))
    return failure();
  decide();
  apply();
  return success();
}

LogicalResult dpc::shrinkSizes(func::FuncOp forward,
                               const ShrinkOptions &options) {
  return SizeShrinker(forward, options).run();
}
