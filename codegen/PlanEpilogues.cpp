//===- PlanEpilogues.cpp - Kernels that are a part of a product -----------===//
//
// On GPUs a product does more than multiply (rt::Epilogue) for next to nothing,
// where a kernel of its own would read and write all of its result once more:
//
//   y = gelu(x w + b)          with what gelu is applied to, if it is kept
//   dx = (dy w) gelu'(x)       and the sum of its rows, a bias gradient
//   dw = dy' x                 and the sum of dy's rows, a bias gradient
//   dw += dy' x                over micro-batches, in f32
//
// A kernel that does nothing but that is lowered as nothing: its results are
// made where the product is. It may stand behind the product or, for sums of a
// factor, before it; nobody reads them in between.
//
//===----------------------------------------------------------------------===//
#include "codegen/KernelScalars.h"
#include "codegen/PlanBuilder.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dpc::codegen {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The ops of a kernel, without what ends it.
static SmallVector<Operation *> opsOf(KernelOp kernel) {
  SmallVector<Operation *> ops;
  for (Operation &op : kernel.getBody().front().without_terminator())
    ops.push_back(&op);
  return ops;
}

static Value yielded(KernelOp kernel, unsigned result) {
  return kernel.getBody().front().getTerminator()->getOperand(result);
}

/// The operand of `kernel` that is `value` inside, or null.
static Value outside(KernelOp kernel, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? kernel.getInputs()[argument.getArgNumber()] : Value();
}

//===----------------------------------------------------------------------===//
// Sums of rows
//===----------------------------------------------------------------------===//

/// The op of a kernel that sums all rows of its one operand in f32, which it
/// may convert first; else null.
static ReduceOp rowSum(KernelOp kernel) {
  SmallVector<Operation *> ops = opsOf(kernel);
  if (kernel.getInputs().size() != 1 || kernel.getNumResults() != 1 ||
      ops.empty() || ops.size() > 2)
    return nullptr;
  auto reduce = dyn_cast<ReduceOp>(ops.back());
  if (!reduce || reduce.getKind() != ReduceKind::sum ||
      !scalarsOf(reduce).empty() || yielded(kernel, 0) != reduce.getResult() ||
      !typeOf(reduce.getResult()).getElementType().isF32())
    return nullptr;
  Value from = reduce.getX();
  if (ops.size() == 2) {
    auto convert = dyn_cast<ConvertOp>(ops.front());
    if (!convert || convert.getResult() != from)
      return nullptr;
    from = convert.getX();
  }
  int64_t rank = typeOf(from).getRank();
  if (!isa<BlockArgument>(from) || rank < 2 ||
      static_cast<int64_t>(reduce.getDims().size()) != rank - 1)
    return nullptr;
  for (auto [i, dim] : llvm::enumerate(reduce.getDims()))
    if (dim != static_cast<int64_t>(i))
      return nullptr;
  return reduce;
}

/// Lets a kernel that sums rows convert what it reads.
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

/// `kernel` without the results of `drops`, which nobody reads.
static void dropResults(KernelOp kernel, const llvm::BitVector &drops) {
  OpBuilder builder(kernel);
  OperationState state(kernel.getLoc(), KernelOp::getOperationName());
  state.addOperands(kernel.getInputs());
  state.addAttributes(kernel->getAttrs());
  SmallVector<Value> kept;
  for (OpResult result : kernel->getResults())
    if (!drops[result.getResultNumber()]) {
      kept.push_back(result);
      state.addTypes(result.getType());
    }
  state.addRegion()->takeBody(kernel.getBody());
  auto rest = cast<KernelOp>(builder.create(state));
  for (auto [old, result] : llvm::zip_equal(kept, rest.getOutputs()))
    old.replaceAllUsesWith(result);
  Operation *yield = rest.getBody().front().getTerminator();
  llvm::SetVector<Value> unread; // one value may stand there twice
  for (unsigned i : drops.set_bits())
    unread.insert(yield->getOperand(i));
  yield->eraseOperands(drops);
  for (Value value : unread)
    if (Operation *op = value.getDefiningOp(); op && isOpTriviallyDead(op))
      op->erase();
  kernel.erase();
}

/// A kernel that writes a value and also, for a bias gradient, a copy of it in
/// f32: the sum reads the value itself, half as many bytes, and the copy is
/// gone.
void PlanBuilder::sumNarrowValues() {
  for (auto kernel :
       llvm::make_early_inc_range(step.getBody().front().getOps<KernelOp>())) {
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

/// Whether nobody reads `value` before `product` runs but views and sums over
/// micro-batches, which can wait for it, and which `waiting` takes.
bool PlanBuilder::isReadBehind(Value value, Operation *product,
                               SmallVector<Operation *> &waiting) const {
  for (Operation *reader : value.getUsers()) {
    if (absorbed.contains(reader)) // It runs where another product does.
      return false;
    auto it = position.find(reader);
    if (it == position.end() || it->second > position.at(product))
      continue;
    waiting.push_back(reader);
    auto kernel = dyn_cast<KernelOp>(reader);
    bool canWait = isView(reader) || isa<AccumulateOp>(reader) ||
                   (kernel && kernel.getNumResults() == 1 &&
                    llvm::all_of(opsOf(kernel), llvm::IsaPred<ConvertOp>));
    if (!canWait || !isReadBehind(reader->getResult(0), product, waiting))
      return false;
  }
  return true;
}

/// Whether all that a kernel does is to convert its operand to `type`, and
/// perhaps, to be added up, back.
static bool narrowsTo(Type type, KernelOp kernel) {
  SmallVector<Operation *> ops = opsOf(kernel);
  if (kernel.getNumResults() != 1 || ops.empty() || ops.size() > 2 ||
      !llvm::all_of(ops, llvm::IsaPred<ConvertOp>) ||
      typeOf(ops[0]->getResult(0)).getElementType() != type)
    return false;
  return yielded(kernel, 0) == ops.back()->getResult(0) &&
         (ops.size() == 1 || ops[1]->getOperand(0) == ops[0]->getResult(0));
}

/// Adds the sums of the rows of `value`, converted to `type`, to an epilogue of
/// `product`. False if nobody computes them, or somebody reads them before it.
bool PlanBuilder::addRowSums(Value value, Type type, Operation *product,
                             ProductEpilogue &epilogue) {
  auto isHere = [&](Operation *op) {
    return phaseOf(op) == phaseOf(product) && !absorbed.contains(op);
  };
  for (Operation *user : value.getUsers()) {
    auto sum = dyn_cast<KernelOp>(user);
    if (!sum || !rowSum(sum) || !isHere(sum))
      continue;
    SmallVector<Operation *> parts = {sum}, waiting;
    Value result = sum->getResult(0);
    KernelOp widening;
    if (!type.isF32()) {
      auto convert = result.hasOneUse()
                         ? dyn_cast<KernelOp>(*result.getUsers().begin())
                         : KernelOp();
      if (!convert || !isHere(convert) || !narrowsTo(type, convert))
        continue;
      if (opsOf(convert).size() == 2)
        widening = convert;
      (widening ? waiting : parts).push_back(convert);
      result = convert->getResult(0);
    }
    if (!isReadBehind(result, product, waiting))
      continue;
    epilogue.sums = {widening ? sum->getResult(0) : result, widening, parts,
                     waiting};
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// What stands behind a product
//===----------------------------------------------------------------------===//

/// bias + argument, then gelu or relu of it, in this order, each of them or
/// not; and nothing else.
std::optional<ProductEpilogue>
PlanBuilder::activationIn(KernelOp kernel, OpOperand &product) const {
  Value at = kernel.getBody().front().getArgument(product.getOperandNumber());
  Value before; // what the activation is applied to, if that is no operand
  ProductEpilogue found;
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
  Value sums = product.get();
  if (!sums.hasOneUse()) { // the others read what gelu is applied to
    if (!hasGelu || found.bias)
      return std::nullopt;
    found.aux = sums;
  }
  using rt::Epilogue;
  found.kind = hasRelu      ? found.bias ? Epilogue::ReluBias : Epilogue::Relu
               : !hasGelu   ? Epilogue::Bias
               : !found.aux ? found.bias ? Epilogue::GeluBias : Epilogue::Gelu
               : found.bias ? Epilogue::GeluAuxBias
                            : Epilogue::GeluAux;
  found.parts = {kernel};
  return found;
}

/// argument * gelu'(x) of an operand x, and nothing else.
std::optional<ProductEpilogue>
PlanBuilder::geluGradientIn(KernelOp kernel, OpOperand &product) const {
  SmallVector<Operation *> ops = opsOf(kernel);
  if (ops.size() != 2 || kernel.getNumResults() != 1 ||
      !product.get().hasOneUse())
    return std::nullopt;
  auto slope = dyn_cast<UnaryOp>(ops[0]);
  auto mul = dyn_cast<BinaryOp>(ops[1]);
  Value argument =
      kernel.getBody().front().getArgument(product.getOperandNumber());
  if (!slope || slope.getKind() != UnaryKind::gelu_tanh_grad || !mul ||
      mul.getKind() != BinaryKind::mul ||
      yielded(kernel, 0) != mul.getResult() ||
      !llvm::is_contained(mul->getOperands(), argument) ||
      !llvm::is_contained(mul->getOperands(), slope.getResult()))
    return std::nullopt;
  ProductEpilogue found;
  found.kind = rt::Epilogue::GeluGrad;
  found.aux = outside(kernel, slope.getX());
  found.result = kernel->getResult(0);
  found.parts = {kernel};
  return found.aux ? std::optional(found) : std::nullopt;
}

/// The operands of `epilogue`, or what they are views of, are there when the
/// product runs.
bool PlanBuilder::isReady(const ProductEpilogue &epilogue,
                          MatmulOp product) const {
  auto isMade = [&](Value value) {
    Operation *op = value ? rootOf(value).getDefiningOp() : nullptr;
    return !op || position.at(op) < position.at(product);
  };
  return isMade(epilogue.bias) &&
         (!rt::readsAux(epilogue.kind) || isMade(epilogue.aux));
}

std::optional<ProductEpilogue> PlanBuilder::epilogueBehind(MatmulOp product) {
  Type type = product.getResult().getType();
  for (OpOperand &use : product.getResult().getUses()) {
    auto kernel = dyn_cast<KernelOp>(use.getOwner());
    if (!kernel || phaseOf(kernel) != phaseOf(product) ||
        absorbed.contains(kernel))
      continue;
    auto found = activationIn(kernel, use);
    if (!found)
      found = geluGradientIn(kernel, use);
    if (!found || found->result.getType() != type ||
        (found->aux && found->aux.getType() != type) ||
        (found->bias && found->bias.getType() != type) ||
        !isReady(*found, product))
      continue;
    if (found->kind == rt::Epilogue::GeluGrad &&
        addRowSums(found->result, typeOf(found->result).getElementType(),
                   product, *found))
      found->kind = rt::Epilogue::GeluGradBias;
    return found;
  }
  return std::nullopt;
}

/// A product that is only added up, perhaps in a wider type, is made where the
/// sum lies.
bool PlanBuilder::addUp(MatmulOp product, ProductEpilogue &epilogue) const {
  auto onlyUser = [&](Value value) {
    Operation *user = value.hasOneUse() ? *value.getUsers().begin() : nullptr;
    bool isHere =
        user && phaseOf(user) == phaseOf(product) && !absorbed.contains(user);
    return isHere ? user : nullptr;
  };
  Operation *user = onlyUser(product.getResult());
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
  RankedTensorType type = typeOf(sum.getResult());
  bool isStored =
      type.getElementType().isF32() || type == product.getResult().getType();
  if (type.getShape() != typeOf(product.getResult()).getShape() || !isStored)
    return false;
  if (convert)
    epilogue.parts.push_back(convert);
  epilogue.parts.push_back(sum);
  epilogue.adds = sum;
  epilogue.result = sum.getResult();
  return true;
}

/// Sums of a factor whose rows the product sums over.
bool PlanBuilder::sumFactor(MatmulOp product, ProductEpilogue &found) {
  for (auto [factor, kind, isOuter] :
       {std::tuple(product.getA(), rt::Epilogue::SumsOfA, product.getTa()),
        {product.getB(), rt::Epilogue::SumsOfB, !product.getTb()}}) {
    Value value = withoutReshapes(factor);
    if (!isOuter || typeOf(factor).getRank() != 2 ||
        typeOf(product.getResult()).getRank() != 2 ||
        typeOf(value).getRank() < 2 ||
        typeOf(value).getShape().back() != typeOf(factor).getShape().back() ||
        !addRowSums(value, typeOf(found.result).getElementType(), product,
                    found))
      continue;
    found.kind = kind;
    return true;
  }
  return false;
}

/// What is behind products first: a gradient's sums are a part of it rather
/// than of the next product.
void PlanBuilder::findEpilogues() {
  auto find = [&](auto &&epilogueOf) {
    for (Operation *op : ops) {
      auto product = dyn_cast<MatmulOp>(op);
      if (!product || !inLoop(phaseOf(op)) || op->hasAttr(attr::kOutPerm) ||
          epilogues.contains(op) ||
          typeOf(product.getResult()).getElementType().isF64())
        continue;
      if (std::optional<ProductEpilogue> found = epilogueOf(product)) {
        absorbed.insert_range(found->parts);
        absorbed.insert_range(found->sums.parts);
        absorbed.insert_range(found->sums.waiting);
        epilogues[op] = std::move(*found);
      }
    }
  };
  find([&](MatmulOp product) { return epilogueBehind(product); });
  find([&](MatmulOp product) {
    ProductEpilogue found;
    found.result = product.getResult();
    bool isAdded = addUp(product, found);
    bool isSummed = sumFactor(product, found);
    return isAdded || isSummed ? std::optional(found) : std::nullopt;
  });
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Whether a vector is repeated for every row.
static bool repeatsRows(const StridedView &view) {
  size_t last = view.shape.size() - 1;
  for (size_t d = 0; d < last; ++d)
    if (view.shape[d] != 1 && view.strides[d] != 0)
      return false;
  return view.shape[last] == 1 || view.strides[last] == 1;
}

static bool isDenseSomewhere(StridedView view) {
  view.offset = 0;
  return view.isDense();
}

/// Lowers the views that lead to `value` and whose turn has not come.
LogicalResult PlanBuilder::lowerViewsTo(Value value) {
  if (!value || slots.contains(value))
    return success();
  Operation *view = value.getDefiningOp();
  return success(succeeded(lowerViewsTo(view->getOperand(0))) &&
                 succeeded(lowerView(view)));
}

/// Whether one call can do it, where its operands are. cuBLASLt wants rows of a
/// matrix at multiples of 8 elements.
bool PlanBuilder::canEnd(const rt::MatmulOp &call,
                         const ProductEpilogue &epilogue) const {
  bool isWhole = call.m > 0 && call.n > 0 && call.k > 0;
  if (epilogue.kind == rt::Epilogue::None)
    return isWhole;
  bool isOne = call.batch == 1 && call.batch2 == 1;
  if (!isWhole || !isOne || (epilogue.aux && call.n % 8 != 0) ||
      (epilogue.kind == rt::Epilogue::SumsOfA && !call.transA) ||
      (epilogue.kind == rt::Epilogue::SumsOfB && call.transB))
    return false;
  if (epilogue.bias && !repeatsRows(slots.at(epilogue.bias).view))
    return false;
  if (!rt::readsAux(epilogue.kind))
    return true;
  const StridedView &aux = slots.at(epilogue.aux).view;
  return isDenseSomewhere(aux) && aux.offset % 8 == 0;
}

/// Lets the kernel that converts sums and converts them back read them as the
/// product writes them.
static void readNarrow(KernelOp widening) {
  Operation *convert = opsOf(widening).front();
  BlockArgument argument = widening.getBody().front().getArgument(0);
  Type narrow = convert->getResult(0).getType();
  widening.getInputs()[0].setType(narrow);
  argument.setType(narrow);
  convert->getResult(0).replaceAllUsesWith(argument);
  convert->erase();
}

/// What the product of `call` writes lies in a buffer by now.
void PlanBuilder::bindEpilogue(const ProductEpilogue &epilogue,
                               rt::MatmulOp &call) {
  call.epilogue = epilogue.kind;
  const RowSums &sums = epilogue.sums;
  if (sums.widening)
    readNarrow(sums.widening);
  if (epilogue.bias || sums.result) {
    Slot slot = epilogue.bias ? slots.at(epilogue.bias) : newSlot(sums.result);
    call.bias = slot.buffer;
    call.biasOffset = slot.view.offset;
  }
  if (epilogue.aux) {
    Slot slot = rt::readsAux(epilogue.kind) ? slots.at(epilogue.aux)
                                            : newSlot(epilogue.aux);
    call.aux = slot.buffer;
    call.auxOffset = slot.view.offset;
    call.auxLd = call.n;
  }
}

ProductEpilogue ProductEpilogue::withoutSums() const {
  ProductEpilogue rest = *this;
  rest.sums = {};
  if (kind == rt::Epilogue::GeluGradBias)
    rest.kind = rt::Epilogue::GeluGrad;
  else if (kind == rt::Epilogue::SumsOfA || kind == rt::Epilogue::SumsOfB)
    rest.kind = rt::Epilogue::None;
  return rest;
}

/// One product for `op` and the kernels of its epilogue, or those of them that
/// do not sum rows; false if none can do it.
FailureOr<bool> PlanBuilder::lowerEnding(MatmulOp op,
                                         ProductEpilogue &epilogue) {
  SmallVector<rt::MatmulOp> calls;
  auto type = cast<RankedTensorType>(op.getResult().getType());
  if (failed(callsOf(op, StridedView::dense(type.getShape()), calls)) ||
      failed(lowerViewsTo(epilogue.bias)) ||
      (rt::readsAux(epilogue.kind) && failed(lowerViewsTo(epilogue.aux))))
    return failure();
  if (calls.size() != 1)
    return false;
  rt::MatmulOp call = calls.front();
  SmallVector<Operation *> late = epilogue.sums.waiting;
  if (!canEnd(call, epilogue)) {
    ProductEpilogue rest = epilogue.withoutSums();
    if (!epilogue.sums.result || rest.isNothing() || !canEnd(call, rest))
      return false;
    late = release(epilogue.sums, op);
    epilogue = rest;
  }
  call.c = epilogue.adds ? clearedSlot(epilogue.adds).buffer
                         : newSlot(epilogue.result).buffer;
  call.beta = epilogue.adds ? 1 : 0;
  bindEpilogue(epilogue, call);
  codeFactors(op, call);
  double flops = cast<CostOpInterface>(op.getOperation()).getFlops();
  for (Operation *part :
       llvm::concat<Operation *const>(epilogue.parts, epilogue.sums.parts))
    flops += cast<CostOpInterface>(part).getFlops();
  emit(phaseOf(op), call, nameOfOp(op)).flops = flops;
  if (!lowerLate(late))
    return failure();
  return true;
}

/// Lowers ops whose turn has passed, behind what is being lowered.
bool PlanBuilder::lowerLate(ArrayRef<Operation *> late) {
  SourceOps before = lowering;
  for (Operation *op : late) {
    absorbed.erase(op);
    lowering = {places.at(op), places.at(op)};
    if (failed(lower(op)))
      return false;
  }
  lowering = before;
  return true;
}

/// Sums that are no part of a product after all; returns those whose turn has
/// passed.
SmallVector<Operation *> PlanBuilder::release(const RowSums &sums,
                                              MatmulOp product) {
  SmallVector<Operation *> late;
  for (Operation *op :
       llvm::concat<Operation *const>(sums.parts, sums.waiting)) {
    absorbed.erase(op);
    if (position.at(op) < position.at(product))
      late.push_back(op);
  }
  return late;
}

/// Kernels that are no part of a product after all. They stand behind it but
/// for sums.
LogicalResult PlanBuilder::giveBack(MatmulOp product) {
  const ProductEpilogue &epilogue = epilogues.at(product);
  for (Operation *op : epilogue.parts)
    absorbed.erase(op);
  SmallVector<Operation *> late = release(epilogue.sums, product);
  epilogues.erase(product);
  return success(lowerLate(late));
}

} // namespace dpc::codegen
