//===- Movement.cpp - Data movement operators -----------------------------===//
#include "frontends/torch/Call.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// Reshapes `x`. One size in `shape` can be -1.
Val reshapeTo(Call &c, Val x, Shape shape) {
  if (!x)
    return {};
  Shape asked = shape;
  int64_t known = 1, free = -1;
  for (auto [d, size] : llvm::enumerate(shape))
    if (size == -1 && free < 0)
      free = static_cast<int64_t>(d);
    else if (size < 0 || llvm::MulOverflow(known, size, known))
      return c.fail("shape {0} is invalid", asked);
  int64_t total = numElements(x.shape());
  if (free >= 0)
    shape[free] = known > 0 ? total / known : 0;
  if (free < 0 ? known != total : known * shape[free] != total)
    return c.fail("cannot reshape {0} to {1}", x.shape(), asked);
  return c.emit.reshape(x, shape);
}

Val view(Call &c, Val x) { return reshapeTo(c, x, c.ints("size")); }
Val reshape(Call &c, Val x) { return reshapeTo(c, x, c.ints("shape")); }
Val reshapeAs(Call &c, Val x, Val other) {
  return reshapeTo(c, x, Shape(other.shape()));
}

Val flatten(Call &c, Val x) {
  int64_t first = c.dimOf("start_dim", x.rank());
  int64_t last = c.dimOf("end_dim", x.rank());
  if (x.rank() == 0)
    return c.emit.reshape(x, {1});
  if (first > last)
    c.fail("start_dim is after end_dim");
  if (c.emit.failed())
    return {};
  int64_t merged = numElements(x.shape().slice(first, last - first + 1));
  return c.emit.reshape(x, joinShapes({x.shape().take_front(first),
                                       {merged},
                                       x.shape().drop_front(last + 1)}));
}

Val unflatten(Call &c, Val x) {
  if (x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank());
  return reshapeTo(c, x,
                   joinShapes({x.shape().take_front(dim), c.ints("sizes"),
                               x.shape().drop_front(dim + 1)}));
}

Val unsqueeze(Call &c, Val x) {
  int64_t dim = c.dimOf("dim", x.rank() + 1);
  Shape shape(x.shape());
  shape.insert(shape.begin() + dim, 1);
  return c.emit.reshape(x, shape);
}

Val squeeze(Call &c, Val x) {
  Shape drop = c.has("dim") ? Shape() : iotaDims(x.rank());
  if (c.has("dim"))
    for (int64_t d : c.ints("dim"))
      drop.push_back(c.dim(d, x.rank()));
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (x.dim(d) != 1 || !llvm::is_contained(drop, d))
      shape.push_back(x.dim(d));
  return c.emit.reshape(x, shape);
}

Val permute(Call &c, Val x) {
  Shape perm;
  for (int64_t d : c.ints("dims"))
    perm.push_back(c.dim(d, x.rank()));
  Shape identity = iotaDims(x.rank());
  if (!std::is_permutation(perm.begin(), perm.end(), identity.begin(),
                           identity.end()))
    return c.fail("dims {0} are not a permutation of those of {1}", perm, x);
  return c.emit.transpose(x, perm);
}

Val swapped(Call &c, Val x, int64_t a, int64_t b) {
  return x && x.rank() > 0 && !c.emit.failed() ? c.emit.swapDims(x, a, b) : x;
}

Val transpose(Call &c, Val x) {
  bool isAxes = c.target().starts_with("swapaxes");
  return swapped(c, x, c.dimOf(isAxes ? "axis0" : "dim0", x.rank()),
                 c.dimOf(isAxes ? "axis1" : "dim1", x.rank()));
}

Val transposeMatrix(Call &c, Val x) {
  return x.rank() < 2 ? x : swapped(c, x, x.rank() - 2, x.rank() - 1);
}

Val reverseDims(Call &c, Val x) {
  Shape perm = iotaDims(x.rank());
  std::reverse(perm.begin(), perm.end());
  return c.emit.transpose(x, perm);
}

Val movedim(Call &c, Val x) {
  if (x.rank() == 0)
    return {};
  int64_t from = c.dimOf("source", x.rank());
  int64_t to = c.dimOf("destination", x.rank());
  Shape perm = iotaDims(x.rank());
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  return c.emit.transpose(x, perm);
}

/// -1 keeps a size.
Val expand(Call &c, Val x) {
  Shape shape = c.ints("size");
  int64_t shift = static_cast<int64_t>(shape.size()) - x.rank();
  for (auto [d, size] : llvm::enumerate(shape)) {
    int64_t own = static_cast<int64_t>(d) - shift;
    if (size == -1 && own >= 0)
      size = x.dim(own);
    if (size < 0)
      c.fail("size {0} is invalid", size);
  }
  return c.emit.failed() ? Val() : c.emit.broadcastTo(x, shape);
}

Val expandAs(Call &c, Val x, Val other) {
  return c.emit.broadcastTo(x, other.shape());
}

Val broadcastTensors(Call &c) {
  llvm::SmallVector<Val> tensors = c.tensors("tensors");
  std::optional<Shape> shape = Shape();
  for (const Val &x : tensors)
    if (x && shape)
      shape = c.emit.broadcastShape(*shape, x.shape());
  if (!shape || c.emit.failed())
    return {};
  for (Val &x : tensors)
    x = c.emit.broadcastTo(x, *shape);
  c.outList(tensors);
  return {};
}

/// Broadcasts each vector along its own dimension. Indexing "xy" swaps the
/// first two dimensions.
Val meshgrid(Call &c) {
  llvm::SmallVector<Val> vectors = c.tensors("tensors");
  std::string indexing = c.text("indexing");
  if (indexing != "ij" && indexing != "xy")
    c.fail("indexing='{0}' is not known; accepted: ij, xy", indexing);
  if (c.emit.failed())
    return {};
  Shape shape, places = iotaDims(static_cast<int64_t>(vectors.size()));
  if (indexing == "xy" && vectors.size() > 1)
    std::swap(places[0], places[1]);
  for (const Val &x : vectors)
    if (x.rank() > 1)
      return c.fail("operands must be vectors");
  for (int64_t place : places)
    shape.push_back(numElements(vectors[place].shape()));
  for (auto [x, place] : llvm::zip(vectors, places))
    x = c.emit.broadcast(c.emit.reshape(x, {numElements(x.shape())}), shape,
                         {place});
  c.outList(vectors);
  return {};
}

/// Repeats each element in place if `each` is set, else whole dimensions.
Val repeated(Call &c, Val x, const Shape &counts, bool each) {
  Shape wide, dims, whole;
  for (int64_t d = 0; d < x.rank(); ++d) {
    int64_t total = 0;
    if (counts[d] < 1 || llvm::MulOverflow(counts[d], x.dim(d), total))
      return c.fail("count {0} is not supported", counts[d]);
    whole.push_back(total);
    if (!each)
      wide.push_back(counts[d]);
    dims.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(x.dim(d));
    if (each)
      wide.push_back(counts[d]);
  }
  return c.emit.reshape(c.emit.broadcast(x, wide, dims), whole);
}

Val repeat(Call &c, Val x) {
  Shape counts = c.ints("repeats");
  if (static_cast<int64_t>(counts.size()) < x.rank())
    return c.fail("repeats {0} are fewer than the dimensions of {1}", counts,
                  x);
  Shape shape = joinShapes({Shape(counts.size() - x.rank(), 1), x.shape()});
  return repeated(c, c.emit.reshape(x, shape), counts, /*each=*/false);
}

/// Counts apply to the last dimensions; missing counts are 1.
Val tile(Call &c, Val x) {
  Shape counts = c.ints("dims");
  if (c.emit.failed())
    return {};
  while (static_cast<int64_t>(counts.size()) < x.rank())
    counts.insert(counts.begin(), 1);
  Shape shape = joinShapes({Shape(counts.size() - x.rank(), 1), x.shape()});
  return repeated(c, c.emit.reshape(x, shape), counts, /*each=*/false);
}

Val repeatInterleave(Call &c, Val x) {
  int64_t count = c.integer("repeats");
  if (!c.has("dim"))
    x = c.emit.reshape(x, {numElements(x.shape())});
  Shape counts(x.rank(), 1);
  int64_t dim = c.has("dim") ? c.dimOf("dim", x.rank()) : 0;
  if (c.emit.failed() || x.rank() == 0)
    return {};
  counts[dim] = count;
  return repeated(c, x, counts, /*each=*/true);
}

/// [.., C r r, H, W] to [.., C, H r, W r] or, if `!isUp`, back.
template <bool isUp> Val shufflePixels(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t r = c.integer(isUp ? "upscale_factor" : "downscale_factor");
  int64_t n = x.rank() - 3;
  if (e.failed() || n < 0 || r < 1 || (isUp && x.dim(n) % (r * r)) ||
      (!isUp && (x.dim(n + 1) % r || x.dim(n + 2) % r)))
    return c.fail("factor {0} does not fit {1}", r, x);
  int64_t channels = x.dim(n), high = x.dim(n + 1), wide = x.dim(n + 2);
  Shape split = isUp ? Shape{channels / r / r, r, r, high, wide}
                     : Shape{channels, high / r, r, wide / r, r};
  Shape whole = isUp ? Shape{channels / r / r, high * r, wide * r}
                     : Shape{channels * r * r, high / r, wide / r};
  Shape perm = isUp ? Shape{0, 3, 1, 4, 2} : Shape{0, 2, 4, 1, 3};
  for (int64_t &d : perm)
    d += n;
  llvm::ArrayRef<int64_t> batch = x.shape().take_front(n);
  Val moved = e.transpose(e.reshape(x, joinShapes({batch, split})),
                          joinShapes({iotaDims(n), perm}));
  return e.reshape(moved, joinShapes({batch, whole}));
}

Val shuffleChannels(Call &c, Val x) {
  int64_t groups = c.integer("groups");
  if (x.rank() < 2 || groups < 1 || x.dim(1) % groups)
    return c.fail("groups={0} does not divide the channels of {1}", groups, x);
  Shape split(x.shape());
  split[1] = x.dim(1) / groups;
  split.insert(split.begin() + 1, groups);
  return c.emit.reshape(c.emit.swapDims(c.emit.reshape(x, split), 1, 2),
                        x.shape());
}

/// The elements of a diagonal are a slice of the flattened matrix.
Val diagonal(Call &c, Val x) {
  Emitter &e = c.emit;
  if (x.rank() < 2)
    return c.fail("needs a matrix, not {0}", x);
  bool isTrace = c.target().starts_with("trace");
  int64_t offset = isTrace ? 0 : c.integer("offset");
  int64_t a = isTrace ? 0 : c.dimOf("dim1", x.rank());
  int64_t b = isTrace ? 1 : c.dimOf("dim2", x.rank());
  if (e.failed() || a == b)
    return c.fail("a diagonal needs two dimensions");
  Shape perm;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != a && d != b)
      perm.push_back(d);
  perm.append({a, b});
  Val moved = e.transpose(x, perm);
  int64_t last = x.rank() - 2, rows = x.dim(a), columns = x.dim(b);
  int64_t row = std::max<int64_t>(-offset, 0);
  int64_t column = std::max<int64_t>(offset, 0);
  int64_t count = std::max<int64_t>(std::min(rows - row, columns - column), 0);
  Shape flat = joinShapes({moved.shape().take_front(last), {rows * columns}});
  Val line = e.reshape(moved, flat);
  return count ? e.sliceDim(line, last, row * columns + column, count,
                            columns + 1)
               : e.sliceDim(line, last, 0, 0);
}

Val trace(Call &c, Val x) {
  Val line = x.rank() == 2 ? diagonal(c, x) : c.fail("needs a matrix");
  return c.emit.reduce(ReduceKind::sum, line, {0});
}

Val flip(Call &c, Val x) {
  Shape asked = c.ints("dims");
  for (int64_t d : asked) {
    int64_t dim = c.dim(d, x.rank());
    if (c.emit.failed())
      return {};
    Shape positions = iotaDims(x.dim(dim));
    std::reverse(positions.begin(), positions.end());
    x = c.emit.take(x, dim, positions);
  }
  return x;
}

Val slice(Call &c, Val x) {
  int64_t dim = c.dimOf("dim", x.rank()), step = c.integer("step");
  if (c.emit.failed() || x.rank() == 0 || step < 1)
    return c.fail("step {0} is not supported; accepted: 1 and more", step);
  auto position = [&](llvm::StringRef name, int64_t fallback) {
    int64_t value = c.has(name) ? c.integer(name) : fallback;
    return std::clamp<int64_t>(value < 0 ? value + x.dim(dim) : value, 0,
                               x.dim(dim));
  };
  int64_t begin = position("start", 0), end = position("end", x.dim(dim));
  int64_t count = end > begin ? (end - begin - 1) / step + 1 : 0;
  return c.emit.sliceDim(x, dim, begin, count, step);
}

/// Slices positions [begin, begin + count), which must exist.
Val part(Call &c, Val x, int64_t dim, int64_t begin, int64_t count) {
  if (x.rank() == 0 || begin < 0 || count < 0 || count > x.dim(dim) ||
      begin > x.dim(dim) - count)
    return c.fail(
        "cannot slice {1} positions at offset {0} of dimension {2} of {3}",
        begin, count, dim, x);
  return c.emit.sliceDim(x, dim, begin, count);
}

Val narrow(Call &c, Val x) {
  return part(c, x, c.dimOf("dim", x.rank()), c.integer("start"),
              c.integer("length"));
}

Val select(Call &c, Val x) {
  if (x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank()), index = c.integer("index");
  index = index < 0 ? index + x.dim(dim) : index;
  return c.emit.dropDim(part(c, x, dim, index, 1), dim);
}

Val unbind(Call &c, Val x) {
  if (x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank());
  llvm::SmallVector<Val> parts;
  for (size_t n = 0; n < c.results.size(); ++n)
    parts.push_back(
        c.emit.dropDim(part(c, x, dim, static_cast<int64_t>(n), 1), dim));
  c.outList(parts);
  return {};
}

Val splitBy(Call &c, Val x, const Shape &sizes) {
  if (c.emit.failed())
    return {};
  int64_t dim = c.dimOf("dim", x.rank()), begin = 0;
  llvm::SmallVector<Val> parts;
  for (int64_t size : sizes) {
    parts.push_back(part(c, x, dim, begin, size));
    if (c.emit.failed())
      return {};
    begin += size;
  }
  c.outList(parts);
  return {};
}

/// Returns the sizes of parts of `size` elements; the last part can be smaller.
/// Stops after one part more than the node has results, so that outList fails.
Shape partSizes(Call &c, Val x, int64_t size) {
  Shape sizes;
  if (x.rank() == 0)
    return sizes;
  int64_t rest = x.dim(c.dimOf("dim", x.rank()));
  if (size < 1)
    c.fail("part size {0} is invalid", size);
  while (!c.emit.failed() && rest > 0 && sizes.size() <= c.results.size()) {
    sizes.push_back(std::min(size, rest));
    rest -= sizes.back();
  }
  return sizes;
}

Val split(Call &c, Val x) {
  return splitBy(c, x, partSizes(c, x, c.integer("split_size")));
}
Val splitWithSizes(Call &c, Val x) {
  return splitBy(c, x, c.ints("split_sizes"));
}

Val chunk(Call &c, Val x) {
  int64_t chunks = c.integer("chunks");
  if (x.rank() == 0 || chunks < 1)
    return {};
  int64_t size = x.dim(c.dimOf("dim", x.rank()));
  return splitBy(c, x, partSizes(c, x, (size - 1) / chunks + 1));
}

/// The first parts have one element more if `sections` does not divide.
Val tensorSplit(Call &c, Val x) {
  int64_t sections = c.integer("sections");
  if (x.rank() == 0 || sections < 1 ||
      sections > static_cast<int64_t>(c.results.size()))
    return c.fail("sections={0} is invalid", sections);
  int64_t size = x.dim(c.dimOf("dim", x.rank()));
  Shape sizes;
  for (int64_t n = 0; n < sections; ++n)
    sizes.push_back(size / sections + (n < size % sections));
  return splitBy(c, x, sizes);
}

Val splitAt(Call &c, Val x) {
  if (x.rank() == 0)
    return {};
  int64_t size = x.dim(c.dimOf("dim", x.rank())), begin = 0;
  Shape ends = c.ints("indices"), sizes;
  ends.push_back(size);
  for (int64_t end : ends) {
    end = std::clamp<int64_t>(end < 0 ? end + size : end, 0, size);
    // As slices, parts that end before they begin are empty.
    sizes.push_back(std::max<int64_t>(end - begin, 0));
    if (end < begin)
      return c.fail("indices {0} are not ascending", c.ints("indices"));
    begin = end;
  }
  return splitBy(c, x, sizes);
}

Val cat(Call &c) {
  llvm::SmallVector<Val> parts;
  Type element = c.resultElement();
  for (const Val &x : c.tensors("tensors")) {
    if (!x || !element)
      return {};
    // As a legacy rule, concatenation ignores tensors of shape [0].
    if (x.rank() != 1 || x.dim(0) != 0)
      parts.push_back(c.emit.convert(x, element));
  }
  if (parts.empty())
    return c.fail("nothing to join");
  for (const Val &x : parts)
    if (x.rank() != parts[0].rank() || x.rank() == 0)
      c.fail("operands differ in rank: {0} and {1}", parts[0].shape(),
             x.shape());
  int64_t dim = c.dimOf("dim", parts[0].rank());
  return c.emit.failed() ? Val() : c.emit.concat(parts, dim);
}

/// vstack (along = 0) makes vectors rows; hstack (along = 1) joins them.
template <int64_t along> Val stackAlong(Call &c) {
  llvm::SmallVector<Val> parts;
  Type element = c.resultElement();
  for (const Val &x : c.tensors("tensors")) {
    if (!x || !element)
      return {};
    Shape shape(x.shape());
    while (shape.size() < (along == 0 ? 2 : 1))
      shape.insert(shape.begin(), 1);
    parts.push_back(c.emit.reshape(c.emit.convert(x, element), shape));
    if (!parts.back() || parts.back().rank() != parts[0].rank())
      return c.fail("operands differ in rank");
  }
  return parts.empty() ? Val()
                       : c.emit.concat(parts, parts[0].rank() == 1 ? 0 : along);
}

Val stack(Call &c) {
  llvm::SmallVector<Val> parts;
  Type element = c.resultElement();
  int64_t dim = 0;
  for (const Val &x : c.tensors("tensors")) {
    if (!x || !element)
      return {};
    dim = c.dimOf("dim", x.rank() + 1);
    Shape shape(x.shape());
    shape.insert(shape.begin() + std::min<int64_t>(dim, x.rank()), 1);
    parts.push_back(c.emit.convert(c.emit.reshape(x, shape), element));
  }
  if (parts.empty())
    c.fail("nothing to join");
  return c.emit.failed() ? Val() : c.emit.concat(parts, dim);
}

Val diff(Call &c, Val x) {
  Emitter &e = c.emit;
  if (x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank());
  if (c.integer("n") != 1 || x.element().isInteger(1))
    c.fail("only n=1 and non-boolean elements are supported");
  llvm::SmallVector<Val> parts = {x};
  if (c.has("prepend"))
    parts.insert(parts.begin(), c.tensor("prepend"));
  if (c.has("append"))
    parts.push_back(c.tensor("append"));
  if (e.failed())
    return {};
  Val all = e.concat(parts, dim);
  if (!all || all.dim(dim) < 1)
    return {};
  int64_t count = all.dim(dim) - 1;
  return e.sub(e.sliceDim(all, dim, 1, count), e.sliceDim(all, dim, 0, count));
}

Val roll(Call &c, Val x) {
  Shape shifts = c.ints("shifts"), dims = c.ints("dims");
  if (dims.size() != shifts.size() || dims.empty() || x.rank() == 0)
    return c.fail("shifts {0} do not fit dims {1}", shifts, dims);
  for (auto [d, shift] : llvm::zip(dims, shifts)) {
    int64_t dim = c.dim(d, x.rank()), size = x.dim(dim);
    if (c.emit.failed() || size == 0)
      return {};
    int64_t first = ((shift % size) + size) % size;
    if (first == 0)
      continue;
    x = c.emit.concat({c.emit.sliceDim(x, dim, size - first, first),
                       c.emit.sliceDim(x, dim, 0, size - first)},
                      dim);
  }
  return x;
}

} // namespace

void addMovement(OperatorTable &t) {
  t["view.default"] = {"self, size", view};
  t["_unsafe_view.default"] = {"self, size", view};
  t["reshape.default"] = {"self, shape", reshape};
  t["view_as.default"] = {"self, other", reshapeAs};
  t["reshape_as.default"] = {"self, other", reshapeAs};
  t["ravel.default"] = {"self, start_dim=0, end_dim=-1", flatten};
  t["flatten.using_ints"] = {"self, start_dim=0, end_dim=-1", flatten};
  t["unflatten.int"] = {"self, dim, sizes", unflatten};
  t["unsqueeze.default"] = {"self, dim", unsqueeze};
  t["squeeze.default"] = {"self, dim=None", squeeze};
  t["squeeze.dim"] = {"self, dim", squeeze};
  t["squeeze.dims"] = {"self, dim", squeeze};
  t["permute.default"] = {"self, dims", permute};
  t["swapaxes.default"] = {"self, axis0, axis1", transpose};
  t["transpose.int"] = {"self, dim0, dim1", transpose};
  for (const char *name : {"t.default", "mT.default"})
    t[name] = {"self", transposeMatrix};
  for (const char *name : {"adjoint.default", "mH.default"}) // real numbers
    t[name] = {"self", transposeMatrix};
  t["numpy_T.default"] = {"self", reverseDims};
  for (const char *name : {"movedim.int", "moveaxis.int"})
    t[name] = {"self, source, destination", movedim};
  t["expand.default"] = {"self, size, implicit=False", expand};
  t["expand_as.default"] = {"self, other", expandAs};
  t["meshgrid.default"] = {"tensors, indexing=ij", meshgrid};
  t["meshgrid.indexing"] = {"tensors, indexing=ij", meshgrid};
  t["pixel_shuffle.default"] = {"self, upscale_factor", shufflePixels<true>};
  t["pixel_unshuffle.default"] = {"self, downscale_factor",
                                  shufflePixels<false>};
  t["channel_shuffle.default"] = {"self, groups", shuffleChannels};
  t["broadcast_tensors.default"] = {"tensors", broadcastTensors};
  t["tile.default"] = {"self, dims", tile};
  t["flip.default"] = {"self, dims", flip};
  t["repeat.default"] = {"self, repeats", repeat};
  t["repeat_interleave.self_int"] = {
      "self, repeats, dim=None, output_size=None", repeatInterleave};
  t["slice.Tensor"] = {"self, dim=0, start=None, end=None, step=1", slice};
  t["select.int"] = {"self, dim, index", select};
  t["narrow.default"] = {"self, dim, start, length", narrow};
  t["unbind.int"] = {"self, dim=0", unbind};
  t["split.Tensor"] = {"self, split_size, dim=0", split};
  t["split.sizes"] = {"self, split_sizes, dim=0", splitWithSizes};
  t["split_with_sizes.default"] = {"self, split_sizes, dim=0", splitWithSizes};
  t["chunk.default"] = {"self, chunks, dim=0", chunk};
  t["tensor_split.sections"] = {"self, sections, dim=0", tensorSplit};
  t["tensor_split.indices"] = {"self, indices, dim=0", splitAt};
  t["cat.default"] = {"tensors, dim=0", cat};
  t["hstack.default"] = {"tensors", stackAlong<1>};
  t["vstack.default"] = {"tensors", stackAlong<0>};
  t["concat.default"] = {"tensors, dim=0", cat};
  t["stack.default"] = {"tensors, dim=0", stack};
  t["diff.default"] = {"self, n=1, dim=-1, prepend=None, append=None", diff};
  t["diagonal.default"] = {"self, offset=0, dim1=0, dim2=1", diagonal};
  t["trace.default"] = {"self", trace};
  t["roll.default"] = {"self, shifts, dims=[]", roll};
}

} // namespace dpc::frontend::pt2
