//===- ShardingRule.cpp - From operand shardings to result shardings ------===//
#include "ir/Dialect.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace dpc;

int64_t ShardingRule::addDim(int64_t size, bool whole, ReduceKind reduction) {
  dims.push_back({size, whole, reduction});
  return dims.size() - 1;
}

SmallVector<int64_t> ShardingRule::addDims(ArrayRef<int64_t> sizes,
                                           bool whole) {
  return llvm::map_to_vector(sizes,
                             [&](int64_t size) { return addDim(size, whole); });
}

ShardingRule ShardingRule::with(ArrayRef<TensorMap> operandMaps,
                                ArrayRef<TensorMap> resultMaps,
                                ArrayRef<SmallVector<int64_t, 2>> groups) {
  operands.assign(operandMaps.begin(), operandMaps.end());
  results.assign(resultMaps.begin(), resultMaps.end());
  linear.assign(groups.begin(), groups.end());
  return *this;
}

TensorMap dpc::oneToOne(ArrayRef<int64_t> dims) {
  TensorMap map;
  for (int64_t dim : dims)
    map.push_back(dim < 0 ? DimMap{} : DimMap{dim});
  return map;
}

ShardingRule dpc::elementwiseRule(Operation *op) {
  ShardingRule rule;
  TensorMap map = oneToOne(rule.addDims(shapeOf(op->getResult(0))));
  rule.operands.assign(op->getNumOperands(), map);
  rule.results.assign(op->getNumResults(), map);
  return rule;
}

namespace {

class Inference {
public:
  Inference(const ShardingRule &rule, MeshAttr mesh,
            ArrayRef<ShardingSpec> operands, std::string &why)
      : rule(rule), mesh(mesh), operands(operands), why(why),
        factors(rule.dims.size()) {}

  bool readOperands();
  bool readHints(ArrayRef<ShardingSpec> hints);
  bool checkAxes();
  bool passPartials();
  bool passRouted();
  std::vector<ShardingSpec> results() const;

private:
  const ShardingRule &rule;
  MeshAttr mesh;
  ArrayRef<ShardingSpec> operands;
  std::string &why;
  /// nullopt while unknown
  SmallVector<std::optional<DimFactors>> factors;
  /// Axes over which operands, and therefore results, are partial.
  SmallVector<PartialAxis> inherited;
  /// Axes over which operands, and therefore results, are routed.
  SmallVector<int64_t> inheritedRouted;

  bool fail(const llvm::Twine &message) {
    why = message.str();
    return false;
  }
  /// Returns whether all results have the first dimension of `map`, in which
  /// rows of experts are, as it is.
  bool keepsRows(const TensorMap &map) const {
    return map.empty() || llvm::all_of(map.front(), [&](int64_t dim) {
             return !rule.dims[dim].whole &&
                    llvm::all_of(rule.results, [&](const TensorMap &result) {
                      return llvm::any_of(result, [&](const DimMap &dims) {
                        return llvm::is_contained(dims, dim);
                      });
                    });
           });
  }
  bool readDim(const DimFactors &found, const DimMap &map, bool keepFirst,
               const llvm::Twine &where);
};

static bool isSplit(const DimFactors &factors) {
  return llvm::any_of(factors, [](const Factor &f) { return !f.axes.empty(); });
}

bool Inference::readDim(const DimFactors &found, const DimMap &map,
                        bool keepFirst, const llvm::Twine &where) {
  if (map.empty())
    return !isSplit(found) || fail(where + " cannot be split");
  SmallVector<int64_t> sizes;
  for (int64_t dim : map)
    sizes.push_back(rule.dims[dim].size);
  auto parts = splitFactors(mesh, found, sizes);
  if (!parts)
    return fail(where + " is split across the boundaries of its parts");
  for (auto [dim, part] : llvm::zip(map, *parts)) {
    DimFactors canonical = canonicalize(mesh, part);
    if (rule.dims[dim].whole && isSplit(canonical))
      return fail(where + " must be whole");
    if (!factors[dim])
      factors[dim] = canonical;
    else if (!keepFirst && *factors[dim] != canonical)
      return fail(where + " is split differently from another operand");
  }
  return true;
}

bool Inference::readOperands() {
  for (auto [i, map] : llvm::enumerate(rule.operands))
    for (auto [d, dimMap] : llvm::enumerate(map))
      if (!readDim(operands[i].dims[d], dimMap, /*keepFirst=*/false,
                   "dimension " + llvm::Twine(d) + " of operand " +
                       llvm::Twine(i)))
        return false;
  return true;
}

bool Inference::readHints(ArrayRef<ShardingSpec> hints) {
  for (auto [i, hint] : llvm::enumerate(hints))
    for (auto [d, dimMap] : llvm::enumerate(rule.results[i])) {
      bool open =
          llvm::any_of(dimMap, [&](int64_t dim) { return !factors[dim]; });
      if (open && !readDim(hint.dims[d], dimMap, /*keepFirst=*/true,
                           "dimension " + llvm::Twine(d) + " of result " +
                               llvm::Twine(i)))
        return false;
    }
  for (auto [dim, known] : llvm::zip(rule.dims, factors))
    if (!known)
      known = DimFactors{{dim.size, {}}};
  return true;
}

bool Inference::checkAxes() {
  llvm::SmallSet<int64_t, 8> used;
  for (const auto &dim : factors)
    for (const Factor &factor : *dim)
      for (int64_t axis : factor.axes)
        if (!used.insert(axis).second)
          return fail("axis '" + mesh.getNames()[axis].getValue() +
                      "' splits two dimensions of the op");
  for (const ShardingSpec &operand : operands)
    for (const PartialAxis &p : operand.partial)
      if (used.contains(p.axis))
        return fail("axis '" + mesh.getNames()[p.axis].getValue() +
                    "' both splits the op and is partial in an operand");
  return true;
}

bool Inference::passPartials() {
  for (int64_t axis = 0, e = mesh.getNames().size(); axis < e; ++axis) {
    SmallVector<int64_t> holders;
    bool sums = true;
    ReduceKind kind = ReduceKind::sum;
    for (auto [i, operand] : llvm::enumerate(operands))
      if (std::optional<ReduceKind> found = operand.partialOver(axis)) {
        holders.push_back(i);
        kind = *found;
        sums &= kind == ReduceKind::sum;
      }
    if (holders.empty())
      continue;
    bool linear =
        sums && llvm::any_of(rule.linear, [&](const auto &group) {
          return ArrayRef<int64_t>(group) == ArrayRef<int64_t>(holders);
        });
    bool moved = rule.movesData && holders == SmallVector<int64_t>{0};
    if (!linear && !moved)
      return fail("operand " + llvm::Twine(holders[0]) +
                  " is partial over axis '" + mesh.getNames()[axis].getValue() +
                  "', which the op does not pass on");
    inherited.push_back({axis, kind});
  }
  return true;
}

bool Inference::passRouted() {
  for (int64_t axis = 0, e = mesh.getNames().size(); axis < e; ++axis) {
    auto holder = llvm::find_if(operands, [&](const ShardingSpec &operand) {
      return operand.isRoutedOver(axis);
    });
    if (holder == operands.end())
      continue;
    auto splitsBy = [&](const std::optional<DimFactors> &dim) {
      return llvm::any_of(*dim, [&](const Factor &factor) {
        return llvm::is_contained(factor.axes, axis);
      });
    };
    if (rule.experts >= 0 && splitsBy(factors[rule.experts]))
      continue;
    bool isPartial = llvm::any_of(operands, [&](const ShardingSpec &operand) {
      return operand.partialOver(axis).has_value();
    });
    if (isPartial || rule.combines || llvm::any_of(factors, splitsBy) ||
        !keepsRows(rule.operands[holder - operands.begin()]))
      return fail("operand " + llvm::Twine(holder - operands.begin()) +
                  " is routed over axis '" + mesh.getNames()[axis].getValue() +
                  "', which the op does not pass on");
    inheritedRouted.push_back(axis);
  }
  return true;
}

std::vector<ShardingSpec> Inference::results() const {
  std::vector<ShardingSpec> specs;
  for (const TensorMap &map : rule.results) {
    ShardingSpec spec;
    spec.mesh = mesh;
    llvm::SmallSet<int64_t, 8> present;
    for (const DimMap &dimMap : map) {
      DimFactors dim;
      for (int64_t iter : dimMap) {
        present.insert(iter);
        dim.append(*factors[iter]);
      }
      spec.dims.push_back(canonicalize(mesh, std::move(dim)));
    }
    spec.partial.assign(inherited.begin(), inherited.end());
    spec.routed.assign(inheritedRouted.begin(), inheritedRouted.end());
    for (auto [iter, known] : llvm::enumerate(factors)) {
      if (rule.combines || present.contains(iter))
        continue;
      for (const Factor &factor : *known)
        for (int64_t axis : factor.axes) {
          if (rule.routes && static_cast<int64_t>(iter) == rule.experts)
            spec.routed.push_back(axis);
          else
            spec.partial.push_back({axis, rule.dims[iter].reduction});
        }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

} // namespace

std::optional<std::vector<ShardingSpec>>
dpc::inferResults(const ShardingRule &rule, MeshAttr mesh,
                  ArrayRef<ShardingSpec> operands,
                  ArrayRef<ShardingSpec> resultHints, std::string &why) {
  assert(operands.size() == rule.operands.size() && "one spec per operand");
  Inference inference(rule, mesh, operands, why);
  if (!inference.readOperands() || !inference.readHints(resultHints) ||
      !inference.passPartials() || !inference.passRouted())
    return std::nullopt;
  if (!rule.combines && !inference.checkAxes())
    return std::nullopt;
  return inference.results();
}
