//===- ModelTerms.cpp - Properties of a transformer from its graph --------===//
#include "tools/driver/ModelTerms.h"

#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/price/StepEstimate.h"
#include "tools/driver/ModelParts.h"
#include "tools/driver/Origins.h"
#include "tools/driver/WeightFacts.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace dpc {

using exports::ModelShape;
using exports::Oddity;

/// A product with a weight, plus a vector.
static bool isBiased(Value value) {
  auto sum = madeBy<BinaryOp>(value);
  if (!sum || sum.getKind() != BinaryKind::add)
    return false;
  auto isVector = [](Value term) {
    return isWeight(term) && shapeOf(originOf(term)).size() == 1;
  };
  return (weightProduct(sum.getA()) && isVector(sum.getB())) ||
         (weightProduct(sum.getB()) && isVector(sum.getA()));
}

static bool isProjected(Value value) {
  return isBiased(value) || weightProduct(value);
}

static bool isActivation(UnaryOp op) {
  switch (op.getKind()) {
  case UnaryKind::relu:
  case UnaryKind::gelu:
  case UnaryKind::gelu_tanh:
  case UnaryKind::silu:
  case UnaryKind::tanh:
  case UnaryKind::sigmoid:
    return isProjected(op.getX());
  default:
    return false;
  }
}

/// Returns the gated projection if `op` gates another one: silu(a) * b.
static bool isGate(BinaryOp op) {
  auto gates = [](Value gate, Value other) {
    auto unary = madeBy<UnaryOp>(gate);
    return unary && unary.getKind() == UnaryKind::silu && isActivation(unary) &&
           isProjected(other);
  };
  return op.getKind() == BinaryKind::mul &&
         (gates(op.getA(), op.getB()) || gates(op.getB(), op.getA()));
}

/// Returns the width of the feed-forward layer that `product` ends, or 0.
static int64_t widthOf(MatmulOp product) {
  if (!isWeight(product.getB()))
    return 0;
  auto unary = madeBy<UnaryOp>(product.getA());
  auto binary = madeBy<BinaryOp>(product.getA());
  bool ends = (unary && isActivation(unary)) || (binary && isGate(binary));
  return ends ? shapeOf(product.getA()).back() : 0;
}

static bool hasUser(Value value, llvm::function_ref<bool(Operation *)> test) {
  return llvm::any_of(value.getUsers(), test);
}

static bool isSum(Operation *op) {
  auto binary = dyn_cast<BinaryOp>(op);
  return binary && binary.getKind() == BinaryKind::add;
}

/// Reads the float elements of a constant or of a buffer in a file.
static std::vector<double> valuesOf(Value value) {
  std::vector<double> values;
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    if (auto dense = dyn_cast<DenseFPElementsAttr>(constant.getValue()))
      for (const APFloat &each : dense.getValues<APFloat>())
        values.push_back(each.convertToDouble());
    return values;
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    std::vector<float> floats = valuesInFile(argument);
    values.assign(floats.begin(), floats.end());
  }
  return values;
}

/// Returns the base if `values` are base^(-2i/size), else 0.
static double baseOf(const std::vector<double> &values, int64_t size) {
  constexpr double kTolerance = 1e-4;
  if (values.size() < 2 || static_cast<int64_t>(values.size()) * 2 != size)
    return 0;
  auto last = static_cast<double>(values.size() - 1);
  auto width = static_cast<double>(size);
  double base = std::pow(values.back(), -width / (2 * last));
  for (size_t i = 0; i < values.size(); ++i) {
    double expected = std::pow(base, -2 * static_cast<double>(i) / width);
    if (!(std::abs(values[i] - expected) <= kTolerance * expected))
      return 0;
  }
  double rounded = std::round(base);
  return std::abs(base - rounded) <= kTolerance * base ? rounded : base;
}

/// Searches for frequencies among the values that `angles` depends on.
static double ropeBaseOf(Value angles, int64_t size) {
  llvm::SetVector<Value> found;
  found.insert(angles);
  for (size_t i = 0; i < found.size(); ++i) {
    Value value = found[i];
    if (tensorType(value).getNumElements() == size / 2)
      if (double base = baseOf(valuesOf(value), size); base > 0)
        return base;
    if (Operation *made = value.getDefiningOp())
      found.insert(made->operand_begin(), made->operand_end());
  }
  return 0;
}

namespace {

class TermReader {
public:
  TermReader(func::FuncOp func, ModelShape &shape) : func(func), shape(shape) {}

  void read() {
    // Fused models have one phase; of a training step, the others only repeat.
    func.walk([&](Operation *op) {
      if (phaseOf(op) == Phase::forward)
        visit(op);
    });
    readArguments();
    readEnds();
    shape.hasBias = llvm::any_of(
        biases, [&](Operation *bias) { return !ofAttention.contains(bias); });
    shape.activation = activations.size() == 1 ? *activations.begin() : "";
    if (activations.size() > 1)
      shape.oddities.insert(Oddity::severalActivations);
    if (epsilons.size() > 1)
      shape.oddities.insert(Oddity::unequalNorms);
    else if (!epsilons.empty())
      shape.normEps = *epsilons.begin();
    if (int64_t width = denseWidth > 0 ? denseWidth : shape.expertWidth)
      shape.feedForward = width;
  }

private:
  void visit(Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      readAttention(attention);
    else if (auto norm = dyn_cast<NormOp>(op))
      readNorm(norm);
    else if (auto rope = dyn_cast<RopeOp>(op))
      readRope(rope);
    else if (auto product = dyn_cast<MatmulOp>(op))
      readProduct(product);
    else if (auto top = dyn_cast<TopKOp>(op))
      readRouter(top);
    else if (auto unary = dyn_cast<UnaryOp>(op); unary && isActivation(unary))
      activations.insert(stringifyUnaryKind(unary.getKind()).str());
    else if (isa<CumSumOp>(op))
      hasSlots = true;
    if (auto binary = dyn_cast<BinaryOp>(op)) {
      shape.hasSwiglu |= isGate(binary);
      if (isBiased(binary.getResult()))
        biases.insert(op);
    }
  }

  void readAttention(AttentionOp attention) {
    shape.hasExperts.push_back(false);
    double usual = 1 / std::sqrt(static_cast<double>(shape.headSize));
    double scale = attention.getScale().convertToDouble();
    if (std::abs(scale - usual) > 1e-5 * usual)
      shape.oddities.insert(Oddity::otherScale);
    if (attention.getMask() && attention.getCausal())
      shape.oddities.insert(Oddity::addedMask);
    if (attention.getWindow())
      shape.oddities.insert(Oddity::window);
    if (attention.getSinks())
      shape.oddities.insert(Oddity::sinks);
    for (Value value : {attention.getQ(), attention.getK(), attention.getV()}) {
      if (auto rope = madeBy<RopeOp>(value))
        value = rope.getX();
      if (auto norm = madeBy<NormOp>(value)) {
        shape.hasHeadNorms = true;
        value = norm.getX();
      }
      if (!isBiased(value))
        continue;
      shape.hasQkvBias = true;
      ofAttention.insert(originOf(value).getDefiningOp());
    }
  }

  void readNorm(NormOp norm) {
    epsilons.insert(static_cast<float>(norm.getEps().convertToDouble()));
    if (shapeOf(norm.getX()).back() != shape.hidden)
      return;
    if (hasUser(norm.getY(), isSum))
      shape.oddities.insert(Oddity::postNorm);
    if (!normed.insert(originOf(norm.getX())))
      shape.oddities.insert(Oddity::parallelParts);
  }

  void readRope(RopeOp rope) {
    if (shapeOf(rope.getX()).back() != shape.headSize)
      shape.oddities.insert(Oddity::partialRope);
    else if (shape.ropeBase == 0)
      shape.ropeBase = ropeBaseOf(rope.getCos(), shape.headSize);
  }

  void readProduct(MatmulOp product) {
    int64_t width = widthOf(product);
    if (width == 0)
      return;
    bool isInMixture = !shape.hasExperts.empty() && shape.hasExperts.back();
    if (shapeOf(originOf(product.getB())).size() == 3) {
      shape.expertWidth = width;
      slots = shapeOf(product.getA()).front() *
              shapeOf(product.getA()).drop_front()[0];
    } else if (isInMixture) {
      shape.sharedWidth = width;
    } else {
      denseWidth = std::max(denseWidth, width);
    }
  }

  void readRouter(TopKOp top) {
    if (shape.hasExperts.empty())
      return;
    shape.hasExperts.back() = true;
    shape.expertsPerToken = shapeOf(top.getValues()).back();
    routed = tensorType(top.getValues()).getNumElements();
    auto softmax = madeBy<SoftmaxOp>(top.getX());
    if (!softmax || !isProjected(softmax.getX()))
      shape.oddities.insert(Oddity::otherRouter);
    shape.sharesSumToOne = hasUser(top.getValues(), [](Operation *user) {
      auto binary = dyn_cast<BinaryOp>(user);
      return binary && binary.getKind() == BinaryKind::div;
    });
  }

  void readArguments() {
    bool isForward = !func.getName().contains("train");
    for (BlockArgument argument : func.getArguments()) {
      StringRef role = roleOf(argument);
      if (role == role::kParameter)
        shape.parameters += tensorType(argument).getNumElements();
      if (isForward && role == role::kScalar) // the key of dropouts
        shape.oddities.insert(Oddity::dropout);
    }
    if (hasSlots && routed > 0)
      shape.slotsPerChoice =
          static_cast<double>(slots) / static_cast<double>(routed);
  }

  /// Reads the embedding and the head.
  void readEnds() {
    Value table;
    func.walk([&](EmbeddingOp embedding) {
      if (!table && shapeOf(embedding.getIds()).size() == 2 &&
          isWeight(embedding.getIds())) {
        table = originOf(embedding.getTable());
        readPositions(embedding.getResult());
      }
    });
    auto readHead = [&](Value logits) {
      MatmulOp head = weightProduct(logits);
      shape.vocabulary = shapeOf(logits).back();
      shape.isTied = head && originOf(head.getB()) == table;
      if (!head || !madeBy<NormOp>(head.getA()))
        shape.oddities.insert(Oddity::otherEnds);
    };
    func.walk([&](CrossEntropyOp loss) { readHead(loss.getLogits()); });
    func.walk([&](CrossEntropySumsOp loss) { readHead(loss.getLogits()); });
  }

  void readPositions(Value embedded) {
    for (Operation *user : embedded.getUsers()) {
      if (!isa<BinaryOp, NormOp, ConvertOp>(user) ||
          (isa<BinaryOp>(user) && !isSum(user))) {
        shape.oddities.insert(Oddity::otherEnds);
        continue;
      }
      auto sum = dyn_cast<BinaryOp>(user);
      if (!sum)
        continue;
      Value other = sum.getA() == embedded ? sum.getB() : sum.getA();
      if (auto lookUp = madeBy<EmbeddingOp>(other))
        other = lookUp.getTable();
      if (roleOf(originOf(other)) == role::kParameter &&
          shapeOf(originOf(other)).size() == 2)
        shape.positions = shapeOf(originOf(other)).front();
    }
  }

  func::FuncOp func;
  ModelShape &shape;
  std::set<std::string> activations;
  std::set<float> epsilons;
  llvm::SetVector<Operation *> biases, ofAttention;
  llvm::SetVector<Value> normed;
  bool hasSlots = false;
  int64_t denseWidth = 0, slots = 0, routed = 0;
};

} // namespace

void readTerms(func::FuncOp func, ModelShape &shape) {
  TermReader(func, shape).read();
  if (modelPartsOf(func).furtherTokens > 0)
    shape.oddities.insert(Oddity::furtherTokens);
}

} // namespace dpc
