#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <set>

namespace dpc::rt {

namespace {

/// Checks one op on tiles of rows.
class TilesChecker {
public:
  TilesChecker(const Plan &plan, const ExpertTilesOp &op)
      : plan(plan), op(op) {}

  Status run() {
    DPC_TRY(sizes());
    for (const TileBuffer &take : op.takes)
      DPC_TRY(pair(take, /*leastShares=*/1).in("takes"));
    for (const TileBuffer &add : op.adds)
      DPC_TRY(sum(add).in("adds"));
    DPC_TRY(exchange());
    DPC_TRY(checkExpertWorkspace(plan, op.workspace, op.rows, op.experts));
    return body();
  }

private:
  int64_t elements(int id) const {
    return checkedElements(plan.buffers[id].shape);
  }

  Status sizes() const {
    const std::tuple<const char *, int64_t, int64_t> sizes[] = {
        {"rows", op.rows, 0},
        {"tile_rows", op.tileRows, 1},
        {"experts", op.experts, 0}};
    for (auto [name, size, least] : sizes)
      if (size < least || size > INT32_MAX)
        return wrongField(name, size, least, " to ", INT32_MAX);
    for (auto [name, id, count] : {std::tuple("ids", op.ids, op.rows),
                                   {"tile_ids", op.tileIds, op.tileRows}}) {
      DPC_TRY(checkBufferId(plan, name, id));
      DType type = plan.buffers[id].dtype;
      if (type != DType::I64 && type != DType::I32)
        return Status::invalid(name, " holds ", nameOf(type),
                               ", expected i64 or i32");
      if (elements(id) != count)
        return wrongField(concat("number of elements of ", name), elements(id),
                          count);
    }
    if (plan.buffers[op.ids].dtype != plan.buffers[op.tileIds].dtype)
      return Status::invalid("tile_ids has another type than ids");
    for (int id : op.sums)
      DPC_TRY(checkBufferId(plan, "sums", id));
    return Status::success();
  }

  /// Checks that rows can be exchanged, whatever the ids are.
  Status exchange() const {
    if (op.group == -1)
      return op.staged == -1
                 ? Status::success()
                 : Status::invalid("staged is ", op.staged,
                                   ", expected -1, because group is -1");
    auto members =
        static_cast<int64_t>(plan.groups[op.group].members.front().size());
    if (op.tileRows < members)
      return wrongField("tile_rows", op.tileRows, "at least the ", members,
                        " members of the group");
    // Members have different experts.
    auto isSplit = [&](const std::string &axis) {
      return std::count(op.first.axes.begin(), op.first.axes.end(), axis) > 0;
    };
    const std::vector<std::string> &axes = plan.groups[op.group].axes;
    if (op.first.kind != ScalarKind::Offset ||
        op.valid.kind != ScalarKind::Valid || op.valid.axes != op.first.axes ||
        !std::all_of(axes.begin(), axes.end(), isSplit))
      return Status::invalid("first and valid are not the offset and the size "
                             "of a shard along the axes of the group and "
                             "perhaps further ones");
    DPC_TRY(checkBufferId(plan, "staged", op.staged));
    int64_t most = plan.buffers[op.tileIds].bytes;
    for (const auto *tiles : {&op.takes, &op.adds})
      for (const TileBuffer &one : *tiles)
        if (one.shares > 0)
          most = std::max(most, plan.buffers[one.tile].bytes);
    if (plan.buffers[op.staged].bytes < most)
      return Status::invalid("staged is buffer ", op.staged, " of ",
                             plan.buffers[op.staged].bytes,
                             " bytes, expected at least ", most);
    return Status::success();
  }

  /// Checks that the tile has rows of the width of the buffer's.
  Status pair(const TileBuffer &one, int64_t leastShares) const {
    DPC_TRY(checkBufferId(plan, "buffer", one.buffer));
    DPC_TRY(checkBufferId(plan, "tile", one.tile));
    if (one.shares < leastShares ||
        (one.shares > 0 && op.rows % one.shares != 0))
      return wrongField("shares", one.shares, "a divisor of the ", op.rows,
                        " rows");
    int64_t whole = elements(one.buffer), tile = elements(one.tile);
    if (one.shares == 0)
      return whole == tile ? Status::success()
                           : wrongField("number of elements of tile", tile,
                                        whole, ", as in its buffer");
    int64_t rows = op.rows / one.shares;
    bool fits = rows == 0 ? whole == 0
                          : whole % rows == 0 && tile % op.tileRows == 0 &&
                                whole / rows == tile / op.tileRows;
    return fits ? Status::success()
                : Status::invalid("buffer ", one.buffer, " has ", whole,
                                  " elements in ", rows, " rows, but tile ",
                                  one.tile, " has ", tile, " elements in ",
                                  op.tileRows, " rows");
  }

  Status sum(const TileBuffer &one) const {
    DPC_TRY(pair(one, /*leastShares=*/0));
    DType type = plan.buffers[one.buffer].dtype;
    DType tile = plan.buffers[one.tile].dtype;
    bool isHalf = tile == DType::BF16 || tile == DType::F16;
    if (isFloat(tile) && (type == tile || (isHalf && type == DType::F32)))
      return Status::success();
    return Status::invalid("buffer ", one.buffer, " holds ", nameOf(type),
                           ", but tile ", one.tile, " holds ", nameOf(tile));
  }

  /// Checks that the body reads what is outside the op or was written before,
  /// that it writes only what belongs to a tile, and adds only to `sums`.
  Status body() {
    std::set<int> sums, results;
    for (int id : op.sums)
      sums.insert(rootOf(plan, id));
    for (const TileBuffer &add : op.adds)
      results.insert(rootOf(plan, add.buffer));
    write(op.tileIds);
    outside.insert(rootOf(plan, op.ids));
    for (const TileBuffer &take : op.takes) {
      outside.insert(rootOf(plan, take.buffer));
      write(take.tile);
    }
    std::set<int> later = writtenInBody();
    for (size_t i = 0; i < op.body.size(); ++i) {
      Accesses accesses = accessesOf(op.body[i], plan);
      for (int id : accesses.reads) {
        int root = rootOf(plan, id);
        if (written.count(root) || sums.count(root))
          continue;
        if (results.count(root) || later.count(root))
          return Status::invalid("body[", i, "]: reads buffer ", id,
                                 ", which no earlier instruction writes");
        outside.insert(root);
      }
      for (int id : accesses.writes) {
        bool isSum = sums.count(rootOf(plan, id)) > 0;
        auto *product = std::get_if<ExpertMatmulOp>(&op.body[i].op);
        if (results.count(rootOf(plan, id)) ||
            (isSum && !(product && product->accumulates && product->w == id)))
          return Status::invalid("body[", i, "]: writes buffer ", id,
                                 ", to which the op adds");
        if (!isSum)
          write(id);
      }
    }
    for (const TileBuffer &add : op.adds)
      if (!written.count(rootOf(plan, add.tile)))
        return Status::invalid("adds: nothing writes tile ", add.tile);
    for (int scratch : {op.workspace, op.staged})
      if (scratch >= 0 && !written.insert(rootOf(plan, scratch)).second)
        return Status::invalid("buffer ", scratch,
                               " is scratch memory and a part of a tile");
    written.insert(sums.begin(), sums.end());
    written.insert(results.begin(), results.end());
    return disjoint();
  }

  std::set<int> writtenInBody() const {
    std::set<int> roots;
    for (const Instruction &inner : op.body)
      for (int id : accessesOf(inner, plan).writes)
        roots.insert(rootOf(plan, id));
    return roots;
  }

  void write(int id) { written.insert(rootOf(plan, id)); }

  Status disjoint() const {
    std::set<int> all = written;
    all.insert(outside.begin(), outside.end());
    for (int a : written)
      for (int b : all)
        if (a != b && mayOverlap(plan, wholeOf(plan, a), wholeOf(plan, b)))
          return Status::invalid("buffer ", a, ", which is written, overlaps ",
                                 "buffer ", b);
    for (int id : written)
      if (outside.count(id))
        return Status::invalid("buffer ", id, " is written and taken");
    return Status::success();
  }

  const Plan &plan;
  const ExpertTilesOp &op;
  std::set<int> written; ///< roots, so far
  std::set<int> outside; ///< roots that the op only reads
};

} // namespace

Status checkExpertTiles(const Plan &plan, const ExpertTilesOp &op) {
  return TilesChecker(plan, op).run();
}

} // namespace dpc::rt
