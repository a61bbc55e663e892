#include "runtime/kernels/ExpertTiles.h"

#include "runtime/base/HostTensor.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

namespace {

/// A tile and the buffer of its rows.
struct Pair {
  char *rows = nullptr, *tile = nullptr;
  DType type = DType::F32, tileType = DType::F32;
  int64_t width = 0; ///< elements of a row; of both if shares is 0
  int64_t shares = 1;

  char *rowAt(int64_t row) const {
    return rows + row / shares * width * sizeOf(type);
  }
  char *tileRow(int64_t i) const { return tile + i * width * sizeOf(tileType); }
};

template <typename T> void addTo(char *sum, const char *values, int64_t n) {
  auto *to = reinterpret_cast<T *>(sum);
  const auto *from = reinterpret_cast<const T *>(values);
  for (int64_t i = 0; i < n; ++i)
    to[i] += from[i];
}

void add(const Pair &pair, char *sum, const char *values) {
  if (pair.type == DType::F32 && pair.tileType == DType::F32)
    return addTo<float>(sum, values, pair.width);
  if (pair.type == DType::F64 && pair.tileType == DType::F64)
    return addTo<double>(sum, values, pair.width);
  for (int64_t i = 0; i < pair.width; ++i)
    storeFromDouble(sum, pair.type, i,
                    loadAsDouble(sum, pair.type, i) +
                        loadAsDouble(values, pair.tileType, i));
}

class Tiles {
public:
  Tiles(const Plan &plan, const ExpertTilesOp &op, const ExpertIds &ids,
        const std::function<char *(int)> &data)
      : op(op), ids(ids), order(ids, op.rows, op.experts),
        tileIds(data(op.tileIds)) {
    auto pairOf = [&](const TileBuffer &one) {
      const Buffer &rows = plan.buffers[one.buffer];
      const Buffer &tile = plan.buffers[one.tile];
      int64_t lines = one.shares == 0 ? 1 : op.tileRows;
      return Pair{data(one.buffer),
                  data(one.tile),
                  rows.dtype,
                  tile.dtype,
                  numElements(tile.shape) / lines,
                  one.shares};
    };
    for (const TileBuffer &take : op.takes)
      takes.push_back(pairOf(take));
    for (const TileBuffer &add : op.adds) {
      adds.push_back(pairOf(add));
      std::memset(data(add.buffer), 0, plan.buffers[add.buffer].bytes);
    }
    for (int sum : op.sums)
      std::memset(data(sum), 0, plan.buffers[sum].bytes);
  }

  Status run(const std::function<Status()> &runBody) {
    for (int64_t begin = 0; begin < order.size(); begin += op.tileRows) {
      int64_t end = std::min(begin + op.tileRows, order.size());
      takeRows(begin, end);
      DPC_TRY(runBody());
      addRows(begin, end);
    }
    return Status::success();
  }

private:
  void takeRows(int64_t begin, int64_t end) {
    for (int64_t i = 0; i < op.tileRows; ++i)
      setId(i, begin + i < end ? ids[order[begin + i]] : -1);
    for (const Pair &pair : takes) {
      const int64_t bytes = pair.width * sizeOf(pair.type);
      for (int64_t i = begin; i < end; ++i)
        std::memcpy(pair.tileRow(i - begin), pair.rowAt(order[i]), bytes);
      std::memset(pair.tileRow(end - begin), 0,
                  (op.tileRows - (end - begin)) * bytes);
    }
  }

  void addRows(int64_t begin, int64_t end) {
    for (const Pair &pair : adds) {
      if (pair.shares == 0)
        add(pair, pair.rows, pair.tile);
      for (int64_t i = begin; i < end && pair.shares > 0; ++i)
        add(pair, pair.rowAt(order[i]), pair.tileRow(i - begin));
    }
  }

  void setId(int64_t i, int64_t id) {
    if (ids.type == DType::I64)
      reinterpret_cast<int64_t *>(tileIds)[i] = id;
    else
      reinterpret_cast<int32_t *>(tileIds)[i] = static_cast<int32_t>(id);
  }

  const ExpertTilesOp &op;
  const ExpertIds &ids;
  RowsOfExperts order;
  char *tileIds;
  std::vector<Pair> takes, adds;
};

} // namespace

Status runExpertTiles(const Plan &plan, const ExpertTilesOp &op,
                      const ExpertIds &ids,
                      const std::function<char *(int)> &data,
                      const std::function<Status()> &runBody) {
  return Tiles(plan, op, ids, data).run(runBody);
}

} // namespace dpc::rt
