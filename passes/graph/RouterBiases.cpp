//===- RouterBiases.cpp - Biases that balance experts ---------------------===//
#include "passes/graph/RouterBiases.h"

#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Autodiff.h"

using namespace mlir;

namespace dpc {

namespace {

/// On arguments of @forward: the rate of balanceExperts.
constexpr llvm::StringLiteral kRate = "dpc.balance_rate";

/// Returns the op that chose `ids`, or null.
TopKOp chooserOf(Value ids) {
  Operation *op = ids.getDefiningOp();
  while (op && !isa<TopKOp>(op))
    op = isa<ReshapeOp, ConvertOp>(op) ? op->getOperand(0).getDefiningOp()
                                       : nullptr;
  return dyn_cast_if_present<TopKOp>(op);
}

} // namespace

SmallVector<RouterBias> findRouterBiases(func::FuncOp func) {
  auto never = [](Operation *) { return false; };
  DenseSet<Value> outputs;
  for (Value output : func.front().getTerminator()->getOperands())
    outputs.insert_range(reachedFrom(output, never));
  // Products of one mixture have the same ids.
  llvm::SmallSetVector<TopKOp, 8> routers;
  func.walk([&](ExpertMatmulOp product) {
    if (TopKOp router = chooserOf(product.getIds()))
      routers.insert(router);
  });
  SmallVector<RouterBias> biases;
  for (TopKOp router : routers) {
    DenseSet<Value> sources = reachedFrom(router.getX(), never);
    int64_t experts = shapeOf(router.getX()).back();
    for (BlockArgument argument : func.getArguments())
      if (roleOf(argument) == role::kBuffer && sources.contains(argument) &&
          !outputs.contains(argument) &&
          shapeOf(argument) == ArrayRef<int64_t>(experts))
        biases.push_back({argument.getArgNumber(), router.getIndices()});
  }
  return biases;
}

size_t balanceExperts(func::FuncOp forward, double rate) {
  SmallVector<RouterBias> biases = findRouterBiases(forward);
  for (const RouterBias &bias : biases)
    forward.setArgAttr(bias.argument, kRate,
                       Builder(forward).getF64FloatAttr(rate));
  return biases.size();
}

void ExpertBalance::unmark(NamedAttrList &argumentAttrs) {
  argumentAttrs.erase(kRate);
}

void ExpertBalance::count(GraphBuilder g, func::FuncOp forward,
                          const IRMapping &toStep) {
  auto isMarked = [&](BlockArgument argument) {
    return forward.getArgAttr(argument.getArgNumber(), kRate) != nullptr;
  };
  if (llvm::none_of(forward.getArguments(), isMarked))
    return;
  Type f32 = g.builder.getF32Type();
  for (const RouterBias &bias : findRouterBiases(forward)) {
    auto rate = forward.getArgAttrOfType<FloatAttr>(bias.argument, kRate);
    if (!rate)
      continue;
    Value old = forward.getArgument(bias.argument);
    Value chosen = toStep.lookup(bias.chosen);
    SmallVector<int64_t> shape(shapeOf(chosen));
    shape.push_back(1);
    Value ones = g.constant(RankedTensorType::get(shape, f32), 1.0);
    auto type = RankedTensorType::get({shapeOf(old).front(), 1}, f32);
    Value counts = EmbeddingGradOp::create(g.builder, g.loc, type, chosen, ones,
                                           TypeAttr());
    balanced.push_back({cast<BlockArgument>(toStep.lookup(old)).getArgNumber(),
                        rate.getValueAsDouble(),
                        g.reshape(counts, shapeOf(old)), Value()});
  }
}

static Value meanOf(GraphBuilder g, Value counts) {
  return g.scale(g.reduceAll(ReduceKind::sum, counts),
                 1.0 / static_cast<double>(shapeOf(counts).front()));
}

void ExpertBalance::update(GraphBuilder g, Value good) {
  Block &step = *g.builder.getInsertionBlock();
  for (BalancedBias &bias : balanced) {
    Value old = step.getArgument(bias.argument);
    ArrayRef<int64_t> shape = shapeOf(old);
    Value mean = meanOf(g, bias.counts);
    Value most = g.reduceAll(ReduceKind::max, bias.counts);
    Value own = g.div(most, mean);
    load = load ? g.binary(BinaryKind::maximum, load, own) : own;
    Value left = g.sub(g.broadcast(mean, shape, {}), bias.counts);
    Value sign = g.unary(UnaryKind::sign, left);
    Value change = g.convert(g.scale(sign, bias.rate), elementTypeOf(old));
    bias.next = g.add(old, change);
    if (good)
      bias.next = g.select(g.broadcast(good, shape, {}), bias.next, old);
  }
}

} // namespace dpc
