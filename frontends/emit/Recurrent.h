//===- Recurrent.h - RNN, LSTM and GRU --------------------------*- C++ -*-===//
//
// The number of steps is known at import time, so the steps are unrolled. The
// projection of the inputs does not depend on the state, so one matmul computes
// it for all steps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

enum class CellKind { rnn, gru, lstm };

/// A direction of a recurrent layer. Weights and biases have the rows of one
/// gate after the other.
struct RecurrentCell {
  CellKind kind = CellKind::rnn;
  Val input;                ///< [gates hidden, features]
  Val state;                ///< [gates hidden, size of the output]
  Val inputBias, stateBias; ///< [gates hidden], or null
  Val peepholes;            ///< [3 hidden] of an LSTM, or null
  Val projection; ///< [size of the output, hidden] of an LSTM, or null
  /// The places of the gates: i, f, candidate and o of an LSTM; z, r and
  /// candidate of a GRU; 0 of an RNN.
  llvm::SmallVector<int64_t, 4> places = {0};
  /// Of the gates, the candidate and the cell (LSTM); of an RNN only the first.
  std::vector<UnaryKind> activations;
  bool linearBeforeReset = false; ///< GRU: r scales the projected state.
  bool inputForget = false;       ///< LSTM: f = 1 - i.

  int64_t hidden() const {
    return input.dim(0) / static_cast<int64_t>(places.size());
  }
};

/// `c` is null unless the cell is an LSTM.
struct CellState {
  Val h, c;
};

/// Fails if a sequence is too long to unroll.
bool canUnroll(Emitter &e, int64_t steps);

/// Computes one step over `x` [batch, features].
CellState runCell(Emitter &e, const RecurrentCell &cell, Val x,
                  const CellState &old);

/// Changes the state after step `t` and returns the output of this step.
using KeepState =
    llvm::function_ref<Val(CellState &next, const CellState &old, int64_t t)>;

/// Runs over `x` [batch, steps, features], from the last step on if `back`.
/// Sets `state` to the last state, and returns the outputs by step. Without
/// `keep`, the outputs are the states.
llvm::SmallVector<Val> runSteps(Emitter &e, const RecurrentCell &cell, Val x,
                                bool back, CellState &state,
                                KeepState keep = nullptr);

/// Joins values of one shape along a new dimension `dim`.
Val stack(Emitter &e, llvm::ArrayRef<Val> parts, int64_t dim);

} // namespace dpc::frontend
