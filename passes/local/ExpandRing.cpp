//===- ExpandRing.cpp - Ring attention ------------------------------------===//
//
// Each of n ranks holds a part of the positions: their queries, keys and
// values. In step r = 0 .. n-1, rank c attends to the keys of rank j = (c - r)
// mod n. Between steps, every rank sends its keys and values to the next rank.
//
// Forward, a step's (o', l') is merged with the (o, l) of the steps before it:
//
//   m = max(l, l'), a = exp(l - m), b = exp(l' - m), s = a + b
//   o = a / s o + b / s o'       l = m + log(s)
//
// Backward, given the final l, every step is the gradient of an attention with
// the keys of that step. dk and dv travel with their keys: in step r, rank c
// adds to the dk and dv of rank (c - r) mod n, and after n steps they are back
// at their owner. Sums over steps are in f32 if q is bf16 or f16, and are
// rounded once.
//
// Causal rings hold their positions in stripes: m stripes of n blocks, block c
// of each stripe on rank c (m = 1: one block per rank). Queries of stripe a
// attend to the keys of all stripes before a, and to the keys of stripe a if j
// < c (if j = c, up to their own position). So in every step, every rank
// computes (m + 1) / 2m of the products, on slices that do not depend on the
// rank:
//
//   stripe a   queries a, keys 0 .. a   the last block is hidden if j > c
//
// A rank attends to all of a block or to none of it, so one number per rank (0
// or kHidden) is added to the scores, or one number per key if there is
// padding. A given mask of all keys is cut into the keys of each rank. kHidden
// is finite: a step with only hidden keys has l' = kHidden and weight
// exp(kHidden - m) = 0 instead of NaN.
//
//===----------------------------------------------------------------------===//
#include "passes/local/ExpandAttention.h"

using namespace mlir;

namespace dpc {
namespace {

/// Added to the scores of keys that a query must not attend to.
constexpr double kHidden = -1e30;

/// Queries that are processed together, and the number of keys they may see.
struct Stripe {
  int64_t first, length, keys;
};

/// The keys and values on this rank in one step.
struct Step {
  int64_t index;
  Value k, v;
  Value mask; ///< The part of the given mask for these keys, or null.
};

/// The keys of a step that one stripe attends to: all of them if neither member
/// is set.
struct Sight {
  bool causal = false;
  Value mask;
};

/// The values of the queries that the backward pass reads.
struct Saved {
  Value q, dout, lse, delta;
};

/// Sums over the steps so far; `dq` is indexed by stripe.
struct Gradients {
  SmallVector<Value> dq;
  Value dk, dv;
};

class RingExpander : public AttentionExpander {
public:
  RingExpander(Operation *op, MeshAttr mesh)
      : AttentionExpander(op), mesh(mesh),
        global(*ShardingSpec::get(cast<RankedTensorType>(
            op->getAttrOfType<TypeAttr>(attr::kGlobal).getValue()))),
        isCausal(op->hasAttr("causal")), mask(maskOf(op)),
        scale(op->getAttrOfType<FloatAttr>("scale")) {}

  LogicalResult run() {
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

private:
  LogicalResult findAxis() {
    for (const Factor &factor : global.dims[2])
      for (int64_t split : factor.axes) {
        if (axis >= 0)
          return op->emitError("expected positions of a ring that are split "
                               "over one axis, these are split over two: ")
                 << op->getAttr(attr::kGlobal);
        axis = split;
      }
    axisName = mesh.getNames()[axis];
    ranks = mesh.getSizes()[axis];
    return success();
  }

  void findPadding() {
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

  /// One stripe for each piece outside the blocks of the ranks; one stripe if
  /// the attention is not causal.
  void findStripes() {
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

  /// Row c of [ranks, columns] on rank c, as [1, 1, 1, columns].
  Value table(ArrayRef<double> values, int64_t columns) {
    auto type = RankedTensorType::get({ranks, columns}, wide);
    SmallVector<Attribute> attributes;
    for (double value : values)
      attributes.push_back(FloatAttr::get(wide, value));
    Value whole = ConstantOp::create(builder, loc, type,
                                     DenseElementsAttr::get(type, attributes));
    Value row = RankSliceOp::create(builder, loc, type.clone({columns}), whole,
                                    builder.getArrayAttr({axisName}));
    return g.reshape(row, {1, 1, 1, columns});
  }

  /// Repeats `value`, which has four dimensions, along its dimensions of size
  /// 1.
  Value spread(Value value, ArrayRef<int64_t> shape) {
    if (shapeOf(value) == shape)
      return value;
    return g.broadcast(value, shape, {0, 1, 2, 3});
  }

  /// Positions [first, first + count) of a dimension.
  Value slice(Value value, int64_t dim, int64_t first, int64_t count) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (count == shape[dim])
      return value;
    shape[dim] = count;
    SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1);
    offsets[dim] = first;
    return g.slice(value, shape, offsets, strides);
  }

  /// The queries of `stripe` in `value`, [B, heads, queries, ..].
  Value own(Value value, const Stripe &stripe) {
    return slice(value, 2, stripe.first, stripe.length);
  }

  /// `value` of the previous rank of the ring.
  Value shift(Value value) {
    return RingShiftOp::create(builder, loc, value.getType(), value,
                               builder.getArrayAttr({axisName}));
  }

  /// A mask of kHidden where a key is padding or is after the queries; null if
  /// there is no such key.
  Value hidden(int64_t step, const Stripe &stripe) {
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
    return g.pad(row, {1, 1, 1, stripe.keys}, low, strides);
  }

  /// `value`, [B, heads, positions, ..], with zeros in padding: hidden keys,
  /// and queries that gradients sum over, must not be NaN.
  Value withoutPadding(Value value) {
    if (padding.empty())
      return value;
    auto type = tensorType(value);
    ShardingSpec spec = ShardingSpec::replicated(mesh, type.getShape());
    spec.dims[2] = global.dims[2];
    RankedTensorType whole =
        getSharded(spec.globalShape(), type.getElementType(), spec.toAttr());
    return MaskOp::create(builder, loc, type, value, builder.getF64FloatAttr(0),
                          TypeAttr::get(whole));
  }

  /// Fills `cutColumns`. The columns of `mask` are all keys in order.
  void cutMask() {
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
    // Rows of padding contain arbitrary values; a mask with one row has no
    // padding.
    Value own = shapeOf(mask)[2] == queries ? withoutPadding(mask) : mask;
    Value stack = g.reshape(own, {rows, whole, after});
    if (whole != ranks * local)
      stack = g.pad(stack, {rows, ranks * local, after}, zeros, ones);
    stack = g.reshape(stack, {rows, ranks, local * after});
    stack = g.transpose(stack, {1, 0, 2});
    cutColumns = g.reshape(stack, {ranks, rows * local * after / keys, keys});
  }

  /// The columns of the mask that belong to the keys of `step`.
  Value maskOfStep(int64_t step) {
    if (!mask)
      return {};
    Value stack = cutColumns;
    // Rotated: piece c is the original piece (c - step) mod ranks.
    if (step > 0)
      stack = ConcatOp::create(builder, loc, stack.getType(),
                               ValueRange{slice(stack, 0, ranks - step, step),
                                          slice(stack, 0, 0, ranks - step)},
                               0);
    Value own = RankSliceOp::create(
        builder, loc, tensorType(stack).clone(shapeOf(stack).drop_front()),
        stack, builder.getArrayAttr({axisName}));
    SmallVector<int64_t> shape(shapeOf(mask));
    shape[3] = keys;
    own = g.convert(g.reshape(own, shape), wide);
    // A block that is fully masked must have weight 0, not NaN.
    Value least = g.constantLike(own, kHidden);
    return g.binary(BinaryKind::maximum, own, least);
  }

  Sight sightOf(const Step &step, const Stripe &stripe) {
    Sight sight;
    sight.causal = isCausal && step.index == 0;
    sight.mask = hidden(step.index, stripe);
    if (!step.mask)
      return sight;
    Value given = slice(step.mask, 3, 0, stripe.keys);
    if (shapeOf(given)[2] != 1)
      given = own(given, stripe);
    sight.mask =
        sight.mask ? g.add(given, spread(sight.mask, shapeOf(given))) : given;
    return sight;
  }

  Value extended(Value value, int64_t count) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (count == shape[2])
      return value;
    shape[2] = count;
    SmallVector<int64_t> low(shape.size(), 0), strides(shape.size(), 1);
    return g.pad(value, shape, low, strides);
  }

  Value joined(ArrayRef<Value> parts) {
    if (parts.size() == 1)
      return parts.front();
    SmallVector<int64_t> shape(shapeOf(parts.front()));
    shape[2] *= parts.size();
    return ConcatOp::create(builder, loc,
                            tensorType(parts.front()).clone(shape), parts, 2);
  }

  /// `out` with each row multiplied by an element of `weight`.
  Value weighted(Value out, Value weight) {
    weight = g.convert(weight, wide);
    Value each = g.broadcast(weight, shapeOf(out), {0, 1, 2});
    return g.mul(out, each);
  }

  /// Merges one step of one stripe into `result`, the (out, lse) of earlier
  /// steps.
  void attend(AttentionOp attention, const Step &step, const Stripe &stripe,
              Value q, std::pair<Value, Value> &result) {
    Sight sight = sightOf(step, stripe);
    Value k = slice(step.k, 2, 0, stripe.keys);
    Value v = slice(step.v, 2, 0, stripe.keys);
    Value scores = unfold(wideMatmul(fold(own(q, stripe)), k, false, true));
    auto lseType = attention.getLse().getType();
    auto probs = AttentionProbsOp::create(
        builder, loc, scores.getType(),
        lseType.clone({batch, heads, stripe.length}), scores, sight.mask, scale,
        sight.causal ? builder.getUnitAttr() : UnitAttr());
    Value ownOut = unfold(wideMatmul(fold(g.convert(probs.getProbs(), element)),
                                     v, false, false));
    auto &[out, lse] = result;
    if (!out) {
      result = {ownOut, probs.getLse()};
      return;
    }
    Value ownLse = probs.getLse();
    Value high = g.binary(BinaryKind::maximum, lse, ownLse);
    Value a = g.unary(UnaryKind::exp, g.sub(lse, high));
    Value b = g.unary(UnaryKind::exp, g.sub(ownLse, high));
    Value sum = g.add(a, b);
    out = g.add(weighted(out, g.div(a, sum)), weighted(ownOut, g.div(b, sum)));
    lse = g.add(high, g.unary(UnaryKind::log, sum));
  }

  void forward(AttentionOp attention) {
    Value q = withoutPadding(attention.getQ());
    Value k = withoutPadding(attention.getK());
    Value v = withoutPadding(attention.getV());
    std::vector<std::pair<Value, Value>> results(stripes.size());
    for (int64_t index = 0; index < ranks; ++index) {
      Step step{index, k, v, maskOfStep(index)};
      if (index + 1 < ranks) { // they travel while this step computes
        k = shift(k);
        v = shift(v);
      }
      for (auto [stripe, result] : llvm::zip(stripes, results))
        attend(attention, step, stripe, q, result);
    }
    SmallVector<Value> outs, sums;
    for (auto [out, lse] : results) {
      outs.push_back(g.convert(out, element));
      sums.push_back(lse);
    }
    attention.replaceAllUsesWith(ValueRange{joined(outs), joined(sums)});
    attention.erase();
  }

  /// Adds one step of one stripe to the gradients of its queries and of the
  /// keys on this rank.
  void attendBack(const Step &step, const Stripe &stripe, const Saved &saved,
                  Gradients &sums) {
    Sight sight = sightOf(step, stripe);
    auto addTo = [&](Value &sum, Value more) {
      sum = sum ? g.add(sum, more) : more;
    };
    Value k = slice(step.k, 2, 0, stripe.keys);
    Value v = slice(step.v, 2, 0, stripe.keys);
    Value q = fold(own(saved.q, stripe)), dout = fold(own(saved.dout, stripe));
    Value scores = unfold(wideMatmul(q, k, false, true));
    Value dprobs = unfold(wideMatmul(dout, v, false, true));
    auto rows = AttentionScoresGradOp::create(
        builder, loc, scores.getType(), scores.getType(), scores,
        own(saved.lse, stripe), dprobs, own(saved.delta, stripe), sight.mask,
        scale, sight.causal ? builder.getUnitAttr() : UnitAttr());
    Value probs = fold(g.convert(rows.getProbs(), element));
    Value dscores = fold(g.convert(rows.getDscores(), element));
    addTo(sums.dq[&stripe - stripes.data()],
          unfold(wideMatmul(dscores, k, false, false)));
    addTo(sums.dk, extended(wideMatmul(dscores, q, true, false), keys));
    addTo(sums.dv, extended(wideMatmul(probs, dout, true, false), keys));
  }

  void backward(AttentionGradOp grad) {
    Saved saved;
    saved.q = withoutPadding(grad.getQ());
    saved.dout = withoutPadding(grad.getDout());
    saved.lse = withoutPadding(grad.getLse());
    saved.delta = rowDot(saved.dout, withoutPadding(grad.getOut()),
                         tensorType(saved.lse));
    Value k = withoutPadding(grad.getK()), v = withoutPadding(grad.getV());
    Gradients sums;
    sums.dq.resize(stripes.size());
    for (int64_t index = 0; index < ranks; ++index) {
      Step step{index, k, v, maskOfStep(index)};
      if (index + 1 < ranks) {
        k = shift(k);
        v = shift(v);
      }
      for (const Stripe &stripe : stripes)
        attendBack(step, stripe, saved, sums);
      sums.dk = shift(sums.dk);
      sums.dv = shift(sums.dv);
    }
    grad.replaceAllUsesWith(ValueRange{g.convert(joined(sums.dq), element),
                                       g.convert(sums.dk, element),
                                       g.convert(sums.dv, element)});
    grad.erase();
  }

  MeshAttr mesh;
  ShardingSpec global;
  StringAttr axisName;
  int64_t axis = -1, ranks = 1;
  bool isCausal;
  Value mask;
  /// The mask's columns by the rank whose keys they are: [ranks, rows, keys].
  Value cutColumns;
  FloatAttr scale;
  /// For each rank, which of its positions are padding; empty if none are.
  std::vector<std::vector<bool>> padding;
  std::vector<Stripe> stripes;
};

} // namespace

LogicalResult expandRing(Operation *op, MeshAttr mesh) {
  return RingExpander(op, mesh).run();
}

} // namespace dpc
