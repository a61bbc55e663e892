//===- Specs.cpp - Reader and writer of ShardingSpecs ---------------------===//
#include "frontends/onnx/Specs.h"

using namespace mlir;

namespace dpc::frontend {

static bool isMicroBatchAxis(MeshAttr mesh, int64_t axis) {
  return mesh.getNames()[axis].getValue() == kMicroBatchAxis;
}

SpecWriter::SpecWriter(MeshAttr mesh) : mesh(mesh) {
  ArrayRef<int64_t> sizes = mesh.getSizes();
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    llvm::SmallVector<int64_t, 4> at(sizes.size());
    int64_t rest = rank;
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (isMicroBatchAxis(mesh, static_cast<int64_t>(axis)))
        continue;
      at[axis] = rest % sizes[axis];
      rest /= sizes[axis];
    }
    coordinates.push_back(std::move(at));
  }
}

namespace {
struct SplitFactor {
  llvm::SmallVector<int64_t, 2> axes;
  int64_t shards = 1;
};
} // namespace

static SplitFactor splitOf(MeshAttr mesh, const Factor &factor) {
  SplitFactor split;
  for (int64_t axis : factor.axes)
    if (!isMicroBatchAxis(mesh, axis)) {
      split.axes.push_back(axis);
      split.shards *= mesh.getSizes()[axis];
    }
  return split;
}

void SpecWriter::write(const ShardingSpec &spec, std::optional<int64_t> stage,
                       ::onnx::ShardingSpecProto &out) const {
  std::vector<SplitFactor> splits;
  int64_t shards = 1;
  for (auto [d, factors] : llvm::enumerate(spec.dims)) {
    std::vector<SplitFactor> own;
    for (const Factor &factor : factors)
      own.push_back(splitOf(mesh, factor));
    if (llvm::all_of(own, [](const auto &f) { return f.shards == 1; }))
      continue;
    auto *dim = out.add_sharded_dim();
    dim->set_axis(static_cast<int64_t>(d));
    for (auto [factor, split] : llvm::zip(factors, own)) {
      auto *simple = dim->add_simple_sharding();
      if (factors.size() > 1)
        simple->set_dim_value(factor.size);
      simple->set_num_shards(split.shards);
      shards *= split.shards;
    }
    llvm::append_range(splits, own);
  }
  std::vector<std::vector<int64_t>> holders(shards);
  std::optional<int64_t> pipeline = mesh.findAxis(kPipelineAxis);
  for (auto [rank, at] : llvm::enumerate(coordinates)) {
    if (pipeline && stage &&
        at[*pipeline] != *stage % mesh.getSizes()[*pipeline])
      continue;
    int64_t shard = 0;
    for (const SplitFactor &split : splits)
      for (int64_t axis : split.axes)
        shard = shard * mesh.getSizes()[axis] + at[axis];
    holders[shard].push_back(static_cast<int64_t>(rank));
  }
  for (auto [shard, devices] : llvm::enumerate(holders)) {
    if (devices.size() == 1) {
      out.add_device(devices.front());
      continue;
    }
    int64_t key = -1 - static_cast<int64_t>(shard);
    out.add_device(key);
    auto *group = out.add_index_to_device_group_map();
    group->set_key(key);
    for (int64_t device : devices)
      group->add_value(device);
  }
}

/// Returns the devices for one entry of the field `device`.
static llvm::Expected<std::vector<int64_t>>
holdersOf(const ::onnx::ShardingSpecProto &spec, int64_t entry,
          int64_t devices) {
  std::vector<int64_t> holders = {entry};
  for (const auto &group : spec.index_to_device_group_map())
    if (group.key() == entry)
      holders.assign(group.value().begin(), group.value().end());
  for (int64_t device : holders)
    if (device < 0 || device >= devices)
      return makeError("device {0} is not in the configuration; accepted: 0 to "
                       "{1}, or the key of a device group",
                       device, devices - 1);
  return holders;
}

static llvm::Error readSplits(const ::onnx::ShardingSpecProto &spec,
                              int64_t rank, int64_t devices, ReadSpec &read,
                              int64_t &shards) {
  std::set<int64_t> seen;
  for (const auto &dim : spec.sharded_dim()) {
    int64_t axis = dim.axis() < 0 ? dim.axis() + rank : dim.axis();
    if (axis < 0 || axis >= rank)
      return makeError("axis {0} does not fit a tensor of {1} dimensions",
                       dim.axis(), rank);
    if (!seen.insert(axis).second)
      return makeError("axis {0} is split twice", axis);
    for (const auto &simple : dim.simple_sharding()) {
      if (simple.num_shards() < 1 || simple.num_shards() > devices)
        return makeError(
            "axis {0} has {1} shards; accepted: 1 to the {2} devices", axis,
            simple.num_shards(), devices);
      shards *= simple.num_shards();
      if (shards > devices)
        return makeError("the shards outnumber the {0} devices", devices);
      if (simple.num_shards() > 1)
        read.splits.push_back({axis, simple.num_shards()});
    }
  }
  return llvm::Error::success();
}

llvm::Expected<ReadSpec> readSpec(const ::onnx::ShardingSpecProto &spec,
                                  int64_t rank, int64_t devices) {
  ReadSpec read;
  int64_t shards = 1;
  if (llvm::Error error = readSplits(spec, rank, devices, read, shards))
    return std::move(error);
  if (spec.device_size() != shards)
    return makeError("it lists {0} devices for {1} shards; expected one "
                     "device, or group of devices, for each",
                     spec.device_size(), shards);
  for (int64_t shard = 0; shard < shards; ++shard) {
    auto holders =
        holdersOf(spec, spec.device(static_cast<int>(shard)), devices);
    if (!holders)
      return holders.takeError();
    std::vector<int64_t> at(read.splits.size());
    int64_t rest = shard;
    for (size_t i = at.size(); i-- > 0; rest /= read.splits[i].shards)
      at[i] = rest % read.splits[i].shards;
    for (int64_t device : *holders)
      if (!read.places.try_emplace(device, at).second)
        return makeError("device {0} holds two shards; accepted: one", device);
  }
  return read;
}

} // namespace dpc::frontend
