//===- PlanEpilogues.cpp - GEMMs with epilogues ---------------------------===//
//
// A kernel that dpc-fuse-epilogues made of a matmul and its epilogue is one
// instruction (ir/GemmEpilogues.h says where it has what). The pass has asked
// whether one call can do it, of operands as views have them; where they turn
// out to lie otherwise, what is in the kernel is lowered op by op.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/PlanBuilder.h"
#include "ir/GemmEpilogues.h"
#include "runtime/plan/EnumNames.h"

using namespace mlir;

namespace dpc::codegen {

/// Whether one call can do it, where its operands are. cuBLASLt wants rows of a
/// matrix at multiples of 8 elements.
bool PlanBuilder::canEnd(KernelOp op, rt::Epilogue epilogue,
                         ArrayRef<rt::MatmulOp> calls) const {
  constexpr int64_t kElements = 8;
  if (calls.size() != 1 || epilogue == rt::Epilogue::None)
    return calls.size() == 1;
  const rt::MatmulOp &call = calls.front();
  bool hasAux = rt::readsAux(epilogue) || rt::writesAux(epilogue);
  if (call.batch != 1 || call.batch2 != 1 ||
      (hasAux && call.n % kElements != 0) ||
      (epilogue == rt::Epilogue::SumsOfA && !call.transA) ||
      (epilogue == rt::Epilogue::SumsOfB && call.transB))
    return false;
  if (!rt::readsAux(epilogue))
    return true;
  StridedView aux = slots.at(op.getInputs()[kEpilogueOperand]).view;
  int64_t begin = std::exchange(aux.offset, 0);
  return aux.isDense() && begin % kElements == 0;
}

/// The vector and the matrix that `epilogue` reads or writes.
void PlanBuilder::bindEpilogue(KernelOp op, rt::Epilogue epilogue,
                               rt::MatmulOp &call) {
  call.epilogue = epilogue;
  if (epilogue == rt::Epilogue::None)
    return;
  bool reads = rt::readsBias(epilogue) || rt::readsAux(epilogue);
  Slot read = reads ? slots.at(op.getInputs()[kEpilogueOperand]) : Slot();
  bool writes = rt::writesBias(epilogue) || rt::writesAux(epilogue);
  Slot written = writes ? newSlot(op->getResult(kEpilogueResult)) : Slot();
  if (rt::readsBias(epilogue) || rt::writesBias(epilogue)) {
    const Slot &bias = rt::readsBias(epilogue) ? read : written;
    call.bias = bias.buffer;
    call.biasOffset = bias.view.offset;
  }
  if (rt::readsAux(epilogue) || rt::writesAux(epilogue)) {
    const Slot &aux = rt::readsAux(epilogue) ? read : written;
    call.aux = aux.buffer;
    call.auxOffset = aux.view.offset;
    call.auxLd = call.n;
  }
}

/// One product, or what is in the kernel.
LogicalResult PlanBuilder::lowerEnded(KernelOp op) {
  MatmulOp product = matmulOf(op);
  auto epilogue = rt::parseEnum<rt::Epilogue>(epilogueOf(op).str());
  if (!epilogue)
    return op.emitOpError() << "is a product with epilogue '" << epilogueOf(op)
                            << "', which plans do not have";
  SmallVector<rt::MatmulOp> calls;
  auto type = cast<RankedTensorType>(product.getResult().getType());
  if (failed(callsOf(product, op.getInputs()[0], op.getInputs()[1],
                     StridedView::dense(type.getShape()), calls)))
    return failure();
  if (!canEnd(op, *epilogue, calls))
    return lowerApart(op);
  rt::MatmulOp call = calls.front();
  call.c = productSlot(op).buffer;
  call.beta = sumInPlace(op) ? 1 : 0;
  bindEpilogue(op, *epilogue, call);
  codeFactors(product, call);
  emit(phaseOf(op), call, nameOfOp(product)).flops = productFlops(op);
  return success();
}

/// Makes an instruction of each op in a kernel.
LogicalResult PlanBuilder::lowerApart(KernelOp op) {
  if (AccumulateOp sum = sumInPlace(op)) { // which lies elsewhere now
    sum->removeAttr(attr::kView);
    lastUse[sum.getResult()] = lastUse.lookup(op->getResult(0));
    lastUse[op->getResult(0)] = position.at(sum);
  }
  Block &body = op.getBody().front();
  OpBuilder builder(op);
  IRMapping map;
  map.map(body.getArguments(), op.getInputs());
  SmallVector<Operation *> parts;
  for (Operation &inner : body.without_terminator()) {
    Operation *part = builder.clone(inner, map);
    for (StringRef name : {attr::kPhase, attr::kChunk})
      if (Attribute value = op->getAttr(name))
        part->setAttr(name, value);
    if (!isa<MatmulOp>(part)) {
      KernelOp kernel = wrap(part);
      map.map(inner.getResults(), kernel->getResults());
      part = kernel;
    }
    position[part] = position.at(op);
    parts.push_back(part);
  }
  for (auto [result, value] :
       llvm::zip_equal(op.getOutputs(), body.getTerminator()->getOperands())) {
    lastUse[map.lookup(value)] = lastUse.lookup(result);
    result.replaceAllUsesWith(map.lookup(value));
  }
  for (Operation *part : parts)
    if (failed(lower(part)))
      return failure();
  return success();
}

} // namespace dpc::codegen
