//===- Recurrent.cpp - RNN, LSTM, GRU and linear attention ----------------===//
//
// The number of steps is known at import time, so the steps are unrolled. The
// projection of the inputs does not depend on the state, so one matmul computes
// it for all steps.
//
//===----------------------------------------------------------------------===//
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Steps are unrolled, so more steps would take too long to compile.
constexpr int64_t kMaxSteps = 1024;

bool stepsFit(NodeContext &c, int64_t steps) {
  if (steps <= kMaxSteps)
    return true;
  c.fail("a sequence of {0} steps is too long to unroll; accepted: at most {1}",
         steps, kMaxSteps);
  return false;
}

/// Weights of one direction of a recurrent layer.
struct Cell {
  int64_t hidden;
  Val r;                    ///< [gates * hidden, hidden]
  Val inputBias, stateBias; ///< [gates * hidden], or null
  Val peepholes;            ///< [3 * hidden], or null (LSTM)
  std::vector<UnaryKind> activations;
  bool linearBeforeReset = false, inputForget = false;
};

/// `c` is null unless the layer is an LSTM.
struct CellState {
  Val h, c;
};

Val gate(Emitter &e, Val x, const Cell &cell, int64_t n) {
  return x ? e.sliceDim(x, x.rank() - 1, n * cell.hidden, cell.hidden) : Val();
}

/// h r^T + stateBias
Val project(Emitter &e, Val h, const Cell &cell) {
  Val y = e.matmul(h, cell.r, false, true);
  return cell.stateBias ? e.add(y, cell.stateBias) : y;
}

using StepFunction = CellState (*)(Emitter &, const Cell &, Val, CellState);

CellState rnnStep(Emitter &e, const Cell &cell, Val x, CellState old) {
  return {e.unary(cell.activations[0], e.add(x, project(e, old.h, cell))), {}};
}

/// The gates are z, r and the candidate, in this order.
CellState gruStep(Emitter &e, const Cell &cell, Val x, CellState old) {
  Val y = project(e, old.h, cell);
  auto sigmoid = [&](int64_t n) {
    return e.unary(cell.activations[0],
                   e.add(gate(e, x, cell, n), gate(e, y, cell, n)));
  };
  Val z = sigmoid(0), r = sigmoid(1), inner;
  if (cell.linearBeforeReset) {
    inner = e.mul(r, gate(e, y, cell, 2));
  } else {
    Val rows = e.sliceDim(cell.r, 0, 2 * cell.hidden, cell.hidden);
    inner = e.matmul(e.mul(r, old.h), rows, false, true);
    if (cell.stateBias)
      inner = e.add(inner, gate(e, cell.stateBias, cell, 2));
  }
  Val next = e.unary(cell.activations[1], e.add(gate(e, x, cell, 2), inner));
  // (1 - z) next + z h
  return {e.add(next, e.mul(z, e.sub(old.h, next))), {}};
}

/// The gates are i, o, f and the candidate, in this order.
CellState lstmStep(Emitter &e, const Cell &cell, Val x, CellState old) {
  Val y = e.add(x, project(e, old.h, cell));
  auto opened = [&](int64_t n, Val state) {
    Val sum = gate(e, y, cell, n);
    if (cell.peepholes)
      sum = e.add(sum, e.mul(gate(e, cell.peepholes, cell, n), state));
    return e.unary(cell.activations[0], sum);
  };
  Val i = opened(0, old.c);
  Val f = cell.inputForget && i ? e.sub(1, i) : opened(2, old.c);
  Val candidate = e.unary(cell.activations[1], gate(e, y, cell, 3));
  Val next = e.add(e.mul(f, old.c), e.mul(i, candidate));
  Val o = opened(1, next);
  return {e.mul(o, e.unary(cell.activations[2], next)), next};
}

class Layer {
public:
  Layer(NodeContext &c, StepFunction step, int64_t gates,
        std::vector<UnaryKind> activations)
      : c(c), e(c.emit), step(step), gates(gates),
        activations(std::move(activations)) {}

  void run() {
    x = c.in(0);
    hidden = c.intAttr("hidden_size", 0);
    batchFirst = c.intAttr("layout", 0) != 0;
    llvm::StringRef direction = c.stringAttr("direction", "forward");
    if (!x || !check())
      return;
    if (batchFirst)
      x = e.swapDims(x, 0, 1);
    int64_t count = direction == "bidirectional" ? 2 : 1;
    if (!readActivations(count))
      return;
    llvm::SmallVector<Val> all, h, cells;
    for (int64_t d = 0; d < count && !e.failed(); ++d) {
      bool back = direction == "reverse" || d == 1;
      llvm::SmallVector<Val> states(x.dim(0));
      CellState last = runDirection(d, back, states);
      if (e.failed())
        return;
      all.push_back(stacked(states));
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
    return !e.failed() && stepsFit(c, x.dim(batchFirst ? 1 : 0));
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
      return e.splat(0, x.element(), {x.dim(1), hidden});
    Val v = c.in(i);
    if (batchFirst)
      v = e.swapDims(v, 0, 1);
    return e.reshape(e.sliceDim(v, 0, d, 1), {x.dim(1), hidden});
  }

  CellState runDirection(int64_t d, bool back,
                         llvm::MutableArrayRef<Val> states) {
    Cell cell;
    cell.hidden = hidden;
    cell.activations = perDirection[d];
    cell.linearBeforeReset = c.intAttr("linear_before_reset", 0) != 0;
    cell.inputForget = c.intAttr("input_forget", 0) != 0;
    Val w = ofDirection(1, d), bias = ofDirection(3, d);
    cell.r = ofDirection(2, d);
    cell.peepholes = ofDirection(7, d);
    int64_t steps = x.dim(0), batch = x.dim(1), width = gates * hidden;
    if (!w || !cell.r)
      return {};
    Val inputs =
        e.matmul(e.reshape(x, {steps * batch, x.dim(2)}), w, false, true);
    if (bias) {
      inputs = e.add(inputs, e.sliceDim(bias, 0, 0, width));
      cell.stateBias = e.sliceDim(bias, 0, width, width);
    }
    inputs = e.reshape(inputs, {steps, batch, width});
    CellState state{startOf(5, d), gates == 4 ? startOf(6, d) : Val()};
    for (int64_t n = 0; n < steps && !e.failed(); ++n) {
      int64_t t = back ? steps - 1 - n : n;
      Val now = e.reshape(e.sliceDim(inputs, 0, t, 1), {batch, width});
      CellState next = step(e, cell, now, state);
      states[t] = kept(next, state, t);
      state = next;
    }
    return state;
  }

  /// Returns the output of step `t`. Samples whose sequence ends before step
  /// `t` keep their old state, and their output is zero.
  Val kept(CellState &next, const CellState &old, int64_t t) {
    if (!c.has(4) || !next.h)
      return next.h;
    Val lengths = e.reshape(c.in(4), {x.dim(1), 1});
    Val runs = e.gt(lengths, t);
    Val out = e.select(runs, next.h, 0);
    next.h = e.select(runs, next.h, old.h);
    if (next.c)
      next.c = e.select(runs, next.c, old.c);
    return out;
  }

  Val stacked(llvm::ArrayRef<Val> parts) {
    llvm::SmallVector<Val> wide;
    for (const Val &part : parts) {
      Shape shape(part.shape());
      shape.insert(shape.begin(), 1);
      wide.push_back(e.reshape(part, shape));
    }
    return e.concat(wide, 0);
  }

  void finish(llvm::ArrayRef<Val> all, llvm::ArrayRef<Val> h,
              llvm::ArrayRef<Val> cells) {
    if (e.failed())
      return;
    // [directions, steps, batch, hidden]
    Val y = stacked(all);
    c.out(0,
          e.transpose(y, batchFirst ? Shape{2, 1, 0, 3} : Shape{1, 0, 2, 3}));
    auto states = [&](llvm::ArrayRef<Val> parts) {
      Val last = stacked(parts);
      return batchFirst ? e.swapDims(last, 0, 1) : last;
    };
    if (c.wants(1))
      c.out(1, states(h));
    if (gates == 4 && c.wants(2))
      c.out(2, states(cells));
  }

  NodeContext &c;
  Emitter &e;
  StepFunction step;
  int64_t gates;
  std::vector<UnaryKind> activations; ///< of one direction
  std::vector<std::vector<UnaryKind>> perDirection;
  Val x; ///< [steps, batch, features]
  int64_t hidden = 0;
  bool batchFirst = false;
};

Val rnn(NodeContext &c) {
  Layer(c, rnnStep, 1, {UnaryKind::tanh}).run();
  return {};
}
Val gru(NodeContext &c) {
  Layer(c, gruStep, 3, {UnaryKind::sigmoid, UnaryKind::tanh}).run();
  return {};
}
Val lstm(NodeContext &c) {
  Layer(c, lstmStep, 4, {UnaryKind::sigmoid, UnaryKind::tanh, UnaryKind::tanh})
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
  if (!q || !k || !v || !stepsFit(c, q.dim(1)))
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
