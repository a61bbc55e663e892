//===- Take.cpp - Selection of known positions of a dimension -------------===//
#include "frontends/emit/Emitter.h"

using namespace mlir;

namespace dpc::frontend {

/// A selection that needs more slices becomes an embedding lookup.
static constexpr size_t kMaxSlices = 64;

namespace {

struct Run {
  int64_t begin, count, step;
};

} // namespace

/// Splits positions into slices; each takes as many positions as possible.
static llvm::SmallVector<Run> runsOf(llvm::ArrayRef<int64_t> positions) {
  llvm::SmallVector<Run> runs;
  for (size_t n = 0; n < positions.size();) {
    Run run{positions[n], 1, 1};
    if (n + 1 < positions.size() && positions[n + 1] > positions[n])
      run.step = positions[n + 1] - positions[n];
    while (n + run.count < positions.size() &&
           positions[n + run.count] == run.begin + run.count * run.step)
      ++run.count;
    runs.push_back(run);
    n += run.count;
  }
  return runs;
}

Val Emitter::swapDims(Val x, int64_t a, int64_t b) {
  if (!x)
    return {};
  Shape perm = iotaDims(x.rank());
  std::swap(perm[a], perm[b]);
  return transpose(x, perm);
}

Val Emitter::swapWithLast(Val x, int64_t dim) {
  return x && x.rank() > 0 ? swapDims(x, dim, x.rank() - 1) : x;
}

Val Emitter::dropDim(Val x, int64_t dim) {
  if (!x)
    return {};
  Shape shape(x.shape());
  shape.erase(shape.begin() + dim);
  return reshape(x, shape);
}

Val Emitter::pad(Val x, llvm::ArrayRef<int64_t> low,
                 llvm::ArrayRef<int64_t> shape,
                 llvm::ArrayRef<int64_t> strides) {
  if (!x || x.shape() == shape)
    return x;
  auto type = RankedTensorType::get(shape, x.element());
  return make<PadOp>(type, materialize(x), low, strides);
}

Val Emitter::take(Val x, int64_t dim, llvm::ArrayRef<int64_t> positions) {
  if (!x)
    return {};
  llvm::SmallVector<Run> runs = runsOf(positions);
  if (runs.empty())
    return sliceDim(x, dim, 0, 0);
  if (x.constant || runs.size() <= kMaxSlices) {
    llvm::SmallVector<Val> slices;
    for (const Run &run : runs)
      slices.push_back(sliceDim(x, dim, run.begin, run.count, run.step));
    return concat(slices, dim);
  }
  // Move `dim` to the front, so that the positions are rows of a table.
  Val front = swapDims(x, 0, dim);
  int64_t size = x.dim(dim);
  Shape shape(front.shape());
  Val table = reshape(front, {size, numElements(shape) / size});
  Val rows =
      embedding(table, Val(ConstTensor::ints(builder.getContext(), positions)));
  shape[0] = static_cast<int64_t>(positions.size());
  return swapDims(reshape(rows, shape), 0, dim);
}

} // namespace dpc::frontend
