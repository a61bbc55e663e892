//===- Sharding.cpp - The arithmetic of split tensors ---------------------===//
#include "ir/Sharding.h"

using namespace mlir;
using namespace dpc;

int64_t dpc::localFactorSize(MeshAttr mesh, int64_t size,
                             ArrayRef<int64_t> axes) {
  for (int64_t axis : axes)
    size = ceilDiv(size, mesh.getSizes()[axis]);
  return size;
}

int64_t dpc::productOfAxes(MeshAttr mesh, ArrayRef<int64_t> axes) {
  return llvm::product_of(llvm::map_range(
      axes, [&](int64_t axis) { return mesh.getSizes()[axis]; }));
}

bool dpc::isUneven(MeshAttr mesh, const Factor &factor) {
  return factor.size % productOfAxes(mesh, factor.axes) != 0;
}

/// Returns true if one factor of `a.size * b.size` elements, split by the axes
/// of `a` and then by those of `b`, gives the same shards as `a` followed by
/// `b`.
static bool canMerge(MeshAttr mesh, const Factor &a, const Factor &b) {
  if (a.axes.empty())
    return b.axes.empty();
  int64_t ranks = productOfAxes(mesh, a.axes);
  if (b.axes.empty())
    return a.size % ranks == 0;
  return a.size == ranks;
}

DimFactors dpc::canonicalize(MeshAttr mesh, DimFactors factors) {
  DimFactors result;
  for (Factor &factor : factors) {
    if (factor.size == 1 && factor.axes.empty())
      continue;
    if (!result.empty() && canMerge(mesh, result.back(), factor)) {
      result.back().size *= factor.size;
      result.back().axes.append(factor.axes);
    } else {
      result.push_back(factor);
    }
  }
  if (result.empty())
    result.push_back({1, {}});
  return result;
}

/// Splits `factor` into an outer factor of `outerSize` and an inner factor.
/// Returns nullopt if a shard would cross the boundary between rows of the
/// inner factor.
static std::optional<std::pair<Factor, Factor>>
cutFactor(MeshAttr mesh, const Factor &factor, int64_t outerSize) {
  if (outerSize == 0 || factor.size % outerSize != 0)
    return std::nullopt;
  Factor outer{outerSize, {}}, inner{factor.size / outerSize, {}};
  if (factor.axes.empty())
    return std::make_pair(outer, inner);
  // If the axes' product divides the outer factor, all axes split it. Otherwise
  // the first axes must split the outer factor into single elements.
  if (outerSize % productOfAxes(mesh, factor.axes) == 0) {
    outer.axes = factor.axes;
    return std::make_pair(outer, inner);
  }
  int64_t product = 1;
  for (size_t i = 0; i < factor.axes.size(); ++i) {
    product *= mesh.getSizes()[factor.axes[i]];
    if (product != outerSize)
      continue;
    outer.axes.assign(factor.axes.begin(), factor.axes.begin() + i + 1);
    inner.axes.assign(factor.axes.begin() + i + 1, factor.axes.end());
    return std::make_pair(outer, inner);
  }
  return std::nullopt;
}

std::optional<SmallVector<DimFactors>>
dpc::splitFactors(MeshAttr mesh, const DimFactors &factors,
                  ArrayRef<int64_t> sizes) {
  // An empty tensor can be split only if it has one dimension.
  if (llvm::is_contained(sizes, 0)) {
    if (sizes.size() == 1)
      return SmallVector<DimFactors>{factors};
    if (llvm::any_of(factors, [](const Factor &f) { return !f.axes.empty(); }))
      return std::nullopt;
    return ShardingSpec::replicated(mesh, sizes).dims;
  }
  SmallVector<Factor> rest(llvm::reverse(factors));
  SmallVector<DimFactors> result;
  for (int64_t size : sizes) {
    DimFactors part;
    int64_t need = size;
    while (need > 1) {
      if (rest.empty())
        return std::nullopt;
      Factor top = rest.pop_back_val();
      if (top.size <= need) {
        if (top.size == 0 || need % top.size != 0)
          return std::nullopt;
        need /= top.size;
        part.push_back(top);
        continue;
      }
      auto cut = cutFactor(mesh, top, need);
      if (!cut)
        return std::nullopt;
      part.push_back(cut->first);
      rest.push_back(cut->second);
      need = 1;
    }
    result.push_back(canonicalize(mesh, std::move(part)));
  }
  // Only factors of size 1 may remain. The last dimension gets split ones.
  for (const Factor &factor : llvm::reverse(rest)) {
    if (factor.size != 1 || (!factor.axes.empty() && result.empty()))
      return std::nullopt;
    if (!factor.axes.empty())
      result.back().push_back(factor);
  }
  return result;
}

ShardingSpec ShardingSpec::replicated(MeshAttr mesh, ArrayRef<int64_t> shape) {
  ShardingSpec spec;
  spec.mesh = mesh;
  for (int64_t size : shape)
    spec.dims.push_back({Factor{size, {}}});
  return spec;
}

ShardingSpec ShardingSpec::get(ShardingAttr attr, ArrayRef<int64_t> shape) {
  assert(shape.size() == attr.getDims().size() && "rank and sharding differ");
  ShardingSpec spec;
  spec.mesh = attr.getMesh();
  for (auto [dim, extent] : llvm::zip(attr.getDims(), shape)) {
    DimFactors factors;
    ArrayRef<int64_t> axes = dim.getAxes();
    for (auto [size, count] : llvm::zip(dim.getSizes(), dim.getAxisCounts())) {
      Factor factor{size ? size : extent, {}};
      factor.axes.append(axes.begin(), axes.begin() + count);
      axes = axes.drop_front(count);
      factors.push_back(factor);
    }
    spec.dims.push_back(factors);
  }
  for (auto [axis, kind] :
       llvm::zip(attr.getPartialAxes(), attr.getPartialKinds()))
    if (kind == kRoutedKind)
      spec.routed.push_back(axis);
    else
      spec.partial.push_back({axis, static_cast<ReduceKind>(kind)});
  return spec;
}

std::optional<ShardingSpec> ShardingSpec::get(RankedTensorType type) {
  ShardingAttr attr = getSharding(type);
  return attr ? std::optional(get(attr, type.getShape())) : std::nullopt;
}

ShardingAttr ShardingSpec::toAttr() const {
  MLIRContext *context = mesh.getContext();
  SmallVector<DimShardingAttr> attrs;
  for (const DimFactors &dim : dims) {
    DimFactors canonical = canonicalize(mesh, dim);
    SmallVector<int64_t> sizes, counts, axes;
    for (const Factor &factor : canonical) {
      sizes.push_back(canonical.size() == 1 ? 0 : factor.size);
      counts.push_back(factor.axes.size());
      axes.append(factor.axes.begin(), factor.axes.end());
    }
    attrs.push_back(DimShardingAttr::get(context, sizes, counts, axes));
  }
  SmallVector<std::pair<int64_t, int64_t>> sorted;
  for (const PartialAxis &p : partial)
    sorted.emplace_back(p.axis, static_cast<int64_t>(p.kind));
  for (int64_t axis : routed)
    sorted.emplace_back(axis, kRoutedKind);
  llvm::sort(sorted);
  SmallVector<int64_t> partialAxes, partialKinds;
  for (auto [axis, kind] : sorted) {
    partialAxes.push_back(axis);
    partialKinds.push_back(kind);
  }
  return ShardingAttr::get(context, mesh, attrs, partialAxes, partialKinds);
}

SmallVector<int64_t> ShardingSpec::localShape() const {
  return llvm::map_to_vector(dims, [&](const DimFactors &dim) {
    int64_t extent = 1;
    for (const Factor &factor : dim)
      extent *= localFactorSize(mesh, factor.size, factor.axes);
    return extent;
  });
}

SmallVector<int64_t> ShardingSpec::globalShape() const {
  return llvm::map_to_vector(dims, [](const DimFactors &dim) {
    int64_t extent = 1;
    for (const Factor &factor : dim)
      extent *= factor.size;
    return extent;
  });
}

StringRef dpc::partialKindName(int64_t kind) {
  return kind == kRoutedKind
             ? "routed"
             : stringifyReduceKind(static_cast<ReduceKind>(kind));
}

std::optional<ReduceKind> ShardingSpec::partialOver(int64_t axis) const {
  for (const PartialAxis &p : partial)
    if (p.axis == axis)
      return p.kind;
  return std::nullopt;
}

bool ShardingSpec::splitsAxis(int64_t axis) const {
  return llvm::any_of(dims, [&](const DimFactors &dim) {
    return llvm::any_of(dim, [&](const Factor &factor) {
      return llvm::is_contained(factor.axes, axis);
    });
  });
}

bool ShardingSpec::usesAxis(int64_t axis) const {
  return splitsAxis(axis) || partialOver(axis).has_value() ||
         isRoutedOver(axis);
}

bool ShardingSpec::hasPadding() const {
  return llvm::any_of(dims, [&](const DimFactors &dim) {
    return llvm::any_of(
        dim, [&](const Factor &factor) { return isUneven(mesh, factor); });
  });
}

RankedTensorType dpc::getSharded(ArrayRef<int64_t> shape, Type elementType,
                                 ShardingAttr sharding) {
  assert(shape.size() == sharding.getDims().size() &&
         "rank and sharding differ");
  return RankedTensorType::get(shape, elementType, sharding);
}

RankedTensorType dpc::withSharding(RankedTensorType type,
                                   const ShardingSpec &spec) {
  return getSharded(type.getShape(), type.getElementType(), spec.toAttr());
}

RankedTensorType dpc::withoutSharding(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

ShardingAttr dpc::getSharding(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_if_present<ShardingAttr>(tensor.getEncoding())
                : ShardingAttr();
}

RankedTensorType dpc::localType(RankedTensorType type) {
  std::optional<ShardingSpec> spec = ShardingSpec::get(type);
  return spec ? RankedTensorType::get(spec->localShape(), type.getElementType())
              : type;
}
