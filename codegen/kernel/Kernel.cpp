//===- Kernel.cpp - Emits the code of a dpc.kernel ------------------------===//
#include "codegen/kernel/Kernel.h"
#include "codegen/cpu/CpuLoops.h"
#include "codegen/gpu/GpuKernel.h"

using namespace mlir;

namespace dpc::codegen {

FailureOr<EmittedKernel> emitKernel(OpBuilder &builder, const KernelSpec &spec,
                                    StringRef symbol, KernelTarget target) {
  ElementEmitter b(builder, spec, symbol, target);
  EmittedKernel kernel = b.isForGpu() ? emitForGpu(b) : emitForCpu(b);
  if (b.failed)
    return failure();
  return kernel;
}

} // namespace dpc::codegen
