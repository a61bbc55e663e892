//===- KernelFunction.cpp - The functions around a kernel's code ----------===//
#include "codegen/kernel/KernelFunction.h"
#include "codegen/kernel/KernelScalars.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dpc::codegen {

func::FuncOp createFunction(ElementEmitter &b, const std::string &name,
                            bool hasScratch) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  unsigned numInputs = b.spec.inputs.size();
  unsigned numBuffers = numInputs + b.spec.outputs.size() + hasScratch;
  unsigned numScalars = 0;
  for (Operation &op : b.body())
    numScalars += scalarsOf(&op).size();
  // PTX 8.0 has 4096 bytes for the parameters of a kernel.
  constexpr unsigned kMaxParameters = 512;
  if (b.isForGpu() && numBuffers + numScalars > kMaxParameters) {
    b.spec.op.emitOpError()
        << "has " << numBuffers << " buffers and " << numScalars
        << " scalars; a kernel for GPUs accepts at most " << kMaxParameters
        << " of both in total";
    b.failed = true;
  }
  SmallVector<Type> types(numBuffers, pointer);
  types.append(numScalars, b.getI64Type());
  auto impl = func::FuncOp::create(b, name, b.getFunctionType(types, {}));
  for (unsigned i = 0; i < numBuffers; ++i) {
    bool isOutput = i >= numInputs && i - numInputs < b.spec.outputs.size();
    bool shared =
        b.spec.overlaps || (isOutput && b.spec.aliases[i - numInputs] >= 0);
    // After a barrier, a thread may read values of other threads. With
    // `noalias`, LLVM would assume that the barrier changes nothing.
    bool isWrittenByThreads = b.isForGpu() && i >= numInputs;
    if (!shared && !isWrittenByThreads)
      impl.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      b.getUnitAttr());
  }
  return impl;
}

// `impl` is a separate function because only arguments can be `noalias`.
// Without `noalias`, LLVM does not vectorize any loop.
void emitEntry(KernelBuilder &b, func::FuncOp impl, const std::string &name) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  impl.setPrivate();
  auto entry =
      func::FuncOp::create(b, name, b.getFunctionType({pointer, pointer}, {}));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry.addEntryBlock());
  Values arguments;
  int32_t numBuffers = llvm::count_if(
      impl.getArgumentTypes(), [&](Type type) { return type == pointer; });
  for (auto [i, type] : llvm::enumerate(impl.getArgumentTypes())) {
    bool isScalar = type != pointer;
    int32_t position = static_cast<int32_t>(i) - (isScalar ? numBuffers : 0);
    arguments.push_back(LLVM::LoadOp::create(
        b, type,
        LLVM::GEPOp::create(b, pointer, type, entry.getArgument(isScalar),
                            ArrayRef<LLVM::GEPArg>{position})));
  }
  func::CallOp::create(b, impl, arguments);
  func::ReturnOp::create(b);
}

void bindArguments(ElementEmitter &b, func::FuncOp impl, bool hasScratch) {
  unsigned next = 0;
  KernelArguments bound;
  for (auto [operand, view] :
       llvm::zip_equal(b.spec.op.getInputs(), b.spec.inputs))
    bound.inputs.push_back(
        {impl.getArgument(next++), view, elementTypeOf(operand)});
  for (auto [i, view] : llvm::enumerate(b.spec.outputs)) {
    // A result that shares memory with an operand uses the pointer of the
    // operand, because two `noalias` pointers must not alias.
    Value own = impl.getArgument(next++);
    int64_t alias = b.spec.aliases[i];
    bound.outputs.push_back({alias >= 0 ? bound.inputs[alias].pointer : own,
                             view, elementTypeOf(b.spec.op.getOutputs()[i])});
  }
  if (hasScratch)
    bound.scratch = impl.getArgument(next++);
  for (Operation &op : b.body())
    for (unsigned i = 0, e = scalarsOf(&op).size(); i < e; ++i)
      bound.scalars[&op].push_back(impl.getArgument(next++));
  b.arguments = std::move(bound);
}

} // namespace dpc::codegen
