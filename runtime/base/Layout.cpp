#include "runtime/base/Layout.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numeric>
#include <set>

namespace dpc::rt {

bool isDataAxis(const std::string &axis) {
  return axis == "dp" || axis == "dpi";
}

int64_t Mesh::ranks() const {
  int64_t count = 1;
  for (const MeshAxis &axis : axes)
    count *= axis.size;
  return count;
}

bool Mesh::has(const std::string &axis) const {
  return axis == kMicroBatchAxis ||
         std::any_of(axes.begin(), axes.end(),
                     [&](const MeshAxis &a) { return a.name == axis; });
}

int64_t Mesh::sizeOf(const std::string &axis) const {
  if (axis == kMicroBatchAxis)
    return microBatches;
  for (const MeshAxis &candidate : axes)
    if (candidate.name == axis)
      return candidate.size;
  assert(false && "unknown axis");
  return 1;
}

int64_t Mesh::coordinate(const std::string &axis, int64_t rank,
                         int64_t mb) const {
  if (axis == kMicroBatchAxis)
    return mb;
  for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
    if (it->name == axis)
      return rank % it->size;
    rank /= it->size;
  }
  assert(false && "unknown axis");
  return 0;
}

int64_t Mesh::dataRanks() const {
  int64_t count = 1;
  for (const MeshAxis &axis : axes)
    count *= isDataAxis(axis.name) ? axis.size : 1;
  return count;
}

int64_t Mesh::dataRankOf(int64_t rank) const {
  int64_t index = 0;
  for (const MeshAxis &axis : axes)
    if (isDataAxis(axis.name))
      index = index * axis.size + coordinate(axis.name, rank, 0);
  return index;
}

int64_t Mesh::microBatchesOf(int64_t rank) const {
  return batchShares.empty() ? microBatches : batchShares[dataRankOf(rank)];
}

int64_t Mesh::mostMicroBatches() const {
  return batchShares.empty()
             ? microBatches
             : *std::max_element(batchShares.begin(), batchShares.end());
}

int64_t Mesh::cellCoordinate(const std::string &axis, int64_t rank,
                             int64_t mb) const {
  bool isOfCell = axis == kMicroBatchAxis || isDataAxis(axis);
  if (batchShares.empty() || !isOfCell)
    return coordinate(axis, rank, mb);
  auto own = batchShares.begin() + dataRankOf(rank);
  int64_t cell = std::accumulate(batchShares.begin(), own, mb);
  if (axis == kMicroBatchAxis)
    return cell % microBatches;
  int64_t data = cell / microBatches;
  for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
    if (it->name == axis)
      return data % it->size;
    if (isDataAxis(it->name))
      data /= it->size;
  }
  assert(false && "unknown axis");
  return 0;
}

Layout Layout::replicated(const std::vector<int64_t> &shape) {
  Layout layout;
  for (int64_t extent : shape)
    layout.dims.push_back({Factor{extent, {}}});
  return layout;
}

bool Layout::mentions(const std::string &axis) const {
  for (const auto &factors : dims)
    for (const Factor &factor : factors)
      if (std::find(factor.axes.begin(), factor.axes.end(), axis) !=
          factor.axes.end())
        return true;
  return false;
}

int64_t coordinateAmong(const std::vector<std::string> &axes,
                        const std::string &axis, const Mesh &mesh, int64_t rank,
                        int64_t mb) {
  bool isCell =
      std::find(axes.begin(), axes.end(), kMicroBatchAxis) != axes.end();
  return isCell ? mesh.cellCoordinate(axis, rank, mb)
                : mesh.coordinate(axis, rank, mb);
}

FactorShard shardOf(int64_t size, const std::vector<std::string> &axes,
                    const Mesh &mesh, int64_t rank, int64_t mb) {
  FactorShard shard{0, size, size};
  for (const std::string &axis : axes) {
    int64_t parts = mesh.sizeOf(axis);
    int64_t step = (shard.capacity + parts - 1) / parts;
    int64_t start = coordinateAmong(axes, axis, mesh, rank, mb) * step;
    shard.offset += start;
    shard.valid = std::clamp<int64_t>(shard.valid - start, 0, step);
    shard.capacity = step;
  }
  return shard;
}

std::vector<int64_t> localShape(const Layout &layout, const Mesh &mesh) {
  std::vector<int64_t> shape;
  for (const auto &factors : layout.dims) {
    int64_t extent = 1;
    for (const Factor &factor : factors)
      extent *= shardOf(factor.size, factor.axes, mesh, 0, 0).capacity;
    shape.push_back(extent);
  }
  return shape;
}

Status checkCells(const std::vector<std::string> &axes, const Mesh &mesh) {
  auto isThere = [&](const std::string &axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  if (mesh.batchShares.empty() || !isThere(kMicroBatchAxis))
    return Status::success();
  for (const MeshAxis &axis : mesh.axes)
    if (isDataAxis(axis.name) && !isThere(axis.name))
      return Status::invalid("axes have mb without '", axis.name,
                             "', but the batch shares of the ranks are uneven");
  return Status::success();
}

Status checkLayout(const Layout &layout, const std::vector<int64_t> &shape,
                   const Mesh &mesh) {
  if (layout.dims.size() != shape.size())
    return Status::invalid("layout has ", layout.dims.size(),
                           " dimensions, shape has ", shape.size());
  std::set<std::string> used;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t product = 1;
    for (const Factor &factor : layout.dims[d]) {
      if (factor.size < 0)
        return Status::invalid("layout has factor size ", factor.size);
      product *= factor.size;
      DPC_TRY(checkCells(factor.axes, mesh));
      for (const std::string &axis : factor.axes) {
        if (!mesh.has(axis))
          return Status::invalid("layout names axis '", axis,
                                 "', which the mesh lacks");
        if (!used.insert(axis).second)
          return Status::invalid("layout uses axis '", axis, "' twice");
      }
    }
    if (product != shape[d])
      return Status::invalid("layout factors of dimension ", d, " multiply to ",
                             product, ", not ", shape[d]);
  }
  return Status::success();
}

namespace {

/// A loop of a CopyNest. Strides are in elements.
struct CopyLoop {
  int64_t count, globalStride, localStride;
};

/// A copy between a shard and the global array: loops around contiguous runs.
struct CopyNest {
  std::vector<CopyLoop> loops; ///< outermost first
  int64_t run = 1;             ///< elements of a contiguous run
  int64_t globalOffset = 0;    ///< of the first element
  bool empty = false;
};

CopyNest makeNest(const Layout &layout, const Mesh &mesh, int64_t rank,
                  int64_t mb) {
  CopyNest nest;
  int64_t globalStride = 1, localStride = 1;
  bool contiguous = true;
  for (auto dim = layout.dims.rbegin(); dim != layout.dims.rend(); ++dim) {
    for (auto factor = dim->rbegin(); factor != dim->rend(); ++factor) {
      FactorShard shard = shardOf(factor->size, factor->axes, mesh, rank, mb);
      if (shard.valid == 0) {
        nest.empty = true;
        return nest;
      }
      nest.globalOffset += shard.offset * globalStride;
      if (contiguous)
        nest.run *= shard.valid;
      else if (shard.valid > 1)
        nest.loops.push_back({shard.valid, globalStride, localStride});
      // A run ends at a factor of which the shard contains only a part.
      contiguous = contiguous && shard.valid == factor->size &&
                   shard.capacity == factor->size;
      globalStride *= factor->size;
      localStride *= shard.capacity;
    }
  }
  std::reverse(nest.loops.begin(), nest.loops.end());
  return nest;
}

template <typename F> void forEachRun(const CopyNest &nest, F &&copy) {
  if (nest.empty)
    return;
  std::vector<int64_t> index(nest.loops.size(), 0);
  int64_t global = nest.globalOffset, local = 0;
  while (true) {
    copy(global, local, nest.run);
    size_t level = index.size();
    while (level > 0) {
      const CopyLoop &loop = nest.loops[level - 1];
      global += loop.globalStride;
      local += loop.localStride;
      if (++index[level - 1] < loop.count)
        break;
      global -= loop.count * loop.globalStride;
      local -= loop.count * loop.localStride;
      index[--level] = 0;
    }
    if (level == 0)
      return;
  }
}

} // namespace

void forEachRun(const Layout &layout, const Mesh &mesh, int64_t rank,
                int64_t mb,
                const std::function<void(int64_t global, int64_t local,
                                         int64_t count)> &run) {
  forEachRun(makeNest(layout, mesh, rank, mb), run);
}

void packShard(const void *global, void *local, int64_t elementBytes,
               const Layout &layout, const Mesh &mesh, int64_t rank,
               int64_t mb) {
  forEachRun(makeNest(layout, mesh, rank, mb),
             [&](int64_t g, int64_t l, int64_t run) {
               std::memcpy(static_cast<char *>(local) + l * elementBytes,
                           static_cast<const char *>(global) + g * elementBytes,
                           run * elementBytes);
             });
}

void unpackShard(const void *local, void *global, int64_t elementBytes,
                 const Layout &layout, const Mesh &mesh, int64_t rank,
                 int64_t mb) {
  forEachRun(makeNest(layout, mesh, rank, mb),
             [&](int64_t g, int64_t l, int64_t run) {
               std::memcpy(static_cast<char *>(global) + g * elementBytes,
                           static_cast<const char *>(local) + l * elementBytes,
                           run * elementBytes);
             });
}

bool ownsShard(const Layout &layout, const Mesh &mesh, int64_t rank, int64_t mb,
               int64_t stage) {
  for (const MeshAxis &axis : mesh.axes) {
    int64_t owner = axis.name == kPipelineAxis ? stage : 0;
    if (!layout.mentions(axis.name) &&
        mesh.coordinate(axis.name, rank, mb) != owner)
      return false;
  }
  return layout.mentions(kMicroBatchAxis) || mb == 0;
}

} // namespace dpc::rt
