//===- Indexing.cpp - Gather and friends ----------------------------------===//
#include "frontends/onnx/NodeContext.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Constant gathers of at most this many pieces become slices and a concat.
constexpr size_t kMaxPieces = 64;

/// `indices` as begin and step of an arithmetic progression that slice can
/// take, if they are one.
std::optional<std::pair<int64_t, int64_t>>
progression(llvm::ArrayRef<int64_t> indices) {
  int64_t step = indices.size() > 1 ? indices[1] - indices[0] : 1;
  if (indices.empty() || step < 1)
    return std::nullopt;
  for (size_t n = 1; n < indices.size(); ++n)
    if (indices[n] - indices[n - 1] != step)
      return std::nullopt;
  return std::make_pair(indices[0], step);
}

/// The result shape: `x` with dimension `axis` replaced by `indexShape`.
Shape gatheredShape(Val x, int64_t axis, llvm::ArrayRef<int64_t> indexShape) {
  Shape shape(x.shape().take_front(axis));
  shape.append(indexShape.begin(), indexShape.end());
  shape.append(x.shape().begin() + axis + 1, x.shape().end());
  return shape;
}

/// Indices are known: slices where they are regular. Null when they are not.
Val gatherConstant(NodeContext &c, Val x, const ConstTensor &indices,
                   int64_t axis) {
  Emitter &e = c.emit;
  Shape list = indices.asInts();
  for (int64_t &index : list) {
    if (index < -x.dim(axis) || index >= x.dim(axis))
      return c.fail("index " + llvm::Twine(index) + " is outside dimension " +
                    llvm::Twine(axis) + " of " + describe(x.type()));
    index += index < 0 ? x.dim(axis) : 0;
  }
  Shape shape = gatheredShape(x, axis, indices.shape());
  if (auto run = progression(list))
    return e.reshape(e.sliceDim(x, axis, run->first,
                                static_cast<int64_t>(list.size()), run->second),
                     shape);
  if (!x.constant && list.size() > kMaxPieces)
    return {};
  llvm::SmallVector<Val> pieces;
  for (int64_t index : list)
    pieces.push_back(e.sliceDim(x, axis, index, 1));
  if (pieces.empty())
    pieces.push_back(e.sliceDim(x, axis, 0, 0));
  return e.reshape(e.concat(pieces, axis), shape);
}

/// Rows of any tensor by run-time indices, through a table of rank 2.
Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis) {
  Shape perm = {axis};
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != axis)
      perm.push_back(d);
  Shape rest(x.shape());
  rest.erase(rest.begin() + axis);
  Val table = e.reshape(e.transpose(x, perm), {x.dim(axis), numElements(rest)});
  Val rows = e.embedding(table, indices);
  if (!rows)
    return {};
  Shape shape(indices.shape());
  shape.append(rest.begin(), rest.end());
  rows = e.reshape(rows, shape);
  // [indices.., rest..] -> the indices' dimensions move behind the first
  // `axis` of the rest.
  int64_t k = indices.rank();
  Shape back;
  for (int64_t d = 0; d < axis; ++d)
    back.push_back(k + d);
  for (int64_t d = 0; d < k; ++d)
    back.push_back(d);
  for (int64_t d = axis; d < static_cast<int64_t>(rest.size()); ++d)
    back.push_back(k + d);
  return e.transpose(rows, back);
}

/// Whether `x` is an argument that holds weights.
bool isWeight(Val x) {
  auto argument = dyn_cast_if_present<BlockArgument>(x.value);
  if (!argument)
    return false;
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto role = function ? function.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), attr::kRole)
                       : StringAttr();
  return role == role::kParameter || role == role::kBuffer;
}

/// Negative indices count from the end.
Val wrapped(Emitter &e, Val indices, int64_t size) {
  return e.select(
      e.compare(CompareKind::lt, indices, e.scalar(0, indices.element())),
      e.binary(BinaryKind::add, indices, static_cast<double>(size)), indices);
}

void gather(NodeContext &c) {
  Val x = c.in(0), indices = c.in(1);
  if (!x || !indices)
    return;
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (c.emit.failed())
    return;
  if (indices.isFloat()) {
    c.fail("indices must be integers, not " + describe(indices.type()));
    return;
  }
  if (indices.constant) {
    Val result = gatherConstant(c, x, *indices.constant, axis);
    if (result || c.emit.failed())
      return c.out(result);
  }
  // Token ids are never negative: a plain look-up is what embeddings are.
  if (indices.constant || !isWeight(x))
    indices = wrapped(c.emit, indices, x.dim(axis));
  c.out(gatherRows(c.emit, x, indices, axis));
}

/// Whether each position of the last dimension equals the index there:
/// [.., n] against iota.
Val oneHotMask(Emitter &e, Val indices, int64_t depth) {
  if (!indices)
    return {};
  Shape shape(indices.shape());
  shape.push_back(1);
  Val wanted = e.reshape(e.convert(indices, e.builder.getI64Type()), shape);
  shape.back() = depth;
  return e.compare(CompareKind::eq, e.iota(shape, indices.rank()), wanted);
}

void oneHot(NodeContext &c) {
  Emitter &e = c.emit;
  Val indices = c.in(0), values = c.in(2);
  auto depth = static_cast<int64_t>(c.numberIn(1));
  if (e.failed() || !values)
    return;
  if (values.rank() != 1 || values.dim(0) != 2) {
    c.fail("values must be [off, on], not " + describe(values.type()));
    return;
  }
  int64_t axis = c.axis(c.intAttr("axis", -1), indices.rank() + 1);
  Val hot = e.select(oneHotMask(e, wrapped(e, indices, depth), depth),
                     e.sliceDim(values, 0, 1, 1), e.sliceDim(values, 0, 0, 1));
  if (!hot)
    return;
  Shape perm = iotaDims(hot.rank() - 1);
  perm.insert(perm.begin() + axis, hot.rank() - 1);
  c.out(e.transpose(hot, perm));
}

} // namespace

void addIndexingOps(OpTable &table) {
  table["Gather"] = gather;
  table["OneHot"] = oneHot;
}

} // namespace dpc::frontend
