//===- ReshardTest.cpp - shards of one layout from those of another -------===//
#include "runtime/base/Reshard.h"
#include "runtime/base/DType.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace dpc::rt {
namespace {

/// Assembles the shards of `to` from the shards of `from` and compares them
/// with shards of the whole array. Padding must stay unchanged.
void expectSame(const Layout &from, const Mesh &fromMesh, const Layout &to,
                const Mesh &toMesh, const std::vector<int64_t> &shape) {
  ASSERT_TRUE(checkLayout(from, shape, fromMesh).ok());
  ASSERT_TRUE(checkLayout(to, shape, toMesh).ok());
  std::vector<float> global(numElements(shape));
  std::iota(global.begin(), global.end(), 0.f);
  std::vector<std::vector<float>> shards(fromMesh.ranks());
  for (int64_t rank = 0; rank < fromMesh.ranks(); ++rank) {
    shards[rank].resize(numElements(localShape(from, fromMesh)), NAN);
    packShard(global.data(), shards[rank].data(), 4, from, fromMesh, rank, 0);
  }
  for (int64_t rank = 0; rank < toMesh.ranks(); ++rank) {
    std::vector<float> expected(numElements(localShape(to, toMesh)), -1);
    std::vector<float> taken = expected;
    packShard(global.data(), expected.data(), 4, to, toMesh, rank, 0);
    int64_t moved = 0, counted = 0;
    for (int64_t owner = 0; owner < fromMesh.ranks(); ++owner) {
      if (!ownsShard(from, fromMesh, owner, 0))
        continue;
      SharedElements shared({from, fromMesh, owner}, {to, toMesh, rank});
      counted += shared.count();
      shared.forEachRun([&](int64_t source, int64_t target, int64_t count) {
        moved += count;
        ASSERT_LE(source + count, int64_t(shards[owner].size()));
        ASSERT_LE(target + count, int64_t(taken.size()));
        std::copy_n(shards[owner].begin() + source, count,
                    taken.begin() + target);
      });
    }
    EXPECT_EQ(taken, expected) << "rank " << rank;
    EXPECT_EQ(moved, counted);
    EXPECT_EQ(moved, int64_t(std::count_if(expected.begin(), expected.end(),
                                           [](float v) { return v >= 0; })))
        << "no element is read twice";
  }
}

TEST(Reshard, RowsFromColumns) {
  Mesh two{{{"tp", 2}}, 1}, three{{{"dp", 3}}, 1};
  expectSame({{{{5, {}}}, {{7, {"tp"}}}}}, two, {{{{5, {"dp"}}}, {{7, {}}}}},
             three, {5, 7});
}

TEST(Reshard, EqualLayoutsShareOneRun) {
  Mesh mesh{{{"dp", 2}}, 1};
  Layout layout{{{{8, {"dp"}}}, {{3, {}}}}};
  SharedElements shared({layout, mesh, 1}, {layout, mesh, 1});
  int runs = 0;
  shared.forEachRun([&](int64_t from, int64_t to, int64_t count) {
    ++runs;
    EXPECT_EQ(from, 0);
    EXPECT_EQ(to, 0);
    EXPECT_EQ(count, 12);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(SharedElements({layout, mesh, 0}, {layout, mesh, 1}).empty());
}

TEST(Reshard, Scalars) {
  Mesh one{{{"dp", 1}}, 1}, four{{{"dp", 4}}, 1};
  expectSame({}, one, {}, four, {});
  expectSame({}, four, {}, one, {});
}

/// Returns a random layout of `shape`, with up to three factors per dimension.
Layout randomLayout(std::mt19937 &engine, const std::vector<int64_t> &shape,
                    const Mesh &mesh) {
  auto below = [&](int64_t n) { return static_cast<int64_t>(engine() % n); };
  Layout layout;
  for (int64_t extent : shape) {
    std::vector<Factor> factors;
    for (int64_t divisor : {2, 3})
      if (extent % divisor == 0 && below(2) == 0) {
        factors.push_back({divisor, {}});
        extent /= divisor;
      }
    factors.insert(factors.begin() + below(factors.size() + 1), {extent, {}});
    layout.dims.push_back(factors);
  }
  for (const MeshAxis &axis : mesh.axes) {
    if (layout.dims.empty() || below(4) == 0)
      continue; // the layout is replicated over the axis
    auto &dim = layout.dims[below(layout.dims.size())];
    dim[below(dim.size())].axes.push_back(axis.name);
  }
  return layout;
}

TEST(Reshard, RandomLayouts) {
  std::mt19937 engine(11);
  auto meshOf = [&] {
    return Mesh{
        {{"dp", int64_t(1 + engine() % 3)}, {"tp", int64_t(1 + engine() % 4)}},
        1};
  };
  for (int draw = 0; draw < 400; ++draw) {
    std::vector<int64_t> shape(1 + engine() % 3);
    for (int64_t &extent : shape)
      extent = static_cast<int64_t>(1 + engine() % 12);
    Mesh from = meshOf(), to = meshOf();
    expectSame(randomLayout(engine, shape, from), from,
               randomLayout(engine, shape, to), to, shape);
    if (HasFatalFailure())
      FAIL() << "draw " << draw;
  }
}

} // namespace
} // namespace dpc::rt
