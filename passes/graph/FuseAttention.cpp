//===- FuseAttention.cpp - Attention from primitives ----------------------===//
//
// Attention is softmax(scores) v. The scores are q k^T after any sequence of
//   * multiplications and divisions by constants, which may scale q or k too,
//   * additions of masks,
//   * selections of a very negative number.
// Masks that are bands (AttentionBands.h) become `causal` and `window`. At most
// one other mask becomes the mask operand.
//
// With sinks, attention is slice(softmax(concat(scores, sinks))) v, where the
// slice removes the probabilities of the sinks.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/AttentionBands.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// Adding this number or less to a score, or replacing the score by it, makes
/// the probability zero in f32 for all realistic scores. GPT-2 uses this
/// number.
static constexpr double kMasked = -1e4;

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
    Band band;
    Value mask;  // [B|1, H|1, T|1, S]
    Value sinks; // [H]
  };

  bool walkSoftmax(Value probabilities, Scores &scores);
  Value withoutSinks(Value value, Scores &scores);
  bool walkScores(Value value, Scores &scores);
  bool walkAdd(BinaryOp add, Scores &scores);
  bool walkSelect(SelectOp select, Scores &scores);
  bool addMask(Value value, Scores &scores);
  Value narrowed(Value value);
  Value withoutRepeatedHeads(Value value);
  static bool leadsToScores(Value value);

  OpBuilder builder;
  BandReader bands;
};

} // namespace

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

/// Adds a mask [B, H, T, S]. The softmax reads `scores.scale` times the mask.
bool AttentionFuser::addMask(Value value, Scores &scores) {
  if (auto band = bands.ofTerm(value, kMasked / scores.scale)) {
    scores.band.add(*band);
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
  if (auto band = bands.ofCondition(condition, keepsTrue)) {
    scores.band.add(*band);
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

/// Returns `value`, the operand of a softmax, before the subtraction of one
/// number per row, which does not change the softmax.
static Value withoutShift(Value value) {
  value = skipConverts(value);
  const auto last = static_cast<int64_t>(shapeOf(value).size()) - 1;
  BinaryOp sub = binaryOf(value, BinaryKind::sub);
  return sub && !llvm::is_contained(repeatedSource(sub.getB()).dims, last)
             ? skipConverts(sub.getA())
             : value;
}

/// Returns the scores [B, H, T, S] of `value` [B, H, T, S + 1] if its last
/// column has one number for each head, and sets Scores::sinks to this column.
/// Returns null for other values.
Value AttentionFuser::withoutSinks(Value value, Scores &scores) {
  auto concat = withoutShift(value).getDefiningOp<ConcatOp>();
  if (!concat || concat.getDim() != 3 || concat.getParts().size() != 2 ||
      shapeOf(concat.getParts()[1])[3] != 1)
    return {};
  Value column = concat.getParts()[1];
  Repeated repeated = repeatedSource(column);
  if (llvm::any_of(repeated.dims, [](int64_t dim) { return dim != 1; }))
    return {};
  GraphBuilder g(builder, value.getLoc());
  int64_t heads = shapeOf(column)[1];
  Value sinks = repeated.dims.empty()
                    ? g.broadcast(g.reshape(repeated.source, {1}), {heads}, {0})
                    : g.reshape(repeated.source, {heads});
  scores.sinks = g.convert(sinks, statisticsType(elementTypeOf(column)));
  return concat.getParts()[0];
}

/// Walks from the probabilities [B, H, T, S], which only attention uses.
bool AttentionFuser::walkSoftmax(Value probabilities, Scores &scores) {
  probabilities = skipConverts(probabilities);
  auto cut = probabilities.getDefiningOp<SliceOp>();
  if (cut && probabilities.hasOneUse())
    probabilities = skipConverts(cut.getX());
  auto softmax = probabilities.getDefiningOp<SoftmaxOp>();
  if (!softmax || !softmax.getResult().hasOneUse())
    return false;
  if (!cut)
    return walkScores(softmax.getX(), scores);
  SmallVector<int64_t> kept(shapeOf(cut.getX()));
  --kept.back();
  Value inner = shapeOf(cut.getResult()) == ArrayRef(kept) &&
                        llvm::all_of(cut.getOffsets(),
                                     [](int64_t offset) { return offset == 0; })
                    ? withoutSinks(softmax.getX(), scores)
                    : Value();
  return inner && walkScores(inner, scores);
}

void AttentionFuser::tryFuse(MatmulOp product) {
  if (product.getTa() || shapeOf(product.getA()).size() != 4 ||
      shapeOf(product.getB()).size() != 4)
    return;
  builder.setInsertionPoint(product);
  GraphBuilder g(builder, product.getLoc());
  Scores scores;
  if (!walkSoftmax(product.getA(), scores))
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
      scores.sinks, builder.getF64FloatAttr(scores.scale),
      scores.band.causal ? builder.getUnitAttr() : UnitAttr(),
      scores.band.window ? builder.getI64IntegerAttr(*scores.band.window)
                         : IntegerAttr());
  product.getResult().replaceAllUsesWith(attention.getOut());
}

void dpc::fuseAttention(func::FuncOp func) {
  AttentionFuser fuser(func);
  SmallVector<MatmulOp> products(func.getOps<MatmulOp>());
  for (MatmulOp product : products)
    fuser.tryFuse(product);
}
