//===- FuseEpiloguesMatch.cpp - Epilogues that one GEMM computes ----------===//
#include "ir/GemmEpilogues.h"
#include "ir/TensorUtils.h"
#include "passes/local/FuseEpilogues.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dpc {

static SmallVector<Operation *> opsOf(KernelOp kernel) {
  SmallVector<Operation *> ops;
  for (Operation &op : kernel.getBody().front().without_terminator())
    ops.push_back(&op);
  return ops;
}

static Value yielded(KernelOp kernel, unsigned result) {
  return kernel.getBody().front().getTerminator()->getOperand(result);
}

/// Returns the kernel's operand for the block argument `value`, or null.
static Value outside(KernelOp kernel, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? kernel.getInputs()[argument.getArgNumber()] : Value();
}

/// Returns the reduction of a kernel that only sums all rows of its operand in
/// f32, perhaps after a conversion; null for other kernels.
static ReduceOp rowSum(KernelOp kernel) {
  SmallVector<Operation *> ops = opsOf(kernel);
  if (kernel.getInputs().size() != 1 || kernel.getNumResults() != 1 ||
      ops.empty() || ops.size() > 2)
    return nullptr;
  auto reduce = dyn_cast<ReduceOp>(ops.back());
  if (!reduce || reduce.getKind() != ReduceKind::sum ||
      yielded(kernel, 0) != reduce.getResult() ||
      !elementTypeOf(reduce.getResult()).isF32())
    return nullptr;
  Value from = reduce.getX();
  if (ops.size() == 2) {
    auto convert = dyn_cast<ConvertOp>(ops.front());
    if (!convert || convert.getResult() != from)
      return nullptr;
    from = convert.getX();
  }
  int64_t rank = tensorType(from).getRank();
  if (!isa<BlockArgument>(from) || rank < 2 ||
      static_cast<int64_t>(reduce.getDims().size()) != rank - 1)
    return nullptr;
  for (auto [i, dim] : llvm::enumerate(reduce.getDims()))
    if (dim != static_cast<int64_t>(i))
      return nullptr;
  return reduce;
}

static void convertInside(KernelOp sum, Value narrow) {
  ReduceOp reduce = rowSum(sum);
  BlockArgument argument = sum.getBody().front().getArgument(0);
  Type wide = argument.getType();
  sum->setOperand(0, narrow);
  argument.setType(narrow.getType());
  OpBuilder builder(reduce);
  auto convert = ConvertOp::create(builder, reduce.getLoc(), wide, argument);
  reduce->setOperand(0, convert.getResult());
}

static void dropResults(KernelOp kernel, const llvm::BitVector &drops) {
  OpBuilder builder(kernel);
  SmallVector<Value> kept;
  for (OpResult result : kernel->getResults())
    if (!drops[result.getResultNumber()])
      kept.push_back(result);
  auto rest = KernelOp::create(builder, kernel.getLoc(),
                               TypeRange(ValueRange(kept)), kernel.getInputs());
  rest->setAttrs(kernel->getAttrDictionary());
  rest.getBody().takeBody(kernel.getBody());
  for (auto [old, result] : llvm::zip_equal(kept, rest.getOutputs()))
    old.replaceAllUsesWith(result);
  Operation *yield = rest.getBody().front().getTerminator();
  llvm::SetVector<Value> unread; // a set, because a value may be yielded twice
  for (unsigned i : drops.set_bits())
    unread.insert(yield->getOperand(i));
  yield->eraseOperands(drops);
  for (Value value : unread)
    if (Operation *op = value.getDefiningOp(); op && isOpTriviallyDead(op))
      op->erase();
  kernel.erase();
}

/// For a bias gradient, a kernel may write an f32 copy of a value. This makes
/// the sum read the value, which has half as many bytes, and removes the copy.
void sumNarrowValues(Block &block) {
  for (auto kernel : llvm::make_early_inc_range(block.getOps<KernelOp>())) {
    llvm::BitVector drops(kernel.getNumResults());
    Operation *yield = kernel.getBody().front().getTerminator();
    for (OpResult wide : kernel->getResults()) {
      auto convert =
          yield->getOperand(wide.getResultNumber()).getDefiningOp<ConvertOp>();
      auto narrow = convert ? llvm::find(yield->getOperands(), convert.getX())
                            : yield->operand_end();
      bool isSummed = narrow != yield->operand_end() && !wide.use_empty() &&
                      llvm::all_of(wide.getUsers(), [](Operation *user) {
                        auto sum = dyn_cast<KernelOp>(user);
                        return sum && rowSum(sum) && opsOf(sum).size() == 1;
                      });
      if (!isSummed)
        continue;
      Value value =
          kernel->getResult(std::distance(yield->operand_begin(), narrow));
      for (Operation *user : llvm::make_early_inc_range(wide.getUsers()))
        convertInside(cast<KernelOp>(user), value);
      drops.set(wide.getResultNumber());
    }
    if (drops.any())
      dropResults(kernel, drops);
  }
}

/// True if all readers of `value` before `matmul` can move after it: views,
/// conversions and sums over micro-batches. Adds them to `waiting`.
static bool isReadBehind(Value value, MatmulOp matmul,
                         SmallVector<Operation *> &waiting) {
  for (Operation *reader : value.getUsers()) {
    if (reader->getBlock() != matmul->getBlock() ||
        !reader->isBeforeInBlock(matmul))
      continue;
    waiting.push_back(reader);
    auto kernel = dyn_cast<KernelOp>(reader);
    bool canWait = isMovedView(reader) || isa<AccumulateOp>(reader) ||
                   (kernel && kernel.getNumResults() == 1 &&
                    llvm::all_of(opsOf(kernel), llvm::IsaPred<ConvertOp>));
    if (!canWait || !isReadBehind(reader->getResult(0), matmul, waiting))
      return false;
  }
  return true;
}

/// True if the kernel only converts its operand to `type`, or to `type` and
/// back for an accumulation.
static bool narrowsTo(Type type, KernelOp kernel) {
  SmallVector<Operation *> ops = opsOf(kernel);
  if (kernel.getNumResults() != 1 || ops.empty() || ops.size() > 2 ||
      !llvm::all_of(ops, llvm::IsaPred<ConvertOp>) ||
      tensorType(ops[0]->getResult(0)).getElementType() != type)
    return false;
  return yielded(kernel, 0) == ops.back()->getResult(0) &&
         (ops.size() == 1 || ops[1]->getOperand(0) == ops[0]->getResult(0));
}

/// Adds the sums over the rows of `value`, converted to `type`, to the epilogue
/// of `matmul`. Returns false if no kernel computes them, or if an op that must
/// stay before `matmul` reads them.
static bool addRowSums(Value value, Type type, MatmulOp matmul,
                       FusedEpilogue &fused) {
  for (Operation *user : value.getUsers()) {
    auto sum = dyn_cast<KernelOp>(user);
    if (!sum || !rowSum(sum) || !isSamePhase(sum, matmul))
      continue;
    SmallVector<Operation *> parts = {sum}, waiting;
    Value result = sum->getResult(0);
    KernelOp widening;
    if (!type.isF32()) {
      auto convert = result.hasOneUse()
                         ? dyn_cast<KernelOp>(*result.getUsers().begin())
                         : KernelOp();
      if (!convert || !isSamePhase(convert, matmul) ||
          !narrowsTo(type, convert))
        continue;
      if (opsOf(convert).size() == 2)
        widening = convert;
      else
        parts.push_back(convert);
      if (!widening)
        result = convert->getResult(0);
    }
    if (!isReadBehind(result, matmul, waiting))
      continue;
    fused.sums = result;
    fused.widening = widening;
    fused.parts.append(parts);
    fused.waiting = waiting;
    return true;
  }
  return false;
}

/// Matches a kernel that only adds a bias to the matmul's result, applies gelu
/// or relu, or does both in this order.
static std::optional<FusedEpilogue> activationIn(KernelOp kernel,
                                                 OpOperand &matmul) {
  Value at = kernel.getBody().front().getArgument(matmul.getOperandNumber());
  Value before; // the sum with the bias
  FusedEpilogue found;
  bool hasGelu = false, hasRelu = false;
  for (Operation *op : opsOf(kernel)) {
    auto add = dyn_cast<BinaryOp>(op);
    auto unary = dyn_cast<UnaryOp>(op);
    if (add && add.getKind() == BinaryKind::add && !found.bias && !hasGelu &&
        !hasRelu && llvm::is_contained(add->getOperands(), at)) {
      Value other = add->getOperand(add->getOperand(0) == at ? 1 : 0);
      found.bias = other == at ? Value() : outside(kernel, other);
      if (!found.bias)
        return std::nullopt;
      at = before = add.getResult();
    } else if (unary && unary.getX() == at && !hasGelu && !hasRelu) {
      hasGelu = unary.getKind() == UnaryKind::gelu_tanh;
      hasRelu = unary.getKind() == UnaryKind::relu;
      if (!hasGelu && !hasRelu)
        return std::nullopt;
      at = unary.getResult();
    } else {
      return std::nullopt;
    }
  }
  for (OpResult result : kernel->getResults()) {
    Value value = yielded(kernel, result.getResultNumber());
    Value &place = value == at ? found.result : found.aux;
    if (place || (value != at && (value != before || !hasGelu)))
      return std::nullopt;
    place = result;
  }
  if (!found.result || (!found.bias && !hasGelu && !hasRelu))
    return std::nullopt;
  Value sums = matmul.get();
  if (!sums.hasOneUse()) { // other ops read the argument of gelu
    if (!hasGelu || found.bias)
      return std::nullopt;
    found.aux = sums;
  }
  found.epilogue = hasRelu      ? found.bias ? "relu_bias" : "relu"
                   : !hasGelu   ? "bias"
                   : !found.aux ? found.bias ? "gelu_bias" : "gelu"
                   : found.bias ? "gelu_aux_bias"
                                : "gelu_aux";
  found.parts = {kernel};
  return found;
}

/// Matches a kernel that only multiplies the matmul's result by gelu'(x), where
/// x is its other operand.
static std::optional<FusedEpilogue> geluGradientIn(KernelOp kernel,
                                                   OpOperand &matmul) {
  SmallVector<Operation *> ops = opsOf(kernel);
  if (ops.size() != 2 || kernel.getNumResults() != 1 ||
      !matmul.get().hasOneUse())
    return std::nullopt;
  auto slope = dyn_cast<UnaryOp>(ops[0]);
  auto mul = dyn_cast<BinaryOp>(ops[1]);
  Value argument =
      kernel.getBody().front().getArgument(matmul.getOperandNumber());
  if (!slope || slope.getKind() != UnaryKind::gelu_tanh_grad || !mul ||
      mul.getKind() != BinaryKind::mul ||
      yielded(kernel, 0) != mul.getResult() ||
      !llvm::is_contained(mul->getOperands(), argument) ||
      !llvm::is_contained(mul->getOperands(), slope.getResult()))
    return std::nullopt;
  FusedEpilogue found;
  found.epilogue = "gelu_grad";
  found.aux = outside(kernel, slope.getX());
  found.result = kernel->getResult(0);
  found.parts = {kernel};
  return found.aux ? std::optional(found) : std::nullopt;
}

/// True if the source of `value` exists when the matmul runs. Views can move.
static bool isReady(Value value, MatmulOp matmul) {
  Operation *op = value ? withoutViews(value).getDefiningOp() : nullptr;
  return !op || op->isBeforeInBlock(matmul);
}

/// True for a contiguous row that is broadcast to all rows.
static bool repeatsRows(const StridedView &view) {
  size_t last = view.shape.size() - 1;
  for (size_t d = 0; d < last; ++d)
    if (view.shape[d] != 1 && view.strides[d] != 0)
      return false;
  return view.shape[last] == 1 || view.strides[last] == 1;
}

/// cuBLASLt needs the rows of a matrix to start at multiples of 8 elements.
static constexpr int64_t kAlignment = 8;

static bool isAlignedMatrix(StridedView view) {
  bool isAligned = view.offset % kAlignment == 0;
  view.offset = 0;
  return isAligned && view.isDense();
}

static std::optional<GemmLayout> layoutOf(MatmulOp matmul) {
  auto layout = layOutGemm(layoutOf(matmul.getA()), layoutOf(matmul.getB()),
                           StridedView::dense(shapeOf(matmul.getResult())),
                           matmul.getTa(), matmul.getTb());
  // One GEMM call has at most two batch dimensions.
  constexpr size_t kMostBatches = 2;
  bool isOne =
      layout && !layout->isEmpty() && layout->batches.size() <= kMostBatches;
  return isOne ? layout : std::nullopt;
}

static bool fitsOneCall(const GemmLayout &layout, const FusedEpilogue &fused) {
  StringRef epilogue = fused.epilogue;
  if (epilogue == "none")
    return true;
  return layout.batches.empty() && (!fused.aux || layout.n % kAlignment == 0) &&
         (epilogue != "sums_of_a" || layout.transA) &&
         (epilogue != "sums_of_b" || !layout.transB) &&
         (!fused.bias || repeatsRows(layoutOf(fused.bias))) &&
         (epilogue != "gelu_grad" || isAlignedMatrix(layoutOf(fused.aux)));
}

/// True if `matmul` runs once per micro-batch, writes a dense result to a
/// separate buffer and is not f64.
static bool mayFuse(MatmulOp matmul) {
  return isInLoop(phaseOf(matmul)) && !matmul->hasAttr(attr::kOutPerm) &&
         !matmul->hasAttr(attr::kAgain) && !sumInPlace(matmul) &&
         !elementTypeOf(matmul.getResult()).isF64();
}

std::optional<FusedEpilogue> epilogueAfter(MatmulOp matmul) {
  auto layout = mayFuse(matmul) ? layoutOf(matmul) : std::nullopt;
  if (!layout)
    return std::nullopt;
  Type type = matmul.getResult().getType();
  for (OpOperand &use : matmul.getResult().getUses()) {
    auto kernel = dyn_cast<KernelOp>(use.getOwner());
    if (!kernel || !isSamePhase(kernel, matmul) ||
        kernel->hasAttr(attr::kEpilogue))
      continue;
    auto found = activationIn(kernel, use);
    if (!found)
      found = geluGradientIn(kernel, use);
    bool readsAux = found && found->epilogue == "gelu_grad";
    if (!found || found->result.getType() != type ||
        (found->aux && found->aux.getType() != type) ||
        (found->bias && found->bias.getType() != type) ||
        !isReady(found->bias, matmul) ||
        (readsAux && !isReady(found->aux, matmul)) ||
        !fitsOneCall(*layout, *found))
      continue;
    if (readsAux &&
        addRowSums(found->result, elementTypeOf(found->result), matmul, *found))
      found->epilogue = "gelu_grad_bias";
    return found;
  }
  return std::nullopt;
}

/// If the result is only accumulated over micro-batches, perhaps in a wider
/// type, makes the matmul add to the accumulation buffer and returns true.
static bool addUp(MatmulOp matmul, FusedEpilogue &fused) {
  auto onlyUser = [&](Value value) {
    Operation *user = value.hasOneUse() ? *value.getUsers().begin() : nullptr;
    return user && isSamePhase(user, matmul) ? user : nullptr;
  };
  Operation *user = onlyUser(matmul.getResult());
  auto convert = dyn_cast_if_present<KernelOp>(user);
  if (convert) {
    SmallVector<Operation *> ops = opsOf(convert);
    if (ops.size() != 1 || !isa<ConvertOp>(ops[0]) ||
        convert.getNumResults() != 1)
      return false;
    user = onlyUser(convert->getResult(0));
  }
  auto sum = dyn_cast_if_present<AccumulateOp>(user);
  if (!sum || sum.getKind() != ReduceKind::sum)
    return false;
  RankedTensorType type = tensorType(sum.getResult());
  bool isStored =
      type.getElementType().isF32() || type == matmul.getResult().getType();
  if (type.getShape() != shapeOf(matmul.getResult()) || !isStored)
    return false;
  if (convert)
    fused.parts.push_back(convert);
  fused.adds = sum;
  fused.result = sum.getX();
  return true;
}

/// Adds the sums over the rows of an operand whose rows the matmul contracts.
static bool sumFactor(MatmulOp matmul, const GemmLayout &layout,
                      FusedEpilogue &fused) {
  for (auto [factor, epilogue, isOuter] :
       {std::tuple(matmul.getA(), StringRef("sums_of_a"), matmul.getTa()),
        {matmul.getB(), "sums_of_b", !matmul.getTb()}}) {
    Value value = withoutReshapes(factor);
    FusedEpilogue found = fused;
    found.epilogue = epilogue;
    if (!isOuter || !fitsOneCall(layout, found) ||
        tensorType(factor).getRank() != 2 ||
        tensorType(matmul.getResult()).getRank() != 2 ||
        tensorType(value).getRank() < 2 ||
        shapeOf(value).back() != shapeOf(factor).back() ||
        !addRowSums(value, elementTypeOf(found.result), matmul, found))
      continue;
    fused = std::move(found);
    return true;
  }
  return false;
}

std::optional<FusedEpilogue> epilogueBeside(MatmulOp matmul) {
  auto layout = mayFuse(matmul) ? layoutOf(matmul) : std::nullopt;
  if (!layout)
    return std::nullopt;
  FusedEpilogue found;
  found.result = matmul.getResult();
  bool adds = addUp(matmul, found);
  bool sums = sumFactor(matmul, *layout, found);
  return adds || sums ? std::optional(std::move(found)) : std::nullopt;
}

} // namespace dpc
