//===- Recurrent.cpp - LSTM, GRU and RNN ----------------------------------===//
//
// The number of steps is known at import time, so the steps are unrolled. One
// matmul projects the inputs of all steps.
//
//===----------------------------------------------------------------------===//
#include "frontends/torch/ops/Recurrent.h"

#include "frontends/emit/Dropout.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// Steps are unrolled, so more steps would take too long to compile.
constexpr int64_t kMaxSteps = 1024;

enum class Kind { lstm, gru, tanh, relu };

/// The number of gates, whose rows of the weights follow each other.
int64_t gatesOf(Kind kind) {
  return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1;
}

/// The weights of one direction of a layer; those it lacks are null.
struct CellWeights {
  Val input, state, inputBias, stateBias;
  Val projection; ///< [size of the output, hidden], of an LSTM
};

/// `c` is null unless the layer is an LSTM.
struct State {
  Val h, c;
};

/// Whether the weights are [gates hidden, columns] and biases [gates hidden].
bool areWeights(Call &c, Kind kind, const CellWeights &w) {
  auto isMatrix = [](const Val &x) { return x && x.rank() == 2; };
  bool fit = isMatrix(w.input) && isMatrix(w.state) &&
             w.input.dim(0) == w.state.dim(0) &&
             w.input.dim(0) % gatesOf(kind) == 0 &&
             (!w.projection || isMatrix(w.projection));
  for (const Val &bias : {w.inputBias, w.stateBias})
    fit = fit && (!bias || bias.shape() == llvm::ArrayRef(w.input.dim(0)));
  if (!fit)
    c.fail("weights {0} and {1} do not fit {2} gates", w.input, w.state,
           gatesOf(kind));
  return fit;
}

Val biased(Emitter &e, Val x, const Val &bias) {
  return bias ? e.add(x, bias) : x;
}

Val projected(Emitter &e, Val x, const Val &weight, const Val &bias) {
  return biased(e, e.matmul(x, weight, false, true), bias);
}

/// The gates are i, f, the candidate and o, in this order.
State lstmStep(Emitter &e, const CellWeights &w, Val x, const State &old) {
  Val y = e.add(x, projected(e, old.h, w.state, w.stateBias));
  if (!y)
    return {};
  int64_t hidden = y.dim(1) / 4;
  auto gate = [&](int64_t n) { return e.sliceDim(y, 1, n * hidden, hidden); };
  Val c = e.add(e.mul(e.sigmoid(gate(1)), old.c),
                e.mul(e.sigmoid(gate(0)), e.tanh(gate(2))));
  Val h = e.mul(e.sigmoid(gate(3)), e.tanh(c));
  return {w.projection ? e.matmul(h, w.projection, false, true) : h, c};
}

/// The gates are r, z and the candidate, in this order.
State gruStep(Emitter &e, const CellWeights &w, Val x, const State &old) {
  Val y = projected(e, old.h, w.state, w.stateBias);
  if (!x || !y)
    return {};
  int64_t hidden = y.dim(1) / 3;
  auto gate = [&](const Val &of, int64_t n) {
    return e.sliceDim(of, 1, n * hidden, hidden);
  };
  Val r = e.sigmoid(e.add(gate(x, 0), gate(y, 0)));
  Val z = e.sigmoid(e.add(gate(x, 1), gate(y, 1)));
  Val next = e.tanh(e.add(gate(x, 2), e.mul(r, gate(y, 2))));
  // (1 - z) next + z h
  return {e.add(next, e.mul(z, e.sub(old.h, next))), {}};
}

/// `x` is the projection of a step's input.
State step(Emitter &e, Kind kind, const CellWeights &w, Val x,
           const State &old) {
  if (kind == Kind::lstm)
    return lstmStep(e, w, x, old);
  if (kind == Kind::gru)
    return gruStep(e, w, x, old);
  Val y = e.add(x, projected(e, old.h, w.state, w.stateBias));
  return {kind == Kind::tanh ? e.tanh(y) : e.relu(y), {}};
}

Val joined(Emitter &e, llvm::ArrayRef<Val> parts, int64_t dim) {
  llvm::SmallVector<Val> wide;
  for (const Val &part : parts) {
    if (!part)
      return {};
    Shape shape(part.shape());
    shape.insert(shape.begin() + dim, 1);
    wide.push_back(e.reshape(part, shape));
  }
  return e.concat(wide, dim);
}

/// Runs a direction over [batch, steps, features]; returns the outputs of all
/// steps and sets `state` to the last.
Val runDirection(Emitter &e, Kind kind, const CellWeights &w, Val x, bool back,
                 State &state) {
  int64_t batch = x.dim(0), steps = x.dim(1);
  Val inputs = projected(e, e.reshape(x, {batch * steps, x.dim(2)}), w.input,
                         w.inputBias);
  if (!inputs)
    return {};
  int64_t width = inputs.dim(1);
  inputs = e.reshape(inputs, {batch, steps, width});
  llvm::SmallVector<Val> outputs(steps);
  for (int64_t n = 0; n < steps && !e.failed(); ++n) {
    int64_t t = back ? steps - 1 - n : n;
    Val now = e.reshape(e.sliceDim(inputs, 1, t, 1), {batch, width});
    state = step(e, kind, w, now, state);
    outputs[t] = state.h;
  }
  return joined(e, outputs, 1);
}

Val dropped(Call &c, Val x) {
  bool trains = c.flag("train");
  double p = c.number("dropout");
  noteDropout(c.emit, p, trains);
  p = trains ? activeDropout(c.emit, p) : 0;
  return p > 0 && x
             ? applyDropout(c.emit, x, dropoutMask(c.emit, x.shape(), p), p)
             : x;
}

/// Reads the weights of the directions of all layers, in their order.
std::optional<std::vector<CellWeights>> weightsOf(Call &c, int64_t count) {
  llvm::SmallVector<Val> params = c.tensors("params");
  bool hasBiases = c.flag("has_biases");
  size_t least = hasBiases ? 4 : 2, each = params.size() / count;
  if (params.size() % count || (each != least && each != least + 1)) {
    c.fail("{0} weights do not belong to {1} directions of layers",
           params.size(), count);
    return std::nullopt;
  }
  std::vector<CellWeights> weights(count);
  for (auto [n, w] : llvm::enumerate(weights)) {
    const Val *own = &params[n * each];
    w.input = own[0];
    w.state = own[1];
    if (hasBiases) {
      w.inputBias = own[2];
      w.stateBias = own[3];
    }
    if (each > least)
      w.projection = own[least];
  }
  return weights;
}

/// A stack of layers in one or both directions.
template <Kind kind> Val layers(Call &c, Val x) {
  Emitter &e = c.emit;
  bool batchFirst = c.flag("batch_first");
  int64_t directions = c.flag("bidirectional") ? 2 : 1;
  int64_t depth = c.integer("num_layers"), count = depth * directions;
  llvm::SmallVector<Val> start;
  if constexpr (kind == Kind::lstm)
    start = c.tensors("hx");
  else
    start.push_back(c.tensor("hx"));
  if (e.failed())
    return {};
  size_t states = kind == Kind::lstm ? 2 : 1;
  if (x.rank() != 3 || depth < 1 || start.size() != states ||
      llvm::any_of(
          start,
          [&](const Val &h) { return h.rank() != 3 || h.dim(0) != count; }))
    return c.fail("needs an input of rank 3 and states for {0} directions of "
                  "layers, not {1} and {2}",
                  count, x, start[0]);
  auto weights = weightsOf(c, count);
  if (!weights || !llvm::all_of(*weights, [&](const CellWeights &w) {
        return areWeights(c, kind, w);
      }))
    return {};
  if (!batchFirst)
    x = e.swapDims(x, 0, 1);
  if (x.dim(1) > kMaxSteps)
    return c.fail("a sequence of {0} steps is too long to unroll; accepted: at "
                  "most {1}",
                  x.dim(1), kMaxSteps);
  llvm::SmallVector<Val> last, lastCells;
  for (int64_t n = 0; n < count && !e.failed(); n += directions) {
    llvm::SmallVector<Val> both;
    for (int64_t d = 0; d < directions; ++d) {
      auto of = [&](const Val &all) {
        return e.dropDim(e.sliceDim(all, 0, n + d, 1), 0);
      };
      State state{of(start[0]), states > 1 ? of(start[1]) : Val()};
      both.push_back(
          runDirection(e, kind, (*weights)[n + d], x, d == 1, state));
      last.push_back(state.h);
      lastCells.push_back(state.c);
    }
    if (e.failed())
      return {};
    x = e.concat(both, 2);
    if (n + directions < count)
      x = dropped(c, x);
  }
  if (c.wants(1))
    c.out(1, joined(e, last, 0));
  if (states > 1 && c.wants(2))
    c.out(2, joined(e, lastCells, 0));
  return batchFirst ? x : e.swapDims(x, 0, 1);
}

template <Kind kind> Val cell(Call &c, Val x) {
  Emitter &e = c.emit;
  CellWeights w{c.tensor("w_ih"), c.tensor("w_hh"), {}, {}, {}};
  if (c.has("b_ih"))
    w.inputBias = c.tensor("b_ih");
  if (c.has("b_hh"))
    w.stateBias = c.tensor("b_hh");
  State old;
  if constexpr (kind == Kind::lstm) {
    llvm::SmallVector<Val> hx = c.tensors("hx");
    if (hx.size() != 2)
      return c.fail("needs 2 states, not {0}", hx.size());
    old = {hx[0], hx[1]};
  } else {
    old.h = c.tensor("hx");
  }
  if (e.failed() || !areWeights(c, kind, w))
    return {};
  if (x.rank() != 2 || old.h.rank() != 2)
    return c.fail("needs an input and a state of rank 2, not {0} and {1}", x,
                  old.h);
  State next = step(e, kind, w, projected(e, x, w.input, w.inputBias), old);
  c.out(1, next.c);
  return next.h;
}

} // namespace

void addRecurrent(OperatorTable &t) {
  llvm::StringRef layer = "input, hx, params, has_biases, num_layers, dropout, "
                          "train, bidirectional, batch_first";
  t["lstm.input"] = {layer, layers<Kind::lstm>};
  t["gru.input"] = {layer, layers<Kind::gru>};
  t["rnn_tanh.input"] = {layer, layers<Kind::tanh>};
  t["rnn_relu.input"] = {layer, layers<Kind::relu>};
  llvm::StringRef one = "input, hx, w_ih, w_hh, b_ih=None, b_hh=None";
  t["lstm_cell.default"] = {one, cell<Kind::lstm>};
  t["gru_cell.default"] = {one, cell<Kind::gru>};
  t["rnn_tanh_cell.default"] = {one, cell<Kind::tanh>};
  t["rnn_relu_cell.default"] = {one, cell<Kind::relu>};
}

} // namespace dpc::frontend::pt2
