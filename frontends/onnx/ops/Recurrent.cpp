//===- Recurrent.cpp - RNN, LSTM, GRU and linear attention ----------------===//
#include "frontends/emit/Recurrent.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

class Layer {
public:
  /// `places` are those of RecurrentCell.
  Layer(NodeContext &c, CellKind kind, llvm::ArrayRef<int64_t> places,
        std::vector<UnaryKind> activations)
      : c(c), e(c.emit), kind(kind), places(places),
        activations(std::move(activations)) {}

  void run() {
    x = c.in(0);
    hidden = c.intAttr("hidden_size", 0);
    batchFirst = c.intAttr("layout", 0) != 0;
    llvm::StringRef direction = c.stringAttr("direction", "forward");
    if (!x || !check())
      return;
    if (!batchFirst)
      x = e.swapDims(x, 0, 1);
    int64_t count = direction == "bidirectional" ? 2 : 1;
    if (!readActivations(count))
      return;
    llvm::SmallVector<Val> all, h, cells;
    for (int64_t d = 0; d < count && !e.failed(); ++d) {
      bool back = direction == "reverse" || d == 1;
      CellState last;
      llvm::SmallVector<Val> outputs = runDirection(d, back, last);
      if (e.failed())
        return;
      all.push_back(stack(e, outputs, 0));
      h.push_back(last.h);
      cells.push_back(last.c);
    }
    finish(all, h, cells);
  }

private:
  bool check() {
    if (x.rank() != 3 || hidden < 1)
      c.fail("needs an input of rank 3 and a positive hidden_size, not {0} and "
             "{1}",
             x, hidden);
    if (c.hasAttr("clip"))
      c.fail("clip is not supported");
    return !e.failed() && canUnroll(e, x.dim(batchFirst ? 1 : 0));
  }

  /// The node's activations replace the defaults.
  bool readActivations(int64_t directions) {
    perDirection.assign(directions, activations);
    const auto *names = c.findAttr("activations");
    for (int n = 0; names && n < names->strings_size(); ++n) {
      llvm::StringRef name = names->strings(n);
      UnaryKind kind = UnaryKind::tanh;
      if (name.equals_insensitive("sigmoid"))
        kind = UnaryKind::sigmoid;
      else if (name.equals_insensitive("relu"))
        kind = UnaryKind::relu;
      else if (!name.equals_insensitive("tanh"))
        c.fail("activation {0} is not supported; accepted: Sigmoid, Tanh, Relu",
               name);
      size_t d = n / activations.size();
      if (d < perDirection.size())
        perDirection[d][n % activations.size()] = kind;
    }
    return !e.failed();
  }

  /// Returns slice `d` of input `i` along the direction; null if it is missing.
  Val ofDirection(int64_t i, int64_t d) {
    if (!c.has(i))
      return {};
    Val v = e.sliceDim(c.in(i), 0, d, 1);
    return v ? e.reshape(v, v.shape().drop_front()) : Val();
  }

  /// Returns [batch, hidden] for direction `d`; zeros without input `i`.
  Val startOf(int64_t i, int64_t d) {
    if (!c.has(i))
      return e.splat(0, x.element(), {x.dim(0), hidden});
    Val v = c.in(i);
    if (batchFirst)
      v = e.swapDims(v, 0, 1);
    return e.reshape(e.sliceDim(v, 0, d, 1), {x.dim(0), hidden});
  }

  /// Sets `state` to the last state; returns the outputs of the steps.
  llvm::SmallVector<Val> runDirection(int64_t d, bool back, CellState &state) {
    RecurrentCell cell;
    cell.kind = kind;
    cell.places = places;
    cell.activations = perDirection[d];
    cell.linearBeforeReset = c.intAttr("linear_before_reset", 0) != 0;
    cell.inputForget = c.intAttr("input_forget", 0) != 0;
    cell.input = ofDirection(1, d);
    cell.state = ofDirection(2, d);
    cell.peepholes = ofDirection(7, d);
    const auto width = static_cast<int64_t>(places.size()) * hidden;
    if (Val bias = ofDirection(3, d)) {
      cell.inputBias = e.sliceDim(bias, 0, 0, width);
      cell.stateBias = e.sliceDim(bias, 0, width, width);
    }
    state = {startOf(5, d), kind == CellKind::lstm ? startOf(6, d) : Val()};
    if (!cell.input || !cell.state || !state.h)
      return {};
    return runSteps(e, cell, x, back, state,
                    [&](CellState &next, const CellState &old, int64_t t) {
                      return kept(next, old, t);
                    });
  }

  /// Returns the output of step `t`. Samples whose sequence ends before step
  /// `t` keep their old state, and their output is zero.
  Val kept(CellState &next, const CellState &old, int64_t t) {
    if (!c.has(4) || !next.h)
      return next.h;
    Val lengths = e.reshape(c.in(4), {x.dim(0), 1});
    Val runs = e.gt(lengths, t);
    Val out = e.select(runs, next.h, 0);
    next.h = e.select(runs, next.h, old.h);
    if (next.c)
      next.c = e.select(runs, next.c, old.c);
    return out;
  }

  void finish(llvm::ArrayRef<Val> all, llvm::ArrayRef<Val> h,
              llvm::ArrayRef<Val> cells) {
    if (e.failed())
      return;
    // [directions, steps, batch, hidden]
    Val y = stack(e, all, 0);
    c.out(0,
          e.transpose(y, batchFirst ? Shape{2, 1, 0, 3} : Shape{1, 0, 2, 3}));
    auto states = [&](llvm::ArrayRef<Val> parts) {
      Val last = stack(e, parts, 0);
      return batchFirst ? e.swapDims(last, 0, 1) : last;
    };
    if (c.wants(1))
      c.out(1, states(h));
    if (kind == CellKind::lstm && c.wants(2))
      c.out(2, states(cells));
  }

  NodeContext &c;
  Emitter &e;
  CellKind kind;
  llvm::SmallVector<int64_t, 4> places;
  std::vector<UnaryKind> activations; ///< of one direction
  std::vector<std::vector<UnaryKind>> perDirection;
  Val x; ///< [batch, steps, features]
  int64_t hidden = 0;
  bool batchFirst = false;
};

Val rnn(NodeContext &c) {
  Layer(c, CellKind::rnn, {0}, {UnaryKind::tanh}).run();
  return {};
}
/// The gates are z, r and the candidate, in this order.
Val gru(NodeContext &c) {
  Layer(c, CellKind::gru, {0, 1, 2}, {UnaryKind::sigmoid, UnaryKind::tanh})
      .run();
  return {};
}
/// The gates are i, o, f and the candidate, in this order.
Val lstm(NodeContext &c) {
  Layer(c, CellKind::lstm, {0, 2, 3, 1},
        {UnaryKind::sigmoid, UnaryKind::tanh, UnaryKind::tanh})
      .run();
  return {};
}

Val unpacked(Emitter &e, Val x, int64_t heads) {
  if (!x)
    return {};
  Val split = e.reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return e.transpose(split, {0, 2, 1, 3});
}

/// Returns row t of [B, H, T, D] as [B, H, 1, D].
Val rowAt(Emitter &e, Val x, int64_t t) {
  return x ? e.sliceDim(x, 2, t, 1) : Val();
}

/// Linear attention: the next state is exp(decay) state + k^T v. `isDelta`
/// replaces v by beta (v - k state).
struct LinearStep {
  Val decay, beta; ///< [B, H, T, D or 1], or null
  bool isDelta;

  Val next(Emitter &e, Val state, Val k, Val v, int64_t t) const {
    Val column = e.swapDims(k, 2, 3);
    if (decay)
      state = e.mul(e.swapDims(e.exp(rowAt(e, decay, t)), 2, 3), state);
    if (isDelta)
      v = e.mul(rowAt(e, beta, t), e.sub(v, e.matmul(k, state)));
    return e.add(state, e.mul(column, v));
  }
};

Val linearAttention(NodeContext &c) {
  Emitter &e = c.emit;
  int64_t heads = c.intAttr("kv_num_heads", 0);
  int64_t queryHeads = c.intAttr("q_num_heads", 0);
  llvm::StringRef rule = c.stringAttr("update_rule", "gated_delta");
  Val q = c.in(0), k = c.in(1), v = c.in(2);
  if (!q || !k || !v || !canUnroll(e, q.dim(1)))
    return {};
  if (heads < 1 || queryHeads % heads || q.rank() != 3 ||
      q.dim(2) % queryHeads || k.dim(2) % heads || v.dim(2) % heads)
    return c.fail("q_num_heads={0} and kv_num_heads={1} do not fit {2}",
                  queryHeads, heads, q);
  LinearStep step;
  step.isDelta = rule == "delta" || rule == "gated_delta";
  if (rule == "gated" || rule == "gated_delta")
    step.decay = unpacked(e, c.in(4), heads);
  if (step.isDelta && c.in(5))
    step.beta = unpacked(e, c.in(5), c.in(5).dim(2) == 1 ? 1 : heads);
  // States accumulate over many steps, so their type is f32 or f64.
  Type element = q.element();
  Type wide = element.isF64() ? element : e.f32();
  for (Val *x : {&q, &k, &v, &step.decay, &step.beta})
    if (*x)
      *x = e.convert(*x, wide);
  q = unpacked(e, q, queryHeads);
  k = unpacked(e, k, heads);
  v = unpacked(e, v, heads);
  if (e.failed())
    return {};
  int64_t batch = q.dim(0), steps = q.dim(2), dk = k.dim(3), dv = v.dim(3);
  int64_t group = queryHeads / heads;
  double scale = c.floatAttr("scale", 0.0);
  q = e.mul(q,
            scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(q.dim(3))));
  // The queries of the heads that share a key head are rows of one matmul.
  q = e.reshape(q, {batch, heads, group, steps, dk});
  Val state = c.has(3) ? e.convert(c.in(3), wide)
                       : e.splat(0, v.element(), {batch, heads, dk, dv});
  llvm::SmallVector<Val> rows;
  for (int64_t t = 0; t < steps && !e.failed(); ++t) {
    state = step.next(e, state, rowAt(e, k, t), rowAt(e, v, t), t);
    Val now = e.reshape(e.sliceDim(q, 3, t, 1), {batch, heads, group, dk});
    rows.push_back(
        e.reshape(e.matmul(now, state), {batch, 1, queryHeads * dv}));
  }
  if (e.failed())
    return {};
  c.out(0, e.convert(e.concat(rows, 1), element));
  c.out(1, e.convert(state, element));
  return {};
}

} // namespace

void addRecurrentOps(OpTable &table) {
  table["RNN"] = rnn;
  table["GRU"] = gru;
  table["LSTM"] = lstm;
  table["LinearAttention"] = linearAttention;
}

} // namespace dpc::frontend
