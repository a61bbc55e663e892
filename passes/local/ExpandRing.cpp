//===- ExpandRing.cpp - Attention whose keys travel round a ring ----------===//
//
// n ranks hold a part of the positions each, of queries, keys and values alike.
// In step r = 0 .. n-1 rank c attends to the keys of rank j = (c - r) mod n;
// between steps every rank hands keys and values to the next one.
//
// Forward, merging (o, l) of the steps so far with a step's (o', l'):
//
//   m = max(l, l'), a = exp(l - m), b = exp(l' - m), s = a + b
//   o = a / s o + b / s o'       l = m + log(s)
//
// Backward, from the final l, every step is the gradient of an ordinary
// attention with these keys; dk and dv travel with their keys and after n
// handovers they are home:
//
//   rank c, step r   adds to dk of rank (c - r) mod n, then hands it on
//
// Sums over steps are in f32 where q is bf16 or f16, and rounded once.
//
// Causal rings hold their positions in stripes: m pieces of n blocks, block c
// of each on rank c (m = 1: plain blocks). Queries of stripe a then see, of any
// rank's keys, those of the stripes before a, and those of stripe a where j < c
// (of their own, j = c, those up to themselves). So every rank does the same
// share (m + 1) / 2m of the products in every step, on slices that do not
// depend on the rank:
//
//   stripe a   queries a, keys 0 .. a   the last block is hidden where j > c
//
// As every rank sees all of a block or nothing of it, that is one number per
// rank (0 or kHidden), added to the scores; with padding one per key. A mask of
// all keys is cut into what belongs to each rank's. kHidden is finite, so that
// a step which sees nothing has l' = kHidden and weight exp(kHidden - m) = 0
// instead of NaN.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "passes/local/ExpandAttention.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace dpc {
namespace {

/// Added to scores of keys that a query does not see.
constexpr double kHidden = -1e30;

/// Queries that are taken together, and how many keys they see at most.
struct Stripe {
  int64_t first, length, keys;
};

/// What is on this rank in one step.
struct Step {
  int64_t index;
  Value k, v;
  /// The part of the mask for these keys, or nothing.
  Value mask;
};

/// What one stripe sees of a step; neither when everything is seen.
struct Sight {
  bool causal = false;
  Value mask;
};

/// What backward reads of the queries.
struct Saved {
  Value q, dout, lse, delta;
};

/// Sums so far; those of queries by stripe.
struct Gradients {
  SmallVector<Value> dq;
  Value dk, dv;
};

class RingExpander : public AttentionExpander {
public:
  RingExpander(Operation *op, MeshAttr mesh);
  LogicalResult run();

private:
  LogicalResult findAxis();
  void findPadding();
  void findStripes();
  Value table(ArrayRef<double> values, int64_t columns);
  Value hidden(int64_t step, const Stripe &stripe);
  void cutMask();
  Value maskOf(int64_t step);
  Sight sightOf(const Step &step, const Stripe &stripe);
  Value spread(Value value, ArrayRef<int64_t> shape);
  Value slice(Value value, int64_t dim, int64_t first, int64_t count);

  Value shift(Value value) {
    return tagged(RingShiftOp::create(builder, loc, value.getType(), value,
                                      builder.getArrayAttr({axisName})));
  }
  Value withoutPadding(Value value);
  /// The queries of `stripe` in `value`, [B, heads, queries, ..].
  Value own(Value value, const Stripe &stripe) {
    return slice(value, 2, stripe.first, stripe.length);
  }
  /// `value`, the first of `count` positions, with zeros behind.
  Value extended(Value value, int64_t count);
  Value joined(ArrayRef<Value> parts);
  Value weighted(Value out, Value weight);
  void attend(AttentionOp attention, const Step &step, const Stripe &stripe,
              Value q, std::pair<Value, Value> &sofar);
  void forward(AttentionOp attention);
  void attendBack(const Step &step, const Stripe &stripe, const Saved &saved,
                  Gradients &sums);
  void backward(AttentionGradOp grad);

  MeshAttr mesh;
  ShardingSpec global;
  StringAttr axisName;
  int64_t axis = -1, ranks = 1;
  bool isCausal;
  Value mask;
  /// The mask's columns by the rank whose keys they are: [ranks, rows, keys].
  Value cutColumns;
  FloatAttr scale;
  /// By rank, which of its positions are padding; empty where none are.
  std::vector<std::vector<bool>> padding;
  std::vector<Stripe> stripes;
};

} // namespace

/// The type of `value` with another shape.
static RankedTensorType like(Value value, ArrayRef<int64_t> shape) {
  return tensorType(value).clone(shape);
}

RingExpander::RingExpander(Operation *op, MeshAttr mesh)
    : AttentionExpander(op), mesh(mesh),
      global(*ShardingSpec::get(cast<RankedTensorType>(
          op->getAttrOfType<TypeAttr>(attr::kGlobal).getValue()))),
      isCausal(op->hasAttr("causal")),
      scale(op->getAttrOfType<FloatAttr>("scale")) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    mask = attention.getMask();
  else
    mask = cast<AttentionGradOp>(op).getMask();
}

//===----------------------------------------------------------------------===//
// Who holds which positions
//===----------------------------------------------------------------------===//

LogicalResult RingExpander::findAxis() {
  for (const Factor &factor : global.dims[2])
    for (int64_t split : factor.axes) {
      if (axis >= 0)
        return op->emitError("positions of a ring are split over one axis, "
                             "these over two: ")
               << op->getAttr(attr::kGlobal);
      axis = split;
    }
  axisName = mesh.getNames()[axis];
  ranks = mesh.getSizes()[axis];
  return success();
}

void RingExpander::findPadding() {
  std::vector<std::vector<bool>> found;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<bool> all = {false};
    for (const Factor &factor : global.dims[2]) {
      int64_t local = localFactorSize(mesh, factor.size, factor.axes);
      int64_t offset = factor.axes.empty() ? 0 : rank * local;
      std::vector<bool> next;
      for (bool isOutside : all)
        for (int64_t i = 0; i < local; ++i)
          next.push_back(isOutside || offset + i >= factor.size);
      all = std::move(next);
    }
    found.push_back(std::move(all));
  }
  if (llvm::any_of(found, [](const std::vector<bool> &rank) {
        return llvm::is_contained(rank, true);
      }))
    padding = std::move(found);
}

/// As many as pieces stand before the ranks' blocks; one if all see everything.
void RingExpander::findStripes() {
  int64_t pieces = 1;
  for (const Factor &factor : global.dims[2]) {
    if (!isCausal || !factor.axes.empty())
      break;
    pieces *= factor.size;
  }
  int64_t length = queries / pieces;
  for (int64_t first = 0; first < queries; first += length)
    stripes.push_back({first, length, first + length});
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// Row c of [ranks, columns] on rank c, as [1, 1, 1, columns].
Value RingExpander::table(ArrayRef<double> values, int64_t columns) {
  auto type = RankedTensorType::get({ranks, columns}, wide);
  SmallVector<Attribute> attributes;
  for (double value : values)
    attributes.push_back(FloatAttr::get(wide, value));
  Value whole = tagged(ConstantOp::create(
      builder, loc, type, DenseElementsAttr::get(type, attributes)));
  Value row =
      tagged(RankSliceOp::create(builder, loc, type.clone({columns}), whole,
                                 builder.getArrayAttr({axisName})));
  return reshape(row, {1, 1, 1, columns});
}

/// `value`, of rank 4, repeated along its unit dimensions.
Value RingExpander::spread(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return tagged(BroadcastOp::create(builder, loc, like(value, shape), value,
                                    ArrayRef<int64_t>{0, 1, 2, 3}));
}

/// kHidden where a key is padding, or of a rank behind the queries'; nothing
/// when there is no such key.
Value RingExpander::hidden(int64_t step, const Stripe &stripe) {
  bool hidesLast = isCausal && step > 0, byKey = !padding.empty();
  if (!hidesLast && !byKey)
    return {};
  int64_t first = byKey ? 0 : stripe.first,
          end = byKey ? stripe.keys : first + 1;
  SmallVector<double> values;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t key = first; key < end; ++key) {
      bool isPadding = byKey && padding[(rank - step + ranks) % ranks][key];
      bool isBehind = hidesLast && rank < step && key >= stripe.first;
      values.push_back(isPadding || isBehind ? kHidden : 0);
    }
  Value row = table(values, end - first);
  if (byKey)
    return row;
  row = spread(row, {1, 1, 1, stripe.length});
  if (stripe.first == 0)
    return row;
  SmallVector<int64_t> low = {0, 0, 0, stripe.first}, strides(4, 1);
  return tagged(PadOp::create(builder, loc, like(row, {1, 1, 1, stripe.keys}),
                              row, low, strides));
}

/// Fills `cutColumns` from the mask, whose columns are all keys in order.
void RingExpander::cutMask() {
  int64_t rows = 1, after = 1, whole = 1;
  for (int64_t size : shapeOf(mask).drop_back())
    rows *= size;
  for (const Factor &factor : global.dims[2]) {
    if (!factor.axes.empty())
      whole = factor.size;
    else
      (whole == 1 ? rows : after) *= factor.size;
  }
  int64_t local = ceilDiv(whole, ranks);
  SmallVector<int64_t> zeros(3, 0), ones(3, 1);
  // Rows of padding (of one query, all ranks' rows are alike) hold anything.
  Value own = shapeOf(mask)[2] == queries ? withoutPadding(mask) : mask;
  Value stack = reshape(own, {rows, whole, after});
  if (whole != ranks * local)
    stack = tagged(PadOp::create(builder, loc,
                                 like(stack, {rows, ranks * local, after}),
                                 stack, zeros, ones));
  stack = reshape(stack, {rows, ranks, local * after});
  stack = tagged(TransposeOp::create(builder, loc,
                                     like(stack, {ranks, rows, local * after}),
                                     stack, ArrayRef<int64_t>{1, 0, 2}));
  cutColumns = reshape(stack, {ranks, rows * local * after / keys, keys});
}

/// The columns of the mask that belong to the keys of `step`.
Value RingExpander::maskOf(int64_t step) {
  if (!mask)
    return {};
  Value stack = cutColumns;
  // Piece c of the turned stack is piece (c - step) mod ranks.
  if (step > 0)
    stack =
        tagged(ConcatOp::create(builder, loc, stack.getType(),
                                ValueRange{slice(stack, 0, ranks - step, step),
                                           slice(stack, 0, 0, ranks - step)},
                                0));
  Value own = tagged(RankSliceOp::create(
      builder, loc, like(stack, shapeOf(stack).drop_front()), stack,
      builder.getArrayAttr({axisName})));
  SmallVector<int64_t> shape(shapeOf(mask));
  shape[3] = keys;
  own = convert(reshape(own, shape), wide);
  // A block that is masked as a whole must have weight 0, not NaN.
  auto type = tensorType(own);
  Value least = tagged(ConstantOp::create(
      builder, loc, type,
      DenseElementsAttr::get(type, Attribute(FloatAttr::get(wide, kHidden)))));
  return binary(BinaryKind::maximum, own, least);
}

Sight RingExpander::sightOf(const Step &step, const Stripe &stripe) {
  Sight sight;
  sight.causal = isCausal && step.index == 0;
  sight.mask = hidden(step.index, stripe);
  if (!step.mask)
    return sight;
  Value given = slice(step.mask, 3, 0, stripe.keys);
  if (shapeOf(given)[2] != 1)
    given = own(given, stripe);
  sight.mask = sight.mask ? binary(BinaryKind::add, given,
                                   spread(sight.mask, shapeOf(given)))
                          : given;
  return sight;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Positions [first, first + count) of a dimension.
Value RingExpander::slice(Value value, int64_t dim, int64_t first,
                          int64_t count) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (count == shape[dim])
    return value;
  shape[dim] = count;
  SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1);
  offsets[dim] = first;
  return tagged(SliceOp::create(builder, loc, like(value, shape), value,
                                offsets, strides));
}

Value RingExpander::extended(Value value, int64_t count) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (count == shape[2])
    return value;
  shape[2] = count;
  SmallVector<int64_t> low(shape.size(), 0), strides(shape.size(), 1);
  return tagged(
      PadOp::create(builder, loc, like(value, shape), value, low, strides));
}

Value RingExpander::joined(ArrayRef<Value> parts) {
  if (parts.size() == 1)
    return parts.front();
  SmallVector<int64_t> shape(shapeOf(parts.front()));
  shape[2] *= parts.size();
  return tagged(
      ConcatOp::create(builder, loc, like(parts.front(), shape), parts, 2));
}

/// `value`, [B, heads, positions, ..], with zeros at padded positions: keys
/// that are hidden must not be NaN, nor queries that gradients sum over.
Value RingExpander::withoutPadding(Value value) {
  if (padding.empty())
    return value;
  auto type = tensorType(value);
  ShardingSpec spec = ShardingSpec::replicated(mesh, type.getShape());
  spec.dims[2] = global.dims[2];
  RankedTensorType whole =
      getSharded(spec.globalShape(), type.getElementType(), spec.toAttr());
  return tagged(MaskOp::create(builder, loc, type, value,
                               builder.getF64FloatAttr(0),
                               TypeAttr::get(whole)));
}

/// `out` times one number per row.
Value RingExpander::weighted(Value out, Value weight) {
  weight = convert(weight, wide);
  Value each = tagged(BroadcastOp::create(builder, loc, out.getType(), weight,
                                          ArrayRef<int64_t>{0, 1, 2}));
  return binary(BinaryKind::mul, out, each);
}

/// One step of one stripe, merged into the output and lse so far.
void RingExpander::attend(AttentionOp attention, const Step &step,
                          const Stripe &stripe, Value q,
                          std::pair<Value, Value> &sofar) {
  Sight sight = sightOf(step, stripe);
  Value k = slice(step.k, 2, 0, stripe.keys);
  Value v = slice(step.v, 2, 0, stripe.keys);
  Value scores = unfold(wideMatmul(fold(own(q, stripe)), k, false, true));
  auto lseType = attention.getLse().getType();
  auto probs = tagged(AttentionProbsOp::create(
      builder, loc, scores.getType(),
      lseType.clone({batch, heads, stripe.length}), scores, sight.mask, scale,
      sight.causal ? builder.getUnitAttr() : UnitAttr()));
  Value ownOut = unfold(
      wideMatmul(fold(convert(probs.getProbs(), element)), v, false, false));
  auto &[out, lse] = sofar;
  if (!out) {
    sofar = {ownOut, probs.getLse()};
    return;
  }
  Value ownLse = probs.getLse();
  Value high = binary(BinaryKind::maximum, lse, ownLse);
  Value a = unary(UnaryKind::exp, binary(BinaryKind::sub, lse, high));
  Value b = unary(UnaryKind::exp, binary(BinaryKind::sub, ownLse, high));
  Value sum = binary(BinaryKind::add, a, b);
  out = binary(BinaryKind::add, weighted(out, binary(BinaryKind::div, a, sum)),
               weighted(ownOut, binary(BinaryKind::div, b, sum)));
  lse = binary(BinaryKind::add, high, unary(UnaryKind::log, sum));
}

void RingExpander::forward(AttentionOp attention) {
  Value q = withoutPadding(attention.getQ());
  Value k = withoutPadding(attention.getK());
  Value v = withoutPadding(attention.getV());
  std::vector<std::pair<Value, Value>> results(stripes.size());
  for (int64_t index = 0; index < ranks; ++index) {
    Step step{index, k, v, maskOf(index)};
    if (index + 1 < ranks) { // under way while this step computes
      k = shift(k);
      v = shift(v);
    }
    for (auto [stripe, result] : llvm::zip(stripes, results))
      attend(attention, step, stripe, q, result);
  }
  SmallVector<Value> outs, sums;
  for (auto [out, lse] : results) {
    outs.push_back(convert(out, element));
    sums.push_back(lse);
  }
  attention.replaceAllUsesWith(ValueRange{joined(outs), joined(sums)});
  attention.erase();
}

/// Adds one step of one stripe to the gradients of its queries and of the keys
/// that are here.
void RingExpander::attendBack(const Step &step, const Stripe &stripe,
                              const Saved &saved, Gradients &sums) {
  Sight sight = sightOf(step, stripe);
  auto addTo = [&](Value &sum, Value more) {
    sum = sum ? binary(BinaryKind::add, sum, more) : more;
  };
  Value k = slice(step.k, 2, 0, stripe.keys);
  Value v = slice(step.v, 2, 0, stripe.keys);
  Value q = fold(own(saved.q, stripe)), dout = fold(own(saved.dout, stripe));
  Value scores = unfold(wideMatmul(q, k, false, true));
  Value dprobs = unfold(wideMatmul(dout, v, false, true));
  auto rows = tagged(AttentionScoresGradOp::create(
      builder, loc, scores.getType(), scores.getType(), scores,
      own(saved.lse, stripe), dprobs, own(saved.delta, stripe), sight.mask,
      scale, sight.causal ? builder.getUnitAttr() : UnitAttr()));
  Value probs = fold(convert(rows.getProbs(), element));
  Value dscores = fold(convert(rows.getDscores(), element));
  addTo(sums.dq[&stripe - stripes.data()],
        unfold(wideMatmul(dscores, k, false, false)));
  addTo(sums.dk, extended(wideMatmul(dscores, q, true, false), keys));
  addTo(sums.dv, extended(wideMatmul(probs, dout, true, false), keys));
}

void RingExpander::backward(AttentionGradOp grad) {
  Saved saved;
  saved.q = withoutPadding(grad.getQ());
  saved.dout = withoutPadding(grad.getDout());
  saved.lse = withoutPadding(grad.getLse());
  saved.delta =
      rowDot(saved.dout, withoutPadding(grad.getOut()), tensorType(saved.lse));
  Value k = withoutPadding(grad.getK()), v = withoutPadding(grad.getV());
  Gradients sums;
  sums.dq.resize(stripes.size());
  for (int64_t index = 0; index < ranks; ++index) {
    Step step{index, k, v, maskOf(index)};
    if (index + 1 < ranks) {
      k = shift(k);
      v = shift(v);
    }
    for (const Stripe &stripe : stripes)
      attendBack(step, stripe, saved, sums);
    sums.dk = shift(sums.dk);
    sums.dv = shift(sums.dv);
  }
  grad.replaceAllUsesWith(ValueRange{convert(joined(sums.dq), element),
                                     convert(sums.dk, element),
                                     convert(sums.dv, element)});
  grad.erase();
}

LogicalResult RingExpander::run() {
  if (failed(check()) || failed(findAxis()))
    return failure();
  findPadding();
  findStripes();
  if (mask)
    cutMask();
  if (auto attention = dyn_cast<AttentionOp>(op))
    forward(attention);
  else
    backward(cast<AttentionGradOp>(op));
  return success();
}

LogicalResult expandRing(Operation *op, MeshAttr mesh) {
  return RingExpander(op, mesh).run();
}

} // namespace dpc
