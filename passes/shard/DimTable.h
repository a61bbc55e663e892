//===- DimTable.h - Factors of dimensions by number -------------*- C++ -*-===//
#pragma once

#include "ir/Sharding.h"

#include <map>
#include <vector>

namespace dpc {

inline uint64_t bitOf(int64_t axis) {
  assert(axis < 64 && "a mesh has few axes");
  return uint64_t(1) << axis;
}

inline int64_t sizeOf(const DimFactors &factors) {
  return llvm::product_of(
      llvm::map_range(factors,
                      [](const Factor &factor) { return factor.size; }),
      int64_t(1));
}

inline DimFactors normalize(MeshAttr mesh, const DimFactors &factors) {
  DimFactors result = canonicalize(mesh, factors);
  if (result.front() == Factor{1, {}})
    result.clear();
  return result;
}

/// A factor of dimension `dim`. Its size is outer / inner, and its stride is
/// `inner` elements.
struct FactorRange {
  int64_t dim, outer, inner;
  auto operator<=>(const FactorRange &) const = default;
};

/// Assigns an id to each distinct list of factors, and stores its properties.
class DimTable {
public:
  using Id = int32_t;
  explicit DimTable(MeshAttr mesh) : mesh(mesh) {}

  Id add(const DimFactors &factors) {
    llvm::SmallVector<int64_t, 8> key;
    for (const Factor &factor : factors) {
      key.push_back(factor.size);
      key.push_back(-1 - static_cast<int64_t>(factor.axes.size()));
      key.append(factor.axes.begin(), factor.axes.end());
    }
    auto [it, isNew] = known.try_emplace(std::move(key), entries.size());
    if (!isNew)
      return it->second;
    Entry entry{factors};
    for (const Factor &factor : factors) {
      entry.size *= factor.size;
      entry.localSize *=
          static_cast<double>(localFactorSize(mesh, factor.size, factor.axes));
      for (int64_t axis : factor.axes)
        entry.axes |= bitOf(axis);
    }
    entries.push_back(std::move(entry));
    return it->second;
  }

  const DimFactors &operator[](Id id) const { return entries[id].factors; }
  /// The number of elements of the whole dimension, and on one rank.
  int64_t size(Id id) const { return entries[id].size; }
  double localSize(Id id) const { return entries[id].localSize; }
  /// Returns a bit for each axis that splits one of the factors.
  uint64_t axes(Id id) const { return entries[id].axes; }

  /// Returns the canonical form of `id`, without factors of one element.
  Id normalized(Id id) {
    if (entries[id].normalized < 0) {
      Id found = add(normalize(mesh, entries[id].factors));
      entries[id].normalized = found;
    }
    return entries[id].normalized;
  }

  /// A list and the index of one of its factors, or -1.
  struct Cut {
    Id id = -1;
    int64_t index = -1;
  };
  /// Cuts the list so that outer / inner is a separate factor, if possible.
  Cut isolate(Id id, int64_t outer, int64_t inner) {
    auto [it, isNew] = cuts.try_emplace({id, outer, inner});
    if (isNew)
      it->second = makeCut(id, outer, inner);
    return it->second;
  }

  /// Returns `cut.id` with `axes` appended to the axes of factor `cut.index`.
  Id withAxes(Cut cut, llvm::ArrayRef<int64_t> axes) {
    DimFactors factors = entries[cut.id].factors;
    factors[cut.index].axes.append(axes.begin(), axes.end());
    return add(factors);
  }

  /// Returns `cut.id` without the innermost `count` axes of factor `cut.index`.
  Id withoutAxes(Cut cut, size_t count) {
    DimFactors factors = entries[cut.id].factors;
    factors[cut.index].axes.pop_back_n(count);
    return add(factors);
  }

private:
  struct Entry {
    DimFactors factors;
    int64_t size = 1;
    double localSize = 1;
    uint64_t axes = 0;
    Id normalized = -1;
  };
  Cut makeCut(Id id, int64_t outer, int64_t inner) {
    int64_t size = entries[id].size;
    if (size % outer || outer % inner)
      return {};
    auto parts = splitFactors(mesh, entries[id].factors,
                              {size / outer, outer / inner, inner});
    if (!parts)
      return {};
    DimFactors middle = normalize(mesh, (*parts)[1]);
    if (middle.size() > 1)
      return {};
    if (middle.empty())
      middle.push_back({outer / inner, {}});
    DimFactors result = normalize(mesh, (*parts)[0]);
    int64_t index = result.size();
    result.push_back(middle.front());
    result.append(normalize(mesh, (*parts)[2]));
    return {add(result), index};
  }

  MeshAttr mesh;
  std::vector<Entry> entries;
  std::map<llvm::SmallVector<int64_t, 8>, Id> known;
  std::map<std::tuple<Id, int64_t, int64_t>, Cut> cuts;
};

} // namespace dpc
