//===- AppendLoss.cpp - dpc-append-loss -----------------------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Passes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCAPPENDLOSS
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

/// Rows with this label do not count (PyTorch's default).
static constexpr int64_t kIgnoreIndex = -100;

/// The input that a loss adds.
static constexpr StringLiteral kLabels = "labels";

static StringRef resultName(func::FuncOp func, unsigned index) {
  auto name = func.getResultAttrOfType<StringAttr>(index, attr::kName);
  return name ? name.getValue() : StringRef();
}

/// Returns whether a result is the next value of a buffer, and no output of the
/// model.
static bool isTied(func::FuncOp func, unsigned result) {
  return static_cast<bool>(func.getResultAttr(result, attr::kTies));
}

/// Returns the index of the float output called `name`. If `name` is empty,
/// returns the index of the only float output that is not a scalar.
static FailureOr<unsigned> findOutput(func::FuncOp func, StringRef loss,
                                      StringRef name) {
  SmallVector<unsigned> candidates;
  std::string names;
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    auto type = dyn_cast<RankedTensorType>(func.getResultTypes()[i]);
    if (!type || type.getRank() == 0 || !isFloatTensor(type) || isTied(func, i))
      continue;
    if (!name.empty() && resultName(func, i) == name)
      return i;
    candidates.push_back(i);
    names += (names.empty() ? "'" : ", '") + resultName(func, i).str() + "'";
  }
  if (name.empty() && candidates.size() == 1)
    return candidates.front();
  if (candidates.empty())
    return emitError(func.getLoc(),
                     "no output can carry a loss: none is a tensor of "
                     "floats with at least one dimension");
  if (name.empty())
    return emitError(func.getLoc(), "several outputs can carry the loss: ")
           << names << "; choose one with --loss=" << loss << ":NAME";
  return emitError(func.getLoc(), "no float output is called '")
         << name << "'; there are " << names;
}

/// Refuses a model that has an argument with the name of the labels.
static LogicalResult checkLabels(func::FuncOp func, StringRef loss) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (auto name = func.getArgAttrOfType<StringAttr>(i, attr::kName);
        name && name.getValue() == kLabels)
      return emitError(func.getLoc(), "--loss=")
             << loss << " adds an input '" << kLabels
             << "', but the model has one of this name: rename it in the "
                "model, or train a loss that the model computes "
                "(--loss-output=NAME)";
  return success();
}

static Value addLabels(func::FuncOp func, RankedTensorType type) {
  Builder builder(func.getContext());
  unsigned index = func.getNumArguments();
  NamedAttrList attrs;
  attrs.set(attr::kName, builder.getStringAttr(kLabels));
  attrs.set(attr::kRole, builder.getStringAttr(role::kInput));
  attrs.set(attr::kBatchDim, builder.getI64IntegerAttr(0));
  (void)func.insertArgument(index, type, attrs.getDictionary(func.getContext()),
                            func.getLoc());
  return func.getArgument(index);
}

/// Builds the mean loss of the rows whose label is not kIgnoreIndex.
static Value crossEntropy(GraphBuilder g, Value logits, Value labels) {
  int64_t columns = shapeOf(logits).back();
  int64_t rows = tensorType(labels).getNumElements();
  logits = g.reshape(logits, {rows, columns});
  labels = g.reshape(labels, {rows});
  Type lossElement = statisticsType(elementTypeOf(logits));
  auto rowType = RankedTensorType::get({rows}, lossElement);
  auto loss = CrossEntropyOp::create(g.builder, g.loc, rowType, rowType, logits,
                                     labels, kIgnoreIndex);
  Value counts =
      g.compare(CompareKind::ne, labels, g.constantLike(labels, kIgnoreIndex));
  return g.div(g.reduceAll(ReduceKind::sum, loss.getLoss()),
               g.reduceAll(ReduceKind::sum, g.convert(counts, lossElement)));
}

static std::string listOf(ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

/// Checks that result `index` of `func` has scores of at least two classes.
static LogicalResult checkClasses(func::FuncOp func, unsigned index) {
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(func.getResultTypes()[index]).getShape();
  std::string what =
      "output '" + resultName(func, index).str() + "' " + listOf(shape);
  if (shape.size() < 2)
    return emitError(func.getLoc(), what)
           << " has no dimension of classes; cross_entropy needs [.., classes]";
  if (shape.back() < 2)
    return emitError(func.getLoc(), what)
           << " has " << shape.back()
           << " class, so that cross_entropy is always 0; it needs at least 2 "
              "classes in the last dimension";
  return success();
}

/// Says which output of the model is not trained although it may be its loss.
static void remarkOnOtherLoss(func::FuncOp func, StringRef loss,
                              StringRef output) {
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    StringRef name = resultName(func, i);
    bool isLoss = func.getResultAttr(i, attr::kLoss) || name == "loss";
    if (!isLoss || isTied(func, i))
      continue;
    if (name == output)
      emitRemark(func.getLoc(), "--loss=")
          << loss << " compares the output '" << name
          << "' with labels; if it is a loss, return its mean from the model "
             "instead";
    else
      emitRemark(func.getLoc(), "the loss is --loss=")
          << loss << ":" << output << ", and not the model's output '" << name
          << "'";
  }
}

static Value meanSquaredError(GraphBuilder g, Value output, Value labels) {
  Value difference = g.sub(output, labels);
  Value sum = g.reduceAll(ReduceKind::sum, g.mul(difference, difference));
  return g.scale(sum, 1.0 / tensorType(output).getNumElements());
}

namespace {
struct AppendLossPass : dpc::impl::DpcAppendLossBase<AppendLossPass> {
  using DpcAppendLossBase::DpcAppendLossBase;

  void runOnOperation() override {
    if (loss != "cross_entropy" && loss != "mse") {
      emitError(getOperation().getLoc(), "unknown loss '")
          << loss << "': use cross_entropy or mse";
      return signalPassFailure();
    }
    auto func = getOperation().lookupSymbol<func::FuncOp>(kForwardFunction);
    if (!func) {
      emitError(getOperation().getLoc(),
                "no function @forward to append a loss to");
      return signalPassFailure();
    }
    FailureOr<unsigned> index = findOutput(func, loss, output);
    if (failed(index) || failed(checkLabels(func, loss)))
      return signalPassFailure();
    if (loss == "cross_entropy" && failed(checkClasses(func, *index)))
      return signalPassFailure();
    append(func, *index);
  }

  /// Appends as many "_" to the name of an output called "loss" as make it new.
  static void renameLossOutputs(func::FuncOp func) {
    llvm::StringSet<> taken;
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      taken.insert(resultName(func, i));
    for (unsigned i = 0; i < func.getNumResults(); ++i) {
      std::string name = resultName(func, i).str();
      if (name != "loss")
        continue;
      while (!taken.insert(name).second)
        name += "_";
      func.setResultAttr(i, attr::kName,
                         StringAttr::get(func.getContext(), name));
    }
  }

  void append(func::FuncOp func, unsigned index) {
    Operation *ret = func.front().getTerminator();
    Value value = ret->getOperand(index);
    bool isCrossEntropy = loss == "cross_entropy";
    remarkOnOtherLoss(func, loss, resultName(func, index));
    OpBuilder builder(ret);
    auto labelType = isCrossEntropy
                         ? RankedTensorType::get(shapeOf(value).drop_back(),
                                                 builder.getI64Type())
                         : tensorType(value);
    Value labels = addLabels(func, labelType);
    GraphBuilder g(builder, func.getLoc());
    Value result = isCrossEntropy ? crossEntropy(g, value, labels)
                                  : meanSquaredError(g, value, labels);
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      func.removeResultAttr(i, builder.getStringAttr(attr::kLoss));
    renameLossOutputs(func);
    unsigned position = func.getNumResults();
    auto attrs = builder.getDictionaryAttr(
        {builder.getNamedAttr(attr::kName, builder.getStringAttr("loss")),
         builder.getNamedAttr(attr::kLoss, builder.getUnitAttr())});
    (void)func.insertResult(position, result.getType(), attrs);
    ret->insertOperands(position, result);
  }
};
} // namespace
