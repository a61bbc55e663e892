#include "runtime/kernels/ExpertTiles.h"

#include "runtime/base/HostTensor.h"

namespace dpc::rt {

template <typename T>
static void addTo(char *sum, const char *values, int64_t n) {
  auto *to = reinterpret_cast<T *>(sum);
  const auto *from = reinterpret_cast<const T *>(values);
  for (int64_t i = 0; i < n; ++i)
    to[i] += from[i];
}

void TileRows::add(char *sum, const char *values) const {
  if (type == DType::F32 && tileType == DType::F32)
    return addTo<float>(sum, values, width);
  if (type == DType::F64 && tileType == DType::F64)
    return addTo<double>(sum, values, width);
  for (int64_t i = 0; i < width; ++i)
    storeFromDouble(sum, type, i,
                    loadAsDouble(sum, type, i) +
                        loadAsDouble(values, tileType, i));
}

TileMemory::TileMemory(const Plan &plan, const ExpertTilesOp &op,
                       const std::function<char *(int)> &data)
    : ids(data(op.tileIds)), idType(plan.buffers[op.tileIds].dtype) {
  auto rowsOf = [&](const TileBuffer &one) {
    const Buffer &rows = plan.buffers[one.buffer];
    const Buffer &tile = plan.buffers[one.tile];
    int64_t lines = one.shares == 0 ? 1 : op.tileRows;
    return TileRows{data(one.buffer),
                    data(one.tile),
                    rows.dtype,
                    tile.dtype,
                    numElements(tile.shape) / lines,
                    one.shares};
  };
  for (const TileBuffer &take : op.takes)
    takes.push_back(rowsOf(take));
  for (const TileBuffer &add : op.adds) {
    adds.push_back(rowsOf(add));
    std::memset(data(add.buffer), 0, plan.buffers[add.buffer].bytes);
  }
  for (int sum : op.sums)
    std::memset(data(sum), 0, plan.buffers[sum].bytes);
}

void TileMemory::clearFrom(int64_t begin, int64_t tileRows) {
  for (int64_t i = begin; i < tileRows; ++i)
    setId(i, -1);
  for (const TileRows &take : takes)
    std::memset(take.tileRow(begin), 0,
                (tileRows - begin) * take.width * sizeOf(take.tileType));
}

void TileMemory::addWhole() const {
  for (const TileRows &sum : adds)
    if (sum.shares == 0)
      sum.add(sum.rows, sum.tile);
}

namespace {

class Tiles {
public:
  Tiles(const Plan &plan, const ExpertTilesOp &op, const ExpertIds &ids,
        const std::function<char *(int)> &data)
      : op(op), ids(ids), order(ids, op.rows, op.experts),
        memory(plan, op, data) {}

  Status run(const std::function<Status()> &runBody, ExpertCounts &counts) {
    counts.rows += order.size();
    for (int64_t begin = 0; begin < order.size(); begin += op.tileRows) {
      int64_t end = std::min(begin + op.tileRows, order.size());
      takeRows(begin, end);
      DPC_TRY(runBody());
      addRows(begin, end);
      ++counts.tiles;
    }
    return Status::success();
  }

private:
  void takeRows(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      memory.setId(i - begin, ids[order[i]]);
    for (const TileRows &take : memory.takes) {
      const int64_t bytes = take.width * sizeOf(take.type);
      for (int64_t i = begin; i < end; ++i)
        std::memcpy(take.tileRow(i - begin), take.rowAt(order[i]), bytes);
    }
    memory.clearFrom(end - begin, op.tileRows);
  }

  void addRows(int64_t begin, int64_t end) {
    memory.addWhole();
    for (const TileRows &sum : memory.adds)
      for (int64_t i = begin; i < end && sum.shares > 0; ++i)
        sum.add(sum.rowAt(order[i]), sum.tileRow(i - begin));
  }

  const ExpertTilesOp &op;
  const ExpertIds &ids;
  RowsOfExperts order;
  TileMemory memory;
};

} // namespace

Status runExpertTiles(const Plan &plan, const ExpertTilesOp &op,
                      const ExpertIds &ids,
                      const std::function<char *(int)> &data,
                      const std::function<Status()> &runBody,
                      ExpertCounts &counts) {
  return Tiles(plan, op, ids, data).run(runBody, counts);
}

} // namespace dpc::rt
