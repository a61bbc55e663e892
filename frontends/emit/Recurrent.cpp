//===- Recurrent.cpp - RNN, LSTM and GRU ----------------------------------===//
#include "frontends/emit/Recurrent.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

Val projected(Emitter &e, Val x, const Val &weight, const Val &bias) {
  Val y = e.matmul(x, weight, false, true);
  return bias ? e.add(y, bias) : y;
}

/// Returns the columns of the gate at place `n`.
Val gate(Emitter &e, Val x, const RecurrentCell &cell, int64_t n) {
  int64_t hidden = cell.hidden();
  return x ? e.sliceDim(x, x.rank() - 1, n * hidden, hidden) : Val();
}

// In the steps, `x` is the projection of the input.

CellState rnnStep(Emitter &e, const RecurrentCell &cell, Val x,
                  const CellState &old) {
  Val y = projected(e, old.h, cell.state, cell.stateBias);
  return {e.unary(cell.activations[0], e.add(x, y)), {}};
}

CellState gruStep(Emitter &e, const RecurrentCell &cell, Val x,
                  const CellState &old) {
  Val y = projected(e, old.h, cell.state, cell.stateBias);
  auto opened = [&](int64_t n) {
    return e.unary(cell.activations[0],
                   e.add(gate(e, x, cell, n), gate(e, y, cell, n)));
  };
  Val z = opened(cell.places[0]), r = opened(cell.places[1]), inner;
  const int64_t last = cell.places[2], hidden = cell.hidden();
  if (cell.linearBeforeReset) {
    inner = e.mul(r, gate(e, y, cell, last));
  } else {
    Val rows = e.sliceDim(cell.state, 0, last * hidden, hidden);
    inner = e.matmul(e.mul(r, old.h), rows, false, true);
    if (cell.stateBias)
      inner = e.add(inner, gate(e, cell.stateBias, cell, last));
  }
  Val next = e.unary(cell.activations[1], e.add(gate(e, x, cell, last), inner));
  // (1 - z) next + z h
  return {e.add(next, e.mul(z, e.sub(old.h, next))), {}};
}

CellState lstmStep(Emitter &e, const RecurrentCell &cell, Val x,
                   const CellState &old) {
  Val y = e.add(x, projected(e, old.h, cell.state, cell.stateBias));
  auto opened = [&](int64_t n, Val state) {
    Val sum = gate(e, y, cell, n);
    if (cell.peepholes)
      sum = e.add(sum, e.mul(gate(e, cell.peepholes, cell, n), state));
    return e.unary(cell.activations[0], sum);
  };
  Val i = opened(cell.places[0], old.c);
  Val f = cell.inputForget && i ? e.sub(1, i) : opened(cell.places[1], old.c);
  Val candidate = gate(e, y, cell, cell.places[2]);
  candidate = e.unary(cell.activations[1], candidate);
  Val next = e.add(e.mul(f, old.c), e.mul(i, candidate));
  Val h =
      e.mul(opened(cell.places[3], next), e.unary(cell.activations[2], next));
  return {cell.projection ? e.matmul(h, cell.projection, false, true) : h,
          next};
}

CellState step(Emitter &e, const RecurrentCell &cell, Val x,
               const CellState &old) {
  return cell.kind == CellKind::rnn   ? rnnStep(e, cell, x, old)
         : cell.kind == CellKind::gru ? gruStep(e, cell, x, old)
                                      : lstmStep(e, cell, x, old);
}

} // namespace

bool canUnroll(Emitter &e, int64_t steps) {
  constexpr int64_t kMost = 1024; // More would take too long to compile.
  if (steps > kMost)
    e.fail("a sequence of {0} steps is too long to unroll; accepted: at most "
           "{1}",
           steps, kMost);
  return steps <= kMost;
}

CellState runCell(Emitter &e, const RecurrentCell &cell, Val x,
                  const CellState &old) {
  Val inputs = projected(e, x, cell.input, cell.inputBias);
  return inputs ? step(e, cell, inputs, old) : CellState();
}

llvm::SmallVector<Val> runSteps(Emitter &e, const RecurrentCell &cell, Val x,
                                bool back, CellState &state, KeepState keep) {
  int64_t batch = x.dim(0), steps = x.dim(1);
  llvm::SmallVector<Val> outputs(steps);
  Val inputs = projected(e, e.reshape(x, {batch * steps, x.dim(2)}), cell.input,
                         cell.inputBias);
  if (!inputs)
    return outputs;
  int64_t width = inputs.dim(1);
  inputs = e.reshape(inputs, {batch, steps, width});
  for (int64_t n = 0; n < steps && !e.failed(); ++n) {
    int64_t t = back ? steps - 1 - n : n;
    Val now = e.reshape(e.sliceDim(inputs, 1, t, 1), {batch, width});
    CellState next = step(e, cell, now, state);
    outputs[t] = keep ? keep(next, state, t) : next.h;
    state = next;
  }
  return outputs;
}

Val stack(Emitter &e, llvm::ArrayRef<Val> parts, int64_t dim) {
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

} // namespace dpc::frontend
