//===- GpuGroups.cpp - One grid for many tensors --------------------------===//
//
// The tensors of a group (KernelSpec::groupSizes) are divided into chunks of
// equal size, and each block computes one chunk. The chunks of tensor i start
// at block `firsts[i]`. A block finds its tensor by bisection: log2(tensors)
// comparisons with constants, which give the same result in all threads of the
// block. The block then selects the pointers of this tensor among the
// parameters.
//
//===----------------------------------------------------------------------===//
#include "codegen/gpu/GpuKernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dpc::codegen {

static bool isScalar(Value value) { return shapeOf(value).empty(); }

/// Chunks give enough blocks for any device, and enough work per block to
/// outweigh the search for its tensor.
static int64_t chunkOf(ArrayRef<int64_t> sizes) {
  constexpr int64_t least = 4096, most = 65536, blocks = 4096;
  int64_t even =
      llvm::divideCeilSigned(llvm::sum_of(sizes) / blocks, least) * least;
  return std::clamp(even, least, most);
}

/// The arguments are the scalars, which all tensors share, then the operands
/// and results of each tensor (see lowerGroup).
func::FuncOp createGroupFunction(ElementEmitter &b, const std::string &name) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  size_t numScalars = llvm::count_if(b.spec.op.getInputs(), isScalar);
  size_t own =
      b.spec.op.getInputs().size() - numScalars + b.spec.op.getOutputs().size();
  SmallVector<Type> types(numScalars + own * b.spec.groupSizes.size(), pointer);
  auto impl = func::FuncOp::create(b, name, b.getFunctionType(types, {}));
  for (size_t i = 0; i < numScalars; ++i)
    impl.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                    b.getUnitAttr());
  return impl;
}

using MemberValues = llvm::function_ref<Values(size_t)>;

/// Returns `values(member)`, where `member` is the tensor that block `number`
/// computes (low <= member < high).
static Values ofMember(KernelBuilder &b, Value number, ArrayRef<int64_t> firsts,
                       size_t low, size_t high, MemberValues values) {
  if (high - low == 1)
    return values(low);
  size_t middle = (low + high) / 2;
  Value isBelow = cmp(b, IntPredicate::slt, number, firsts[middle]);
  Values some = values(low); // only their types are used
  SmallVector<Type> types(ValueRange(some).getTypes());
  auto branch = scf::IfOp::create(b, types, isBelow, /*withElseRegion=*/true);
  auto fill = [&](Region &region, size_t from, size_t to) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&region.front());
    scf::YieldOp::create(b, ofMember(b, number, firsts, from, to, values));
  };
  fill(branch.getThenRegion(), low, middle);
  fill(branch.getElseRegion(), middle, high);
  return branch.getResults();
}

/// Binds operands and results to the chunk of block `number`. Returns the
/// number of elements from the start of the chunk to the end of the tensor.
static Value bindChunk(GpuKernel &k, Value number, ArrayRef<int64_t> firsts,
                       int64_t chunk) {
  ElementEmitter &b = k.b;
  func::FuncOp function = k.functions.back();
  size_t numScalars = llvm::count_if(b.spec.op.getInputs(), isScalar);
  size_t tensors = b.spec.op.getInputs().size() - numScalars;
  size_t own = tensors + b.spec.op.getOutputs().size();
  Values found =
      ofMember(b, number, firsts, 0, firsts.size(), [&](size_t member) {
        Values values;
        for (size_t i = 0; i < own; ++i)
          values.push_back(function.getArgument(numScalars + member * own + i));
        values.push_back(constantI64(b, firsts[member]));
        values.push_back(constantI64(b, b.spec.groupSizes[member]));
        return values;
      });
  Value begin = mulI(b, subI(b, number, found[own]), chunk);
  auto chunkAt = [&](Value pointer, Type element) {
    return LLVM::GEPOp::create(b, pointer.getType(), storageTypeOf(element),
                               pointer, ValueRange{begin});
  };
  b.arguments.inputs.clear();
  b.arguments.outputs.clear();
  size_t nextScalar = 0, next = 0;
  for (Value input : b.spec.op.getInputs()) {
    Type element = elementTypeOf(input);
    if (isScalar(input))
      b.arguments.inputs.push_back({function.getArgument(nextScalar++),
                                    StridedView::dense({}), element});
    else
      b.arguments.inputs.push_back({chunkAt(found[next++], element),
                                    StridedView::dense({chunk}), element});
  }
  for (auto [i, output] : llvm::enumerate(b.spec.op.getOutputs())) {
    int64_t alias = b.spec.aliases[i];
    Value pointer =
        alias >= 0 ? b.arguments.inputs[alias].pointer
                   : Value(chunkAt(found[tensors + i], elementTypeOf(output)));
    b.arguments.outputs.push_back(
        {pointer, StridedView::dense({chunk}), elementTypeOf(output)});
  }
  return subI(b, found[own + 1], begin);
}

void emitGroupStage(GpuKernel &k) {
  ElementEmitter &b = k.b;
  int64_t chunk = chunkOf(b.spec.groupSizes), blocks = 0;
  SmallVector<int64_t> firsts;
  for (int64_t size : b.spec.groupSizes) {
    firsts.push_back(blocks);
    blocks += llvm::divideCeilSigned(size, chunk);
  }
  emitStage(k, blocks, {kBlock, 1}, [&](Value number) {
    keepValues(k);
    Value limit = minS(b, bindChunk(k, number, firsts, chunk), chunk);
    k.threads.rowLoop(chunk, limit, [&](Index i) {
      Values elements;
      for (Value value : b.yields)
        elements.push_back(b.at(value, i));
      for (auto [element, target] :
           llvm::zip_equal(elements, b.arguments.outputs))
        b.store(element, target, i);
    });
  });
}

} // namespace dpc::codegen
