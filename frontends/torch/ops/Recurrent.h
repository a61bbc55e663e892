//===- Recurrent.h - Layers and cells of recurrent nets ---------*- C++ -*-===//
#pragma once

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

/// lstm, gru, rnn_tanh, rnn_relu and their cells.
void addRecurrent(OperatorTable &table);

} // namespace dpc::frontend::pt2
