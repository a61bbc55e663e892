//===- CpuLoops.h - Kernels as loops of one thread --------------*- C++ -*-===//
#pragma once

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

class CpuLoops : public LoopTarget {
public:
  explicit CpuLoops(ElementEmitter &b) : b(b) {}

  Values rowFold(const RowFold &fold, int64_t size, Value limit,
                 const ColumnBody &body) override;
  void rowLoop(int64_t size, Value limit,
               const std::function<void(Index)> &body) override;
  void restLoop(int64_t size, Value limit, const LoopBody &body) override;
  void once(const std::function<void()> &body) override { body(); }
  void nest(const Nest &nest, const ElementsBody &elements) override;

private:
  ElementEmitter &b;
};

EmittedKernel emitForCpu(ElementEmitter &b);

/// Emits a kernel with reductions (CpuReductions.cpp).
void emitReductions(ElementEmitter &b);

} // namespace dpc::codegen
