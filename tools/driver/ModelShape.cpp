//===- ModelShape.cpp - Sizes of a transformer from its graph -------------===//
#include "tools/driver/ModelShape.h"

#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/price/StepEstimate.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Stages.h"
#include "tools/driver/ModelTerms.h"

#include "mlir/IR/OwningOpRef.h"

using namespace mlir;

namespace dpc {

static int64_t lastDim(Value value) { return shapeOf(value).back(); }

/// Returns [in, out]; nullopt if both operands depend on samples.
static std::optional<std::pair<int64_t, int64_t>> weightOf(MatmulOp product) {
  Value weight = product.getB();
  while (auto convert = weight.getDefiningOp<ConvertOp>())
    weight = convert.getX();
  if (!isa<BlockArgument>(weight))
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(product.getB());
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  return product.getTb() ? std::pair(columns, rows) : std::pair(rows, columns);
}

static int64_t feedForwardOf(func::FuncOp func, int64_t hidden) {
  int64_t widest = 0;
  func.walk([&](MatmulOp product) {
    auto weight = weightOf(product);
    if (weight && phaseOf(product) == Phase::forward &&
        weight->second == hidden)
      widest = std::max(widest, weight->first);
  });
  return widest;
}

static void readKinds(Operation *op, exports::ModelShape &shape) {
  if (auto norm = dyn_cast<NormOp>(op))
    shape.hasRmsNorm |= norm.getKind() == NormKind::rms;
  shape.hasRope |= isa<RopeOp>(op);
}

/// A mask that is the same for all positions only hides padding.
static bool seesAll(AttentionOp attention) {
  if (attention.getCausal() || !attention.getMask())
    return !attention.getCausal();
  return shapeOf(attention.getMask()).drop_back().back() == 1;
}

/// Returns decoder or encoder only if the model reads tokens [samples,
/// sequence], predicts more than one token per sample, and has layers of one
/// kind.
static exports::ModelKind kindOf(func::FuncOp func) {
  bool readsTokens = false, predictsTokens = false;
  int64_t attentions = 0, thatSeeAll = 0, samples = 0;
  func.walk([&](AttentionOp attention) {
    samples = shapeOf(attention.getQ()).front();
    ++attentions;
    thatSeeAll += seesAll(attention);
  });
  func.walk([&](EmbeddingOp embedding) {
    ArrayRef<int64_t> ids = shapeOf(embedding.getIds());
    readsTokens |= ids.size() == 2 && ids.front() == samples;
  });
  auto lookAt = [&](Value logits) {
    predictsTokens |= shapeOf(logits).front() > samples;
  };
  func.walk([&](Operation *op) {
    if (auto loss = dyn_cast<CrossEntropyOp>(op))
      lookAt(loss.getLogits());
    if (auto sums = dyn_cast<CrossEntropySumsOp>(op)) // the expanded form
      lookAt(sums.getLogits());
  });
  if (!readsTokens || !predictsTokens)
    return exports::ModelKind::other;
  return thatSeeAll == 0            ? exports::ModelKind::decoder
         : thatSeeAll == attentions ? exports::ModelKind::encoder
                                    : exports::ModelKind::other;
}

exports::ModelShape modelShapeOf(func::FuncOp func) {
  exports::ModelShape shape;
  shape.kind = kindOf(func);
  int64_t attentions = 0;
  func.walk([&](Operation *op) {
    readKinds(op, shape);
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (attentions++ > 0)
        return;
      ArrayRef<int64_t> q = shapeOf(attention.getQ());
      shape.heads = q[1];
      shape.sequence = q[2];
      shape.headSize = q[3];
      shape.kvHeads = shapeOf(attention.getK())[1];
    }
    if (auto norm = dyn_cast<NormOp>(op); norm && shape.hidden == 0)
      shape.hidden = lastDim(norm.getX());
    if (auto loss = dyn_cast<CrossEntropyOp>(op))
      shape.vocabulary = lastDim(loss.getLogits());
  });
  shape.layers = attentions;
  if (shape.hidden > 0)
    shape.feedForward = feedForwardOf(func, shape.hidden);
  readTerms(func, shape);
  return shape;
}

std::vector<int64_t> layersByStage(ModuleOp program,
                                   const cost::Cluster &cluster,
                                   const LoweringSpec &spec) {
  if (spec.stages() == 1)
    return {};
  OwningOpRef<ModuleOp> clone(cast<ModuleOp>(mlir::ModuleOp(program)->clone()));
  func::FuncOp func = findProgram(*clone);
  if (!func || failed(markStages(ProgramFacts(func), cluster, spec)))
    return {};
  std::vector<int64_t> layers(static_cast<size_t>(spec.stages()), 0);
  bool hasLayers = false;
  func.walk([&](AttentionOp attention) {
    if (std::optional<int64_t> stage = stageOf(attention)) {
      ++layers[static_cast<size_t>(*stage)];
      hasLayers = true;
    }
  });
  return hasLayers ? layers : std::vector<int64_t>();
}

} // namespace dpc
