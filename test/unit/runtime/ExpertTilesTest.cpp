#include "runtime/kernels/ExpertTiles.h"
#include "runtime/base/HostTensor.h"
#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/PlanExperts.h"
#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::addBuffer;
using test::leastSquares;

/// An op on three tokens with two choices each, in tiles of four rows. The body
/// doubles the rows that it takes.
struct Tiles {
  explicit Tiles(DType tile = DType::F32, DType sum = DType::F32) {
    add(DType::I64, {6}); // 0: ids
    add(DType::I64, {4}); // 1: ids of a tile
    add(tile, {3, 2});    // 2: rows
    add(tile, {4, 2});    // 3: rows of a tile
    add(tile, {4, 2});    // 4: results of a tile
    add(sum, {3, 2});     // 5: sums of rows
    add(sum, {4, 2});     // 6: sum of tiles
    op.ids = 0;
    op.tileIds = 1;
    op.rows = 6;
    op.tileRows = 4;
    op.experts = 2;
    op.takes = {{2, 3, 2}};
    op.adds = {{5, 4, 2}, {6, 4, 0}};
  }

  void add(DType type, std::vector<int64_t> shape) {
    int id = addBuffer(plan, "", BufferKind::Workspace, shape, type);
    data.emplace_back(plan.buffers[id].bytes, '\xff');
  }
  void set(int buffer, const std::vector<double> &values) {
    for (size_t i = 0; i < values.size(); ++i)
      storeFromDouble(data[buffer].data(), plan.buffers[buffer].dtype, i,
                      values[i]);
  }
  std::vector<double> get(int buffer) const {
    std::vector<double> values;
    const int64_t count = numElements(plan.buffers[buffer].shape);
    values.reserve(count);
    for (int64_t i = 0; i < count; ++i)
      values.push_back(
          loadAsDouble(data[buffer].data(), plan.buffers[buffer].dtype, i));
    return values;
  }

  /// Runs the op on a rank with the experts 1 and 2. Returns the ids of all
  /// tiles.
  std::vector<double> run() {
    std::vector<double> ids;
    ExpertIds own{data[0].data(), plan.buffers[0].dtype, 1, 2};
    Status status = runExpertTiles(
        plan, op, own, [&](int id) { return data[id].data(); },
        [&] {
          std::vector<double> tile = get(3), more = get(1);
          ids.insert(ids.end(), more.begin(), more.end());
          for (double &value : tile)
            value *= 2;
          set(4, tile);
          return Status::success();
        },
        counts);
    EXPECT_EQ(status.message(), "");
    return ids;
  }

  Plan plan;
  ExpertTilesOp op;
  std::vector<std::vector<char>> data;
  ExpertCounts counts;
};

using Values = std::vector<double>;

TEST(ExpertTiles, RowsAreSortedByExpert) {
  Tiles tiles;
  tiles.set(0, {2, 1, 7, 2, 1, 1});
  tiles.set(2, {1, 10, 2, 20, 3, 30});
  EXPECT_EQ(tiles.run(), (Values{1, 1, 1, 2, 2, -1, -1, -1}));
  EXPECT_EQ(tiles.get(5), (Values{4, 40, 4, 40, 12, 120}));
  // Rows 1, 4, 5 and 0, then row 3 and zeros.
  EXPECT_EQ(tiles.get(6), (Values{6, 60, 6, 60, 6, 60, 2, 20}));
}

TEST(ExpertTiles, WithoutRowsTheBodyDoesNotRun) {
  Tiles tiles;
  tiles.set(0, {0, 0, 3, -1, 4, 9});
  tiles.set(2, {1, 10, 2, 20, 3, 30});
  EXPECT_EQ(tiles.run(), Values());
  EXPECT_EQ(tiles.get(5), Values(6));
  EXPECT_EQ(tiles.get(6), Values(8));
}

TEST(ExpertTiles, AllRowsOfOneExpertNeedMoreTiles) {
  Tiles tiles;
  tiles.set(0, {1, 1, 1, 1, 1, 1});
  tiles.set(2, {1, 10, 2, 20, 3, 30});
  EXPECT_EQ(tiles.run(), (Values{1, 1, 1, 1, 1, 1, -1, -1}));
  EXPECT_EQ(tiles.counts.rows, 6);
  EXPECT_EQ(tiles.counts.tiles, 2);
  EXPECT_EQ(tiles.get(5), (Values{4, 40, 8, 80, 12, 120}));
}

/// Each tile of bf16 is exact, but its sums need f32.
TEST(ExpertTiles, HalfRowsAreAddedInFull) {
  Tiles tiles(DType::BF16, DType::F32);
  tiles.set(0, {1, 2, 1, 2, 1, 2});
  tiles.set(2, {256, 1, 0.5, 1, 1, 1});
  tiles.run();
  EXPECT_EQ(tiles.get(5), (Values{1024, 4, 2, 4, 4, 4}));
  EXPECT_EQ(tiles.get(6)[0], 513);
}

TEST(ExpertTiles, TakesIdsOf32Bits) {
  Tiles tiles;
  for (int buffer : {0, 1})
    tiles.plan.buffers[buffer].dtype = DType::I32;
  tiles.set(0, {2, 1, 7, 2, 1, 1});
  tiles.set(2, {1, 10, 2, 20, 3, 30});
  EXPECT_EQ(tiles.run(), (Values{1, 1, 1, 2, 2, -1, -1, -1}));
}

/// Adds an op on tiles of three rows to `update`. Each of two choices of a
/// token multiplies it by the matrix of its expert; the op sums the results of
/// a token, and the gradients of the matrices. Returns the op.
ExpertTilesOp &addExpertTiles(Plan &plan) {
  constexpr int64_t kRows = 8, kShares = 2, kTile = 3, kExperts = 2, kK = 4,
                    kN = 5;
  auto scratch = [&](const char *name, std::vector<int64_t> shape,
                     DType type = DType::F32) {
    return addBuffer(plan, name, BufferKind::Workspace, std::move(shape), type);
  };
  auto parameter = [&](const char *name, std::vector<int64_t> shape,
                       DType type = DType::F32) {
    Tensor tensor;
    tensor.name = name;
    tensor.buffer = addBuffer(plan, name, BufferKind::Parameter, shape, type);
    tensor.dtype = type;
    tensor.globalShape = shape;
    tensor.layout = Layout::replicated(shape);
    plan.tensors.push_back(tensor);
    return tensor.buffer;
  };
  ExpertTilesOp op;
  op.ids = parameter("t.ids", {kRows}, DType::I64);
  op.tileIds = scratch("t.tile_ids", {kTile}, DType::I64);
  op.rows = kRows;
  op.tileRows = kTile;
  op.experts = kExperts;
  op.first = {ScalarKind::Offset, 0, kExperts * plan.ranks(), {"dp"}};
  op.valid = {ScalarKind::Valid, 0, kExperts * plan.ranks(), {"dp"}};
  op.workspace =
      scratch("t.order", {expertWorkspaceBytes(kRows, kExperts)}, DType::U8);
  int x = parameter("t.x", {kRows / kShares, kK});
  op.takes = {{x, scratch("t.x_tile", {kTile, kK}), kShares}};
  int y = scratch("t.y", {kRows / kShares, kN});
  op.adds = {{y, scratch("t.y_tile", {kTile, kN}), kShares}};
  op.sums = {scratch("t.dw", {kExperts, kK, kN})};
  ExpertMatmulOp forward;
  forward.x = op.takes[0].tile;
  forward.ids = op.tileIds;
  forward.w = parameter("t.w", {kExperts, kK, kN});
  forward.y = op.adds[0].tile;
  forward.rows = kTile;
  forward.experts = kExperts;
  forward.k = kK;
  forward.n = kN;
  forward.first = op.first;
  forward.valid = op.valid;
  forward.workspace = scratch(
      "t.tile_order", {expertWorkspaceBytes(kTile, kExperts)}, DType::U8);
  ExpertMatmulOp gradient = forward;
  gradient.kind = ExpertMatmulKind::GradWeight;
  gradient.w = op.sums[0];
  gradient.accumulates = true;
  op.body = {{Queue::Compute, {}, -1, "forward", 0, forward},
             {Queue::Compute, {}, -1, "gradient", 0, gradient}};
  plan.phases["update"].push_back({Queue::Compute, {}, -1, "tiles", 0, op});
  return std::get<ExpertTilesOp>(plan.phases["update"].back().op);
}

TEST(ExpertTiles, PlansRoundTrip) {
  Plan plan = leastSquares(2, 2);
  addExpertTiles(plan);
  test::expectRoundTrip(plan);
}

/// Tiles are written before the body reads them, so they are not read.
TEST(ExpertTiles, AccessesAreThoseOutsideTheOp) {
  Plan plan = leastSquares(2, 2);
  ExpertTilesOp &op = addExpertTiles(plan);
  const Instruction &instruction = plan.phases["update"].back();
  int w = std::get<ExpertMatmulOp>(op.body[0].op).w;
  EXPECT_EQ(accessesOf(instruction, plan).reads,
            (std::vector<int>{op.ids, op.takes[0].buffer, w}));
  EXPECT_EQ(resultsOf(instruction, plan),
            (std::vector<int>{op.sums[0], op.adds[0].buffer}));
}

struct Mutation {
  const char *name;
  void (*change)(Plan &, ExpertTilesOp &);
  const char *message;
};

class TileMutations : public testing::TestWithParam<Mutation> {};

TEST_P(TileMutations, IsRefused) {
  Plan plan = leastSquares(2, 2);
  GetParam().change(plan, addExpertTiles(plan));
  Status status = checkInstructions(plan);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos)
      << status.message();
}

ExpertMatmulOp &product(ExpertTilesOp &op, size_t i) {
  return std::get<ExpertMatmulOp>(op.body[i].op);
}

/// Lets the ranks of a group of two exchange the rows of `op`.
void exchange(Plan &plan, ExpertTilesOp &op) {
  op.group = 0;
  op.staged = addBuffer(plan, "t.staged", BufferKind::Workspace, {3, 5});
  plan.phases["update"].back().queue = Queue::Comm;
}

TEST(ExpertTiles, PlansOfExchangedRowsRoundTrip) {
  Plan plan = leastSquares(2, 2);
  ExpertTilesOp &op = addExpertTiles(plan);
  exchange(plan, op);
  EXPECT_EQ(checkInstructions(plan).message(), "");
  EXPECT_TRUE(isCollective(plan.phases["update"].back().op));
  test::expectRoundTrip(plan);
}

INSTANTIATE_TEST_SUITE_P(
    Ops, TileMutations,
    testing::Values(
        Mutation{"computeQueue",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   p.phases["update"].back().queue = Queue::Compute;
                 },
                 "queue is \"compute\", expected \"comm\""},
        Mutation{"noGroup",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   op.group = 7;
                 },
                 "group is 7"},
        Mutation{"stagedForNothing",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   op.group = -1;
                   p.phases["update"].back().queue = Queue::Compute;
                 },
                 "expected -1, because group is -1"},
        Mutation{"everyMemberHasAllExperts",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   op.first = {};
                 },
                 "first and valid are not the offset and the size of a shard"},
        Mutation{"unlikeParts",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   op.valid.axes.clear();
                 },
                 "first and valid are not the offset and the size of a shard"},
        Mutation{"smallStaged",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   p.buffers[op.staged].bytes = 40;
                 },
                 "of 40 bytes, expected at least 60"},
        Mutation{"stagedOverlaps",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   op.staged = op.adds[0].tile;
                 },
                 "is scratch memory and a part of a tile"},
        Mutation{"smallTile",
                 [](Plan &p, ExpertTilesOp &op) {
                   exchange(p, op);
                   op.body.clear();
                   op.tileRows = 1;
                   p.buffers[op.tileIds].shape = {1};
                   op.takes.clear();
                   op.adds.clear();
                 },
                 "tile_rows is 1, expected at least the 2 members"},
        Mutation{"noRows", [](Plan &, ExpertTilesOp &op) { op.tileRows = 0; },
                 "tile_rows is 0, expected 1 to"},
        Mutation{"fewIds", [](Plan &, ExpertTilesOp &op) { op.rows = 6; },
                 "number of elements of ids is 8, expected 6"},
        Mutation{"floatIds",
                 [](Plan &p, ExpertTilesOp &op) {
                   p.buffers[op.ids].dtype = DType::F64;
                 },
                 "ids holds f64, expected i64 or i32"},
        Mutation{"unlikeIds",
                 [](Plan &p, ExpertTilesOp &op) {
                   p.buffers[op.tileIds].dtype = DType::I32;
                 },
                 "tile_ids has another type than ids"},
        Mutation{"oddShares",
                 [](Plan &, ExpertTilesOp &op) { op.takes[0].shares = 3; },
                 "takes: shares is 3, expected a divisor of the 8 rows"},
        Mutation{"wideTile",
                 [](Plan &p, ExpertTilesOp &op) {
                   op.body.clear();
                   p.buffers[op.takes[0].tile].shape = {3, 5};
                 },
                 "takes: buffer"},
        Mutation{"takesWhole",
                 [](Plan &, ExpertTilesOp &op) { op.takes[0].shares = 0; },
                 "takes: shares is 0"},
        Mutation{"unlikeSum",
                 [](Plan &p, ExpertTilesOp &op) {
                   p.buffers[op.adds[0].buffer].dtype = DType::I32;
                 },
                 "adds: buffer"},
        Mutation{"noBuffer",
                 [](Plan &, ExpertTilesOp &op) { op.sums[0] = 9999; },
                 "sums is 9999"},
        Mutation{"otherOp",
                 [](Plan &, ExpertTilesOp &op) {
                   op.body[0].op = FillOp{op.adds[0].tile, 0};
                 },
                 "body[0]: op is fill, expected kernel or expert_matmul"},
        Mutation{"event",
                 [](Plan &, ExpertTilesOp &op) { op.body[1].signals = 3; },
                 "body[1]: has events"},
        Mutation{
            "queue",
            [](Plan &, ExpertTilesOp &op) { op.body[1].queue = Queue::Comm; },
            "body[1]: queue is comm, expected compute"},
        Mutation{"readsResult",
                 [](Plan &, ExpertTilesOp &op) {
                   std::swap(op.body[0], op.body[1]);
                   product(op, 0).y = op.adds[0].tile;
                 },
                 "body[0]: reads buffer"},
        Mutation{"overwritesSum",
                 [](Plan &, ExpertTilesOp &op) {
                   product(op, 1).accumulates = false;
                 },
                 "body[1]: writes buffer"},
        Mutation{
            "addsNothing",
            [](Plan &, ExpertTilesOp &op) { op.body.erase(op.body.begin()); },
            "adds: nothing writes tile"},
        Mutation{"overlap",
                 [](Plan &p, ExpertTilesOp &op) {
                   p.buffers[op.takes[0].tile].offset =
                       p.buffers[op.adds[0].tile].offset;
                 },
                 "overlaps"},
        Mutation{"takesItsResult",
                 [](Plan &, ExpertTilesOp &op) {
                   op.takes[0].tile = op.takes[0].buffer;
                   op.takes[0].shares = 1;
                   op.rows = 8;
                 },
                 "takes: buffer"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
} // namespace dpc::rt
