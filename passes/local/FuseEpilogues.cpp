//===- FuseEpilogues.cpp - dpc-end-products ---------------------------------===//
//
// On GPUs a product does more than multiply for next to nothing, where a kernel
// of its own would read and write all of its result once more:
//
//   y = gelu(x w + b)          with what gelu is applied to, if it is kept
//   dx = (dy w) gelu'(x)       and the sum of its rows, a bias gradient
//   dw = dy' x                 and the sum of dy's rows, a bias gradient
//   dw += dy' x                over micro-batches, in f32
//
// What does nothing but that goes into one kernel with the product, at the
// place of the product. It may have stood behind it or, sums of a factor,
// before it; then what reads those waits.
//
//===----------------------------------------------------------------------===//
#include "passes/local/FuseEpilogues.h"
#include "ir/GemmEpilogues.h"
#include "passes/local/EachStep.h"
#include "passes/local/Passes.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCENDPRODUCTS
#include "passes/local/Passes.h.inc"

namespace {

/// Makes the kernel of a product and what ends it.
class EndedKernel {
public:
  EndedKernel(MatmulOp product, ProductEnding &ending)
      : product(product), ending(ending), builder(product) {}
  void build();

private:
  void makeViewsReady(Value value);
  Value argumentFor(Value value);
  void addProduct();
  void addPart(KernelOp part);
  KernelOp create();
  void narrowSums(Value sums);

  MatmulOp product;
  ProductEnding &ending;
  OpBuilder builder;
  Block *body = nullptr;
  SmallVector<Value> inputs;
  IRMapping map; ///< From values outside to those of the body.
};

} // namespace

/// Moves the views that lead to `value` before the product.
void EndedKernel::makeViewsReady(Value value) {
  Operation *view = value.getDefiningOp();
  if (!view || !isMarkedView(view) || view->isBeforeInBlock(product))
    return;
  makeViewsReady(view->getOperand(0));
  view->moveBefore(product);
}

Value EndedKernel::argumentFor(Value value) {
  if (Value known = map.lookupOrNull(value))
    return known;
  Value argument = body->addArgument(value.getType(), value.getLoc());
  inputs.push_back(value);
  map.map(value, argument);
  return argument;
}

/// The factors are the first two operands, also where they are one value.
void EndedKernel::addProduct() {
  for (Value factor : product->getOperands()) {
    Value argument = body->addArgument(factor.getType(), factor.getLoc());
    inputs.push_back(factor);
    map.map(factor, argument);
  }
  auto inner = cast<MatmulOp>(builder.clone(*product));
  for (unsigned i = 0; i < inner->getNumOperands(); ++i)
    inner->setOperand(i, body->getArgument(i));
  inner->removeAttr(attr::kPhase);
  inner->removeAttr(attr::kChunk);
  map.map(product.getResult(), inner.getResult());
}

void EndedKernel::addPart(KernelOp part) {
  Block &from = part.getBody().front();
  IRMapping inside;
  for (auto [argument, input] :
       llvm::zip_equal(from.getArguments(), part.getInputs()))
    inside.map(argument, argumentFor(input));
  for (Operation &op : from.without_terminator())
    builder.clone(op, inside);
  for (auto [result, value] :
       llvm::zip_equal(part.getOutputs(), from.getTerminator()->getOperands()))
    map.map(result, inside.lookup(value));
}

KernelOp EndedKernel::create() {
  SmallVector<Value> yielded = {map.lookup(ending.result)};
  if (ending.sums)
    yielded.push_back(map.lookup(ending.sums));
  else if (ending.aux && ending.epilogue != "gelu_grad")
    yielded.push_back(map.lookup(ending.aux));
  YieldOp::create(builder, product.getLoc(), yielded);
  builder.setInsertionPoint(product);
  OperationState state(product.getLoc(), KernelOp::getOperationName());
  state.addOperands(inputs);
  state.addTypes(TypeRange(ValueRange(yielded)));
  for (StringRef name : {attr::kPhase, attr::kChunk})
    if (Attribute value = product->getAttr(name))
      state.addAttribute(name, value);
  state.addAttribute(attr::kEpilogue, builder.getStringAttr(ending.epilogue));
  state.addRegion()->push_back(body);
  return cast<KernelOp>(builder.create(state));
}

/// Lets the kernel that converts sums and converts them back read `sums`, which
/// the product writes in its own type.
void EndedKernel::narrowSums(Value sums) {
  Block &block = ending.widening.getBody().front();
  Operation *convert = &block.front();
  BlockArgument argument = block.getArgument(0);
  ending.widening->setOperand(0, sums);
  argument.setType(sums.getType());
  convert->getResult(0).replaceAllUsesWith(argument);
  convert->erase();
}

void EndedKernel::build() {
  if (ending.bias)
    makeViewsReady(ending.bias);
  if (ending.aux)
    makeViewsReady(ending.aux);
  body = new Block;
  builder.setInsertionPointToEnd(body);
  addProduct();
  for (Operation *part : ending.parts)
    addPart(cast<KernelOp>(part));
  if (ending.widening) { // as it begins
    IRMapping sums;
    Block &block = ending.widening.getBody().front();
    sums.map(block.getArgument(0), map.lookup(ending.sums));
    Operation *narrow = builder.clone(block.front(), sums);
    map.map(ending.sums, narrow->getResult(0));
  }
  KernelOp kernel = create();
  ending.result.replaceAllUsesWith(kernel.getResult(0));
  if (ending.widening)
    narrowSums(kernel.getResult(kEndResult));
  else if (kernel.getNumResults() > kEndResult)
    (ending.sums ? ending.sums : ending.aux)
        .replaceAllUsesWith(kernel.getResult(kEndResult));
  Operation *last = kernel;
  for (Operation *op : ending.waiting) {
    op->moveAfter(last);
    last = op;
  }
  for (Operation *part : llvm::reverse(ending.parts))
    part->erase();
  product.erase();
}

static void end(MatmulOp product, ProductEnding ending) {
  if (ending.adds)
    ending.adds->setAttr(attr::kView, UnitAttr::get(product.getContext()));
  bool isPlain = ending.parts.empty(); // All that it does is to add.
  if (!isPlain)
    EndedKernel(product, ending).build();
}

/// What is behind products first: a gradient's sums are a part of it rather
/// than of the next product.
void endProducts(func::FuncOp step) {
  Block &block = step.getBody().front();
  sumNarrowValues(block);
  for (auto find : {endingBehind, endingBeside})
    for (auto product : llvm::make_early_inc_range(block.getOps<MatmulOp>()))
      if (std::optional<ProductEnding> ending = find(product))
        end(product, std::move(*ending));
}

namespace {

struct EndProductsPass : impl::DpcEndProductsBase<EndProductsPass> {
  void runOnOperation() override { onEachStep(getOperation(), endProducts); }
};

} // namespace

} // namespace dpc
