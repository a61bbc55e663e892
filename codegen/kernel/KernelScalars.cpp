//===- KernelScalars.cpp - The arguments of a kernel that differ by rank --===//
#include "codegen/kernel/KernelScalars.h"
#include "ir/TensorUtils.h"

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

namespace {

/// The value in which an op looks up rows (`dim` 0) or columns (`dim` 1): its
/// global type, and the size of the dimension on the rank.
struct Lookup {
  std::optional<Type> global;
  int64_t localSize;
  int64_t dim;
};

} // namespace

static std::optional<Lookup> lookupOf(Operation *op) {
  auto in = [](std::optional<Type> global, Value local, int64_t dim) {
    return Lookup{global, shapeOf(local)[dim], dim};
  };
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return in(embedding.getGlobal(), embedding.getTable(), 0);
  if (auto grad = dyn_cast<EmbeddingGradOp>(op))
    return in(grad.getGlobal(), grad.getResult(), 0);
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    return in(product.getGlobal(), product.getW(), 0);
  if (auto grad = dyn_cast<ExpertMatmulGradOp>(op))
    return in(grad.getGlobal(), grad.getResult(), 0);
  if (auto tiles = dyn_cast<ExpertTilesOp>(op))
    return Lookup{
        tiles.getGlobal(),
        localType(cast<RankedTensorType>(tiles.getGlobal())).getDimSize(0), 0};
  if (auto sums = dyn_cast<CrossEntropySumsOp>(op))
    return in(sums.getGlobal(), sums.getLogits(), 1);
  if (auto grad = dyn_cast<CrossEntropyGradOp>(op))
    return in(grad.getGlobal(), grad.getLogits(), 1);
  return std::nullopt;
}

static SmallVector<LocalFactor> factorsOf(const Lookup &lookup) {
  return factorsOf(lookup.global, lookup.dim, lookup.localSize);
}

bool looksUpInFactors(Operation *op) {
  auto lookup = lookupOf(op);
  auto factors = lookup ? factorsOf(*lookup) : SmallVector<LocalFactor>();
  return factors.size() > 1 &&
         llvm::any_of(factors, [](const LocalFactor &factor) {
           return !factor.axes.empty();
         });
}

SmallVector<rt::ScalarExpr> scalarsOf(Operation *op) {
  SmallVector<rt::ScalarExpr> out;
  if (auto mask = dyn_cast<MaskOp>(op)) {
    for (auto [d, size] : llvm::enumerate(shapeOf(mask.getX())))
      for (const LocalFactor &factor : factorsOf(mask.getGlobal(), d, size))
        if (factor.uneven)
          out.push_back(expr(rt::ScalarKind::Valid, factor));
  } else if (auto iota = dyn_cast<IotaOp>(op)) {
    int64_t d = iota.getDim();
    for (const LocalFactor &factor :
         factorsOf(iota.getGlobal(), d, shapeOf(iota.getResult())[d]))
      if (!factor.axes.empty())
        out.push_back(expr(rt::ScalarKind::Offset, factor));
  } else if (auto lookup = lookupOf(op)) {
    for (const LocalFactor &factor : factorsOf(*lookup)) {
      if (factor.axes.empty())
        continue;
      out.push_back(expr(rt::ScalarKind::Offset, factor));
      out.push_back(expr(rt::ScalarKind::Valid, factor));
    }
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
