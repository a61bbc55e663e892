//===- MeshAxesTest.cpp - Names and roles of mesh axes --------------------===//
#include "ir/MeshAxes.h"
#include "ir/Sharding.h"
#include "passes/shard/LoweringSpec.h"
#include "runtime/base/Layout.h"

#include <gtest/gtest.h>

using namespace dpc;

namespace {

TEST(MeshAxes, NamesHaveTheirRoles) {
  LoweringSpec grid, plain;
  for (LoweringSpec *spec : {&grid, &plain}) {
    spec->dp = 16;
    spec->ep = 2;
    spec->cp = 2;
    spec->pp = 2;
    spec->zero = 3;
    spec->hybridShard = 4;
    spec->numMicroBatches = 2;
  }
  grid.tp = cost::TensorDegree{4};
  grid.tp.grid = {2, 2};
  plain.tp = cost::TensorDegree{4};
  std::set<std::string> seen;
  for (const LoweringSpec &spec : {grid, plain})
    for (const MeshAxis &axis : axesOf(spec)) {
      seen.insert(axis.name);
      bool isData = axis.role == AxisRole::data;
      bool isExpert = axis.role == AxisRole::expert;
      bool isSequence = axis.role == AxisRole::sequence;
      EXPECT_EQ(isDataAxis(axis.name), isData) << axis.name;
      EXPECT_EQ(rt::isDataAxis(axis.name), isData) << axis.name;
      EXPECT_EQ(splitsBatch(axis.name), isData || isExpert) << axis.name;
      EXPECT_EQ(sumsGradients(axis.name), isData || isExpert || isSequence)
          << axis.name;
      EXPECT_EQ(isTensorAxis(axis.name), axis.role == AxisRole::tensor)
          << axis.name;
    }
  EXPECT_EQ(seen, (std::set<std::string>{"pp", "dp", "dpi", "ep", "cp", "tp",
                                         "tp0", "tp1", "mb"}));
}

} // namespace
