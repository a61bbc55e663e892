//===- KernelScalars.cpp - What a kernel asks about its rank --------------===//
#include "codegen/kernel/KernelScalars.h"

using namespace mlir;

namespace dpc::codegen {

static std::vector<std::string> axisNames(MeshAttr mesh,
                                          ArrayRef<int64_t> axes) {
  std::vector<std::string> names;
  for (int64_t axis : axes)
    names.push_back(mesh.getNames()[axis].getValue().str());
  return names;
}

SmallVector<LocalFactor> factorsOf(std::optional<Type> global, int64_t dim,
                                   int64_t localSize) {
  std::optional<ShardingSpec> spec;
  if (global)
    spec = ShardingSpec::get(cast<RankedTensorType>(*global));
  SmallVector<LocalFactor> result;
  if (!spec) {
    result.push_back({localSize, localSize, false, {}});
    return result;
  }
  for (const Factor &factor : spec->dims[dim])
    result.push_back(
        {factor.size, localFactorSize(spec->mesh, factor.size, factor.axes),
         isUneven(spec->mesh, factor), axisNames(spec->mesh, factor.axes)});
  return result;
}

static rt::ScalarExpr expr(rt::ScalarKind kind, const LocalFactor &factor) {
  return {kind, 0, factor.size, factor.axes};
}

/// Offset and valid size of the rows (or columns) that an op looks up in.
static void addLookup(std::optional<Type> global, int64_t dim,
                      int64_t localSize, SmallVector<rt::ScalarExpr> &out) {
  for (const LocalFactor &factor : factorsOf(global, dim, localSize)) {
    if (factor.axes.empty())
      continue;
    out.push_back(expr(rt::ScalarKind::Offset, factor));
    out.push_back(expr(rt::ScalarKind::Valid, factor));
  }
}

static int64_t dimSize(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// The sharded type and dimension in which `op` looks rows or columns up.
static std::optional<std::pair<std::optional<Type>, int64_t>>
lookupOf(Operation *op) {
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return std::pair(embedding.getGlobal(), 0);
  if (auto grad = dyn_cast<EmbeddingGradOp>(op))
    return std::pair(grad.getGlobal(), 0);
  if (auto sums = dyn_cast<CrossEntropySumsOp>(op))
    return std::pair(sums.getGlobal(), 1);
  if (auto grad = dyn_cast<CrossEntropyGradOp>(op))
    return std::pair(grad.getGlobal(), 1);
  return std::nullopt;
}

bool looksUpInFactors(Operation *op) {
  auto lookup = lookupOf(op);
  auto factors = lookup ? factorsOf(lookup->first, lookup->second, 0)
                        : SmallVector<LocalFactor>();
  return factors.size() > 1 &&
         llvm::any_of(factors, [](const LocalFactor &factor) {
           return !factor.axes.empty();
         });
}

SmallVector<rt::ScalarExpr> scalarsOf(Operation *op) {
  SmallVector<rt::ScalarExpr> out;
  if (auto mask = dyn_cast<MaskOp>(op)) {
    int64_t rank = cast<RankedTensorType>(mask.getX().getType()).getRank();
    for (int64_t d = 0; d < rank; ++d)
      for (const LocalFactor &factor :
           factorsOf(mask.getGlobal(), d, dimSize(mask.getX(), d)))
        if (factor.uneven)
          out.push_back(expr(rt::ScalarKind::Valid, factor));
  } else if (auto iota = dyn_cast<IotaOp>(op)) {
    int64_t d = iota.getDim();
    for (const LocalFactor &factor :
         factorsOf(iota.getGlobal(), d, dimSize(iota.getResult(), d)))
      if (!factor.axes.empty())
        out.push_back(expr(rt::ScalarKind::Offset, factor));
  } else if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
    addLookup(embedding.getGlobal(), 0, dimSize(embedding.getTable(), 0), out);
  } else if (auto grad = dyn_cast<EmbeddingGradOp>(op)) {
    addLookup(grad.getGlobal(), 0, dimSize(grad.getResult(), 0), out);
  } else if (auto sums = dyn_cast<CrossEntropySumsOp>(op)) {
    addLookup(sums.getGlobal(), 1, dimSize(sums.getLogits(), 1), out);
  } else if (auto ce = dyn_cast<CrossEntropyGradOp>(op)) {
    addLookup(ce.getGlobal(), 1, dimSize(ce.getLogits(), 1), out);
  } else if (auto slice = dyn_cast<RankSliceOp>(op)) {
    rt::ScalarExpr coord{rt::ScalarKind::Coord, 0, 0, {}};
    for (Attribute axis : slice.getAxes())
      coord.axes.push_back(cast<StringAttr>(axis).getValue().str());
    out.push_back(coord);
  }
  return out;
}

rt::Layout layoutOf(RankedTensorType global) {
  auto spec = ShardingSpec::get(global);
  if (!spec) {
    auto shape = global.getShape();
    return rt::Layout::replicated({shape.begin(), shape.end()});
  }
  rt::Layout layout;
  for (const DimFactors &factors : spec->dims) {
    std::vector<rt::Factor> dim;
    for (const Factor &factor : factors)
      dim.push_back({factor.size, axisNames(spec->mesh, factor.axes)});
    layout.dims.push_back(std::move(dim));
  }
  return layout;
}

} // namespace dpc::codegen
