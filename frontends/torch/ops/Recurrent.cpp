//===- Recurrent.cpp - LSTM, GRU and RNN ----------------------------------===//
#include "frontends/torch/ops/Recurrent.h"

#include "frontends/emit/Dropout.h"
#include "frontends/emit/Recurrent.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

enum class Kind { lstm, gru, tanh, relu };

/// Returns a cell without weights. The gates are i, f, the candidate and o, or
/// r, z and the candidate, in this order.
RecurrentCell cellOf(Kind kind) {
  RecurrentCell cell;
  switch (kind) {
  case Kind::lstm:
    cell.kind = CellKind::lstm;
    cell.places = {0, 1, 2, 3};
    cell.activations = {UnaryKind::sigmoid, UnaryKind::tanh, UnaryKind::tanh};
    break;
  case Kind::gru:
    cell.kind = CellKind::gru;
    cell.places = {1, 0, 2};
    cell.activations = {UnaryKind::sigmoid, UnaryKind::tanh};
    cell.linearBeforeReset = true;
    break;
  case Kind::tanh:
  case Kind::relu:
    cell.activations = {kind == Kind::tanh ? UnaryKind::tanh : UnaryKind::relu};
    break;
  }
  return cell;
}

/// Whether the weights are [gates hidden, columns] and biases [gates hidden].
bool areWeights(Call &c, const RecurrentCell &w) {
  const auto gates = static_cast<int64_t>(w.places.size());
  auto isMatrix = [](const Val &x) { return x && x.rank() == 2; };
  bool fit = isMatrix(w.input) && isMatrix(w.state) &&
             w.input.dim(0) == w.state.dim(0) && w.input.dim(0) % gates == 0 &&
             (!w.projection || isMatrix(w.projection));
  for (const Val &bias : {w.inputBias, w.stateBias})
    fit = fit && (!bias || bias.shape() == llvm::ArrayRef(w.input.dim(0)));
  if (!fit)
    c.fail("weights {0} and {1} do not fit {2} gates", w.input, w.state, gates);
  return fit;
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
std::optional<std::vector<RecurrentCell>> weightsOf(Call &c, Kind kind,
                                                    int64_t count) {
  llvm::SmallVector<Val> params = c.tensors("params");
  bool hasBiases = c.flag("has_biases");
  size_t least = hasBiases ? 4 : 2, each = params.size() / count;
  if (params.size() % count || (each != least && each != least + 1)) {
    c.fail("{0} weights do not belong to {1} directions of layers",
           params.size(), count);
    return std::nullopt;
  }
  std::vector<RecurrentCell> weights(count, cellOf(kind));
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
  auto weights = weightsOf(c, kind, count);
  if (!weights || !llvm::all_of(*weights, [&](const RecurrentCell &w) {
        return areWeights(c, w);
      }))
    return {};
  if (!batchFirst)
    x = e.swapDims(x, 0, 1);
  if (!canUnroll(e, x.dim(1)))
    return {};
  llvm::SmallVector<Val> last, lastCells;
  for (int64_t n = 0; n < count && !e.failed(); n += directions) {
    llvm::SmallVector<Val> both;
    for (int64_t d = 0; d < directions; ++d) {
      auto of = [&](const Val &all) {
        return e.dropDim(e.sliceDim(all, 0, n + d, 1), 0);
      };
      CellState state{of(start[0]), states > 1 ? of(start[1]) : Val()};
      both.push_back(
          stack(e, runSteps(e, (*weights)[n + d], x, d == 1, state), 1));
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
    c.out(1, stack(e, last, 0));
  if (states > 1 && c.wants(2))
    c.out(2, stack(e, lastCells, 0));
  return batchFirst ? x : e.swapDims(x, 0, 1);
}

template <Kind kind> Val cell(Call &c, Val x) {
  Emitter &e = c.emit;
  RecurrentCell w = cellOf(kind);
  w.input = c.tensor("w_ih");
  w.state = c.tensor("w_hh");
  if (c.has("b_ih"))
    w.inputBias = c.tensor("b_ih");
  if (c.has("b_hh"))
    w.stateBias = c.tensor("b_hh");
  CellState old;
  if constexpr (kind == Kind::lstm) {
    llvm::SmallVector<Val> hx = c.tensors("hx");
    if (hx.size() != 2)
      return c.fail("needs 2 states, not {0}", hx.size());
    old = {hx[0], hx[1]};
  } else {
    old.h = c.tensor("hx");
  }
  if (e.failed() || !areWeights(c, w))
    return {};
  if (x.rank() != 2 || old.h.rank() != 2)
    return c.fail("needs an input and a state of rank 2, not {0} and {1}", x,
                  old.h);
  CellState next = runCell(e, w, x, old);
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
