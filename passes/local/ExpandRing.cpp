//===- ExpandRing.cpp - Ring attention ------------------------------------===//
//
// Each of n ranks holds the queries, keys and values of some positions. In step
// r = 0 .. n-1, rank c attends to the keys and values of rank j = (c - r) mod
// n. Between steps, every rank sends these keys and values to the next rank.
//
// The forward pass merges the output o' and the log-sum-exp l' of a step with
// the o and l of the earlier steps:
//
//   h = max(l, l'), a = exp(l - h), b = exp(l' - h), s = a + b
//   o = a / s o + b / s o'       l = h + log(s)
//
// In the backward pass, l is final, and every step computes the gradient of
// attention to the keys of that step. dk and dv travel with their keys and are
// back at their owner after n steps. If q is bf16 or f16, sums over steps are
// in f32 and rounded once.
//
// Causal rings divide the positions into m stripes of n blocks, and rank c
// holds block c of each stripe (m = 1: one block per rank). In each step, the
// queries of stripe a attend to the keys of the stripes 0 .. a. The block of
// rank j in stripe a is hidden if j > c and masked causally if j = c. So in
// every step, every rank computes (m + 1) / 2m of the products, on slices that
// do not depend on the rank.
//
// Each attention of a step is an op that fused kernels may run: on the keys of
// the stripes before a, which are all visible, and on the block of stripe a. If
// this block is hidden, one number per rank changes l' instead of the scores.
// Forward, -1e30 gives the block the weight exp(-1e30 - h) = 0; backward, 1e30
// makes its probabilities exp(s - 1e30) = 0.
//
// Other software divides the positions into 2n blocks, of which rank c holds
// blocks c and 2n - 1 - c. From step 1 on, a rank attends with all its queries
// to half of the keys, or with half of its queries to all keys, so every step
// computes half of the products. In estimates for such software, every step is
// one causal attention, which costs the same.
//
// With padding or an additive mask, one op attends to all keys of a step, with
// a mask that also hides the block (kHidden, which is finite, because a step
// with only hidden keys must have weight 0 instead of NaN).
//===----------------------------------------------------------------------===//
#include "passes/local/ExpandAttention.h"

using namespace mlir;

namespace dpc {
namespace {

/// Added to the scores of keys that a query must not attend to.
constexpr double kHidden = -1e30;

/// `length` queries from `first` on, which attend to the first `keys` keys.
struct Stripe {
  int64_t first, length, keys;
};

struct Step {
  int64_t index;
  Value k, v;
  Value mask; ///< The columns of the op's mask for `k`, or null.
};

/// `count` keys of a step from `first` on, to which a stripe attends.
struct Piece {
  int64_t first, count;
  UnitAttr causal = {};
  bool isHidden = false; ///< on ranks before the step
  Value mask = {};
};

struct Saved {
  Value q, dout, out, lse;
};

/// Sums over the steps so far; `dq` is indexed by stripe.
struct Gradients {
  SmallVector<Value> dq;
  Value dk, dv;
};

class RingExpander : public AttentionExpander {
public:
  RingExpander(Operation *op, MeshAttr mesh, RingForm form)
      : AttentionExpander(op), mesh(mesh), form(form),
        global(*ShardingSpec::get(cast<RankedTensorType>(
            op->getAttrOfType<TypeAttr>(attr::kGlobal).getValue()))),
        isCausal(op->hasAttr("causal")), mask(maskOf(op)),
        scale(op->getAttrOfType<FloatAttr>("scale")) {}

  /// Returns the attentions of all steps.
  FailureOr<SmallVector<Operation *>> run() {
    if (failed(check()) || failed(findAxis()))
      return failure();
    if (op->hasAttr("window"))
      return op->emitError("ring attention has no window, a mask is accepted");
    findPadding();
    findStripes();
    if (mask)
      cutMask();
    if (auto attention = dyn_cast<AttentionOp>(op))
      forward(attention);
    else
      backward(cast<AttentionGradOp>(op));
    return parts;
  }

private:
  LogicalResult findAxis() {
    for (const Factor &factor : global.dims[2])
      for (int64_t split : factor.axes) {
        if (axis >= 0)
          return op->emitError("positions of ring attention are split over two "
                               "axes, expected one: ")
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

  /// Causal attention has one stripe for each index of the leading factors
  /// without axes, for example, two stripes if the positions are {2, 4:cp}.
  /// Other attention has one stripe.
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

  /// Returns row c of `values`, [ranks, columns], on rank c.
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

  Value spread(Value value, ArrayRef<int64_t> shape) {
    if (shapeOf(value) == shape)
      return value;
    return g.broadcast(value, shape, {0, 1, 2, 3});
  }

  Value slice(Value value, int64_t dim, int64_t first, int64_t count) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (count == shape[dim])
      return value;
    shape[dim] = count;
    SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1);
    offsets[dim] = first;
    return g.slice(value, shape, offsets, strides);
  }

  Value own(Value value, const Stripe &stripe) {
    return slice(value, 2, stripe.first, stripe.length);
  }

  Value shift(Value value) {
    return RingShiftOp::create(builder, loc, value.getType(), value,
                               builder.getArrayAttr({axisName}));
  }

  /// Returns an additive mask that hides padding keys and keys after the
  /// queries of `stripe`; null if it would hide nothing.
  Value hidden(int64_t step, const Stripe &stripe) {
    bool hidesLast = isCausal && step > 0;
    if (!hidesLast && padding.empty())
      return {};
    SmallVector<double> values;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t key = 0; key < stripe.keys; ++key) {
        bool isPadding =
            !padding.empty() && padding[(rank - step + ranks) % ranks][key];
        bool isBehind = hidesLast && rank < step && key >= stripe.first;
        values.push_back(isPadding || isBehind ? kHidden : 0);
      }
    return table(values, stripe.keys);
  }

  /// Returns `lse`, changed by `number` on ranks before the step.
  Value hide(Value lse, int64_t step, double number) {
    SmallVector<double> values;
    for (int64_t rank = 0; rank < ranks; ++rank)
      values.push_back(rank < step ? number : 0);
    Value row =
        g.convert(g.reshape(table(values, 1), {1, 1, 1}), elementTypeOf(lse));
    return g.add(lse, g.broadcast(row, shapeOf(lse), {0, 1, 2}));
  }

  /// Fills the padding of `value`, [B, heads, positions, ..], with zeros,
  /// because a NaN in padding would spread through products with zero.
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

  /// Sets `cutColumns` from `mask`, whose columns are the keys of all ranks.
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
    // A mask with one row per query has arbitrary values in padding rows.
    Value own = shapeOf(mask)[2] == queries ? withoutPadding(mask) : mask;
    Value stack = g.reshape(own, {rows, whole, after});
    if (whole != ranks * local)
      stack = g.pad(stack, {rows, ranks * local, after}, zeros, ones);
    stack = g.reshape(stack, {rows, ranks, local * after});
    stack = g.transpose(stack, {1, 0, 2});
    cutColumns = g.reshape(stack, {ranks, rows * local * after / keys, keys});
  }

  Value maskOfStep(int64_t step) {
    if (!mask)
      return {};
    Value stack = cutColumns;
    // Rotate: piece c becomes the old piece (c - step) mod ranks.
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
    // A step whose keys are all masked must have weight 0, not NaN.
    Value least = g.constantLike(own, kHidden);
    return g.binary(BinaryKind::maximum, own, least);
  }

  SmallVector<Piece> piecesOf(const Step &step, const Stripe &stripe) {
    UnitAttr causal;
    bool isEstimate = form == RingForm::balanced;
    if (isCausal && (step.index == 0 || isEstimate))
      causal = builder.getUnitAttr();
    Piece whole{0, stripe.keys, causal};
    if (step.mask || !padding.empty()) {
      whole.mask = maskFor(step, stripe);
      return {whole};
    }
    if (!isCausal || isEstimate)
      return {whole};
    SmallVector<Piece> pieces;
    if (stripe.first > 0)
      pieces.push_back({0, stripe.first});
    pieces.push_back({stripe.first, stripe.length, causal,
                      /*isHidden=*/step.index > 0});
    return pieces;
  }

  Value maskFor(const Step &step, const Stripe &stripe) {
    Value hides = hidden(step.index, stripe);
    if (!step.mask)
      return hides;
    Value given = slice(step.mask, 3, 0, stripe.keys);
    if (shapeOf(given)[2] != 1)
      given = own(given, stripe);
    return hides ? g.add(given, spread(hides, shapeOf(given))) : given;
  }

  /// Returns `value` as `count` positions, in which it begins at `first`.
  Value extended(Value value, int64_t first, int64_t count) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (count == shape[2])
      return value;
    shape[2] = count;
    SmallVector<int64_t> low(shape.size(), 0), strides(shape.size(), 1);
    low[2] = first;
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

  /// Converts the result of a part, even if the type does not change.
  Value widened(Value value) {
    return ConvertOp::create(builder, loc, tensorType(value).clone(wide),
                             value);
  }

  /// Merges a step of a stripe into `result`, (out, lse) of earlier steps.
  void attend(AttentionOp attention, const Step &step, const Stripe &stripe,
              Value q, std::pair<Value, Value> &result) {
    Type outType = tensorType(attention.getOut())
                       .clone({batch, heads, stripe.length,
                               shapeOf(attention.getOut())[3]}),
         lseType = tensorType(attention.getLse())
                       .clone({batch, heads, stripe.length});
    for (const Piece &piece : piecesOf(step, stripe)) {
      auto part = AttentionOp::create(
          builder, loc, outType, lseType, own(q, stripe),
          slice(step.k, 2, piece.first, piece.count),
          slice(step.v, 2, piece.first, piece.count), piece.mask,
          /*sinks=*/Value(), scale, piece.causal, /*window=*/IntegerAttr());
      parts.push_back(part);
      Value lse = part.getLse();
      if (piece.isHidden)
        lse = hide(lse, step.index, kHidden);
      merge(widened(part.getOut()), lse, result);
    }
  }

  void merge(Value ownOut, Value ownLse, std::pair<Value, Value> &result) {
    auto &[out, lse] = result;
    if (!out) {
      result = {ownOut, ownLse};
      return;
    }
    Value high = g.binary(BinaryKind::maximum, lse, ownLse);
    Value a = g.unary(UnaryKind::exp, g.sub(lse, high));
    Value b = g.unary(UnaryKind::exp, g.sub(ownLse, high));
    Value sum = g.add(a, b);
    auto weighted = [&](Value part, Value weight) {
      weight = g.convert(g.div(weight, sum), wide);
      return g.mul(part, g.broadcast(weight, shapeOf(part), {0, 1, 2}));
    };
    out = g.add(weighted(out, a), weighted(ownOut, b));
    lse = g.add(high, g.unary(UnaryKind::log, sum));
  }

  void forward(AttentionOp attention) {
    Value q = withoutPadding(attention.getQ());
    Value k = withoutPadding(attention.getK());
    Value v = withoutPadding(attention.getV());
    std::vector<std::pair<Value, Value>> results(stripes.size());
    for (int64_t index = 0; index < ranks; ++index) {
      Step step{index, k, v, maskOfStep(index)};
      if (index + 1 < ranks) { // the transfer overlaps with this step
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

  void attendBack(const Step &step, const Stripe &stripe, const Saved &saved,
                  Gradients &sums) {
    auto addTo = [&](Value &sum, Value more) {
      sum = sum ? g.add(sum, more) : more;
    };
    Value q = own(saved.q, stripe), lse = own(saved.lse, stripe);
    for (const Piece &piece : piecesOf(step, stripe)) {
      Value k = slice(step.k, 2, piece.first, piece.count),
            v = slice(step.v, 2, piece.first, piece.count);
      auto part = AttentionGradOp::create(
          builder, loc, q.getType(), k.getType(), v.getType(), q, k, v,
          own(saved.out, stripe),
          piece.isHidden ? hide(lse, step.index, -kHidden) : lse,
          own(saved.dout, stripe), piece.mask, scale, piece.causal,
          /*window=*/IntegerAttr());
      parts.push_back(part);
      addTo(sums.dq[&stripe - stripes.data()], widened(part.getDq()));
      addTo(sums.dk, extended(widened(part.getDk()), piece.first, keys));
      addTo(sums.dv, extended(widened(part.getDv()), piece.first, keys));
    }
  }

  void backward(AttentionGradOp grad) {
    Saved saved;
    saved.q = withoutPadding(grad.getQ());
    saved.dout = withoutPadding(grad.getDout());
    saved.out = withoutPadding(grad.getOut());
    saved.lse = withoutPadding(grad.getLse());
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
  RingForm form;
  ShardingSpec global;
  StringAttr axisName;
  int64_t axis = -1, ranks = 1;
  bool isCausal;
  Value mask;
  /// The columns of the mask by the owner of their keys: [ranks, rows, keys].
  Value cutColumns;
  FloatAttr scale;
  /// padding[rank][position] is true for padding. Empty without padding.
  std::vector<std::vector<bool>> padding;
  std::vector<Stripe> stripes;
  SmallVector<Operation *> parts;
};

} // namespace

FailureOr<SmallVector<Operation *>> expandRing(Operation *op, MeshAttr mesh,
                                               RingForm form) {
  return RingExpander(op, mesh, form).run();
}

} // namespace dpc
