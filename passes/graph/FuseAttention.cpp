//===- FuseAttention.cpp - Attention from primitives ----------------------===//
//
// Attention is softmax(scores) v. The scores are q k^T after any sequence of
//   * multiplications and divisions by constants, which may scale q or k too,
//   * additions of masks,
//   * selections of a very negative number.
// Masks that keep exactly the keys s <= t + S - T become `causal`. At most one
// other mask becomes the mask operand.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// Adding this number or less to a score, or replacing the score by it, makes
/// the probability zero in f32 for all realistic scores. GPT-2 uses this
/// number.
static constexpr double kMasked = -1e4;
static constexpr int64_t kMaxMaskElements = int64_t(1) << 24;

namespace {

class AttentionFuser {
public:
  explicit AttentionFuser(func::FuncOp func) : builder(func.getContext()) {}

  /// `product` is the last op of attention.
  void tryFuse(MatmulOp product);

private:
  /// The effect of the ops between q k^T and softmax.
  struct Scores {
    MatmulOp matmul;
    double scale = 1.0;
    bool causal = false;
    Value mask; // [B|1, H|1, T|1, S]
  };

  bool walkScores(Value value, Scores &scores);
  bool walkAdd(BinaryOp add, Scores &scores);
  bool walkSelect(SelectOp select, Scores &scores);
  template <typename Keeps> bool isCausal(Value value, Keeps keeps);
  double causalBound(Value mask);
  bool isCausalCondition(Value condition, bool keepsTrue);
  bool addMask(Value value, Scores &scores);
  Value narrowed(Value value);
  Value withoutRepeatedHeads(Value value);
  static bool leadsToScores(Value value);

  OpBuilder builder;
  /// Results for masks, which are large and shared by layers. No op may be
  /// erased while these caches refer to its values.
  DenseMap<Value, double> boundCache;
  DenseMap<std::pair<Value, unsigned>, bool> conditionCache;
};

} // namespace

static bool isInvariant(Value value, int64_t dim) {
  if (shapeOf(value)[dim] == 1 || splatValue(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [i, to] : llvm::enumerate(broadcast.getDims()))
      if (to == dim)
        return isInvariant(broadcast.getX(), i);
    return true;
  }
  if (auto iota = dyn_cast<IotaOp>(op))
    return static_cast<int64_t>(iota.getDim()) != dim;
  if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp>(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return isInvariant(operand, dim);
    });
  return false;
}

/// Returns the source of `value` before data movement that maps straight lines
/// to straight lines. A reshape does so only if it just adds or removes
/// dimensions of size 1.
static Value skipViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    bool moves =
        isa<BroadcastOp, TransposeOp, SliceOp>(op) ||
        (isa<ReshapeOp>(op) && withoutUnitDims(shapeOf(op->getOperand(0))) ==
                                   withoutUnitDims(shapeOf(value)));
    if (!moves)
      break;
    value = op->getOperand(0);
  }
  return value;
}

static bool isPosition(Value value) {
  value = skipViews(value);
  while (auto convert = value.getDefiningOp<ConvertOp>()) {
    if (elementTypeOf(value).isInteger(1))
      return false; // A conversion to i1 means `x != 0`.
    value = skipViews(convert.getX());
  }
  return splatValue(value) || value.getDefiningOp<IotaOp>();
}

/// Returns true if a straight line in the (t, s) plane divides `value` into two
/// regions with one number each. This is the case for a comparison of
/// positions, and for a selection of two numbers by one comparison. Several
/// comparisons can form regions of any shape (holes, bands).
static bool isHalfPlane(Value value) {
  value = skipViews(skipConverts(skipViews(value)));
  if (auto select = value.getDefiningOp<SelectOp>()) {
    if (!splatValue(select.getOnTrue()) || !splatValue(select.getOnFalse()))
      return false;
    value = skipViews(skipConverts(skipViews(select.getCondition())));
  }
  auto compare = value.getDefiningOp<CompareOp>();
  return compare && compare.getKind() != CompareKind::eq &&
         compare.getKind() != CompareKind::ne && isPosition(compare.getA()) &&
         isPosition(compare.getB());
}

/// Visits enough positions (t, s) of a mask to decide if it is causal. If the
/// mask is a half plane, visits only the border and both sides of the diagonal:
/// kept and masked elements are convex sets, and in a causal mask the visited
/// elements span them. Otherwise visits all positions.
static void visitDecisivePositions(int64_t rows, int64_t columns,
                                   bool halfPlane,
                                   function_ref<bool(int64_t, int64_t)> visit) {
  for (int64_t t = 0; t < rows; ++t) {
    if (!halfPlane || t == 0 || t == rows - 1) {
      for (int64_t s = 0; s < columns; ++s)
        if (!visit(t, s))
          return;
      continue;
    }
    int64_t diagonal = t + columns - rows;
    for (int64_t s :
         {int64_t(0), diagonal - 1, diagonal, diagonal + 1, columns - 1})
      if (s >= 0 && s < columns && !visit(t, s))
        return;
  }
}

/// Returns true if `value` [B, H, T, S] depends only on t and s, and
/// keeps(element) is true exactly for s <= t + S - T. `keeps` returns nullopt
/// for an element that is neither kept nor masked.
template <typename Keeps>
bool AttentionFuser::isCausal(Value value, Keeps keeps) {
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t rows = shape[2], columns = shape[3];
  bool halfPlane = isHalfPlane(value);
  if (rows > columns || columns == 1 ||
      (!halfPlane && rows * columns > kMaxMaskElements))
    return false;
  if (!isInvariant(value, 0) || !isInvariant(value, 1))
    return false;
  bool causal = true;
  visitDecisivePositions(rows, columns, halfPlane, [&](int64_t t, int64_t s) {
    std::optional<double> element = elementAt(value, {0, 0, t, s});
    std::optional<bool> kept = element ? keeps(*element) : std::nullopt;
    causal = kept == std::optional<bool>(s <= t + columns - rows);
    return causal;
  });
  return causal;
}

/// True if only scale, add and select ops are between a matmul and `value`.
bool AttentionFuser::leadsToScores(Value value) {
  for (unsigned depth = 0; depth < 8; ++depth) {
    double factor;
    value = skipConverts(value);
    if (value.getDefiningOp<MatmulOp>())
      return true;
    if (Value scaled = scaledValue(value, factor)) {
      value = scaled;
    } else if (BinaryOp add = binaryOf(value, BinaryKind::add)) {
      if (leadsToScores(add.getA()))
        return true;
      value = add.getB();
    } else if (auto select = value.getDefiningOp<SelectOp>()) {
      value = splatValue(select.getOnTrue()) ? select.getOnFalse()
                                             : select.getOnTrue();
    } else {
      return false;
    }
  }
  return false;
}

bool AttentionFuser::walkScores(Value value, Scores &scores) {
  value = skipConverts(value);
  if (auto matmul = value.getDefiningOp<MatmulOp>()) {
    scores.matmul = matmul;
    return true;
  }
  double factor;
  if (Value scaled = scaledValue(value, factor)) {
    scores.scale *= factor;
    return factor > 0.0 && walkScores(scaled, scores);
  }
  if (BinaryOp add = binaryOf(value, BinaryKind::add))
    return walkAdd(add, scores);
  if (auto select = value.getDefiningOp<SelectOp>())
    return walkSelect(select, scores);
  return false;
}

bool AttentionFuser::walkAdd(BinaryOp add, Scores &scores) {
  bool first = leadsToScores(add.getA());
  Value inner = first ? add.getA() : add.getB();
  Value mask = first ? add.getB() : add.getA();
  if (first && leadsToScores(add.getB()))
    return false;
  return addMask(mask, scores) && walkScores(inner, scores);
}

/// Returns the largest masked element if the additive mask is causal (zero
/// exactly for causal elements), else 0.
double AttentionFuser::causalBound(Value mask) {
  auto [it, isNew] = boundCache.try_emplace(mask, 0.0);
  if (!isNew)
    return it->second;
  double largest = -std::numeric_limits<double>::infinity();
  bool causal = isCausal(mask, [&](double x) -> std::optional<bool> {
    if (std::isnan(x) || x > 0.0)
      return std::nullopt;
    if (x < 0.0)
      largest = std::max(largest, x);
    return x == 0.0;
  });
  return it->second = causal ? largest : 0.0;
}

bool AttentionFuser::isCausalCondition(Value condition, bool keepsTrue) {
  auto [it, isNew] =
      conditionCache.try_emplace({condition, keepsTrue ? 1u : 0u}, false);
  if (isNew)
    it->second = isCausal(condition, [&](double x) -> std::optional<bool> {
      return (x != 0.0) == keepsTrue;
    });
  return it->second;
}

/// Adds a mask [B, H, T, S]. The softmax reads `scores.scale` times the mask.
bool AttentionFuser::addMask(Value value, Scores &scores) {
  if (causalBound(value) * scores.scale <= kMasked) {
    scores.causal = true;
    return true;
  }
  if (scores.mask || dependsOnParameter(value))
    return false;
  scores.mask = narrowed(value);
  if (scores.scale != 1.0)
    scores.mask =
        GraphBuilder(builder, value.getLoc()).scale(scores.mask, scores.scale);
  return true;
}

bool AttentionFuser::walkSelect(SelectOp select, Scores &scores) {
  Value condition = select.getCondition();
  std::optional<double> onTrue = splatValue(select.getOnTrue());
  std::optional<double> onFalse = splatValue(select.getOnFalse());
  if (onTrue.has_value() == onFalse.has_value())
    return false;
  bool keepsTrue = onFalse.has_value();
  double masked = (keepsTrue ? *onFalse : *onTrue) * scores.scale;
  Value inner = keepsTrue ? select.getOnTrue() : select.getOnFalse();
  if (!(masked <= kMasked))
    return false;
  if (isCausalCondition(condition, keepsTrue)) {
    scores.causal = true;
    return walkScores(inner, scores);
  }
  if (scores.mask || !std::isinf(masked) || dependsOnParameter(condition))
    return false;
  GraphBuilder g(builder, select.getLoc());
  Value keep = narrowed(condition);
  auto type =
      RankedTensorType::get(shapeOf(keep), elementTypeOf(select.getResult()));
  Value zero = g.constant(type, 0.0), minus = g.constant(type, masked);
  scores.mask =
      keepsTrue ? g.select(keep, zero, minus) : g.select(keep, minus, zero);
  return walkScores(inner, scores);
}

/// Returns the mask `value` [B, H, T, S] with size 1 along each of the first
/// three dimensions in which it is repeated.
Value AttentionFuser::narrowed(Value value) {
  Repeated repeated = repeatedSource(value);
  ArrayRef<int64_t> full = shapeOf(value);
  SmallVector<int64_t> shape(4, 1);
  for (int64_t dim : repeated.dims)
    shape[dim] = full[dim];
  if (shape[3] != full[3])
    return value;
  return GraphBuilder(builder, value.getLoc()).reshape(repeated.source, shape);
}

/// Undoes the repetition of key heads or value heads: if `value` [B, H, S, D]
/// repeats each of G heads H / G times in a row, returns the source [B, G, S,
/// D], else `value`.
///
///   [B, G, S, D] -> broadcast [B, G, R, S, D] -> reshape [B, G * R, S, D]
Value AttentionFuser::withoutRepeatedHeads(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape || shapeOf(reshape.getX()).size() != 5)
    return value;
  ArrayRef<int64_t> wide = shapeOf(reshape.getX()), to = shapeOf(value);
  if (wide[0] != to[0] || wide[1] * wide[2] != to[1] || wide[3] != to[2] ||
      wide[4] != to[3])
    return value;
  Repeated repeated = repeatedSource(reshape.getX());
  SmallVector<int64_t> expected;
  for (int64_t dim : {0, 1, 3, 4})
    if (wide[dim] != 1)
      expected.push_back(dim);
  if (wide[2] == 1 || repeated.dims != expected)
    return value;
  return GraphBuilder(builder, value.getLoc())
      .reshape(repeated.source, {wide[0], wide[1], wide[3], wide[4]});
}

void AttentionFuser::tryFuse(MatmulOp product) {
  Value probabilities = skipConverts(product.getA());
  auto softmax = probabilities.getDefiningOp<SoftmaxOp>();
  if (!softmax || !softmax.getResult().hasOneUse() || product.getTa() ||
      shapeOf(product.getA()).size() != 4 ||
      shapeOf(product.getB()).size() != 4)
    return;
  builder.setInsertionPoint(product);
  GraphBuilder g(builder, product.getLoc());
  Scores scores;
  if (!walkScores(softmax.getX(), scores))
    return;
  Value q = scores.matmul.getA(), k = scores.matmul.getB();
  if (shapeOf(q).size() != 4 || shapeOf(k).size() != 4)
    return;
  for (Value *operand : {&q, &k}) {
    double factor;
    if (Value scaled = scaledValue(*operand, factor); scaled && factor > 0.0) {
      *operand = scaled;
      scores.scale *= factor;
    }
  }
  Value v = product.getB();
  if (scores.matmul.getTa())
    q = g.transpose(q, {0, 1, 3, 2});
  if (!scores.matmul.getTb())
    k = g.transpose(k, {0, 1, 3, 2});
  if (product.getTb())
    v = g.transpose(v, {0, 1, 3, 2});
  Type element = elementTypeOf(product.getResult());
  for (Value operand : {q, k, v})
    if (elementTypeOf(operand) != element)
      return;
  Value fewK = withoutRepeatedHeads(k), fewV = withoutRepeatedHeads(v);
  if (shapeOf(fewK)[1] == shapeOf(fewV)[1]) {
    k = fewK;
    v = fewV;
  }
  auto rows =
      RankedTensorType::get(shapeOf(q).drop_back(), statisticsType(element));
  auto attention = AttentionOp::create(
      builder, product.getLoc(), product.getType(), rows, q, k, v, scores.mask,
      builder.getF64FloatAttr(scores.scale),
      scores.causal ? builder.getUnitAttr() : UnitAttr());
  product.getResult().replaceAllUsesWith(attention.getOut());
}

void dpc::fuseAttention(func::FuncOp func) {
  AttentionFuser fuser(func);
  SmallVector<MatmulOp> products(func.getOps<MatmulOp>());
  for (MatmulOp product : products)
    fuser.tryFuse(product);
}
