//===- ShardingsTest.cpp - Shardings in ONNX models -----------------------===//
#include "test/unit/frontends/ModelBuilder.h"

#include "ir/Attributes.h"

using namespace dpc;
using namespace dpc::test;
using namespace mlir;

namespace {

/// y = x w for tokens x [8, 4], with a configuration of four devices.
ModelBuilder model() {
  ModelBuilder m;
  m.input("x", "f32[batch,4]").floats("w", {4, 6}, {1, 2});
  m.node("MatMul x w -> y").output("y");
  auto *configuration = m.model.add_configuration();
  configuration->set_name("four");
  configuration->set_num_devices(4);
  return m;
}

using Dims = std::vector<std::pair<int64_t, int64_t>>; ///< (axis, shards)

/// Adds a spec for `tensor` to the node: its sharded dimensions and the device
/// of each shard. Negative numbers are device groups: -1 is {0, 1}, -2 is {2,
/// 3}, -3 is {0, 2}, -4 is {1, 3}.
::onnx::ShardingSpecProto &annotate(ModelBuilder &m, const std::string &tensor,
                                    const Dims &dims,
                                    const std::vector<int64_t> &devices) {
  auto *node = m.model.mutable_graph()->mutable_node(0);
  if (!node->device_configurations_size())
    node->add_device_configurations()->set_configuration_id("four");
  auto *spec = node->mutable_device_configurations(0)->add_sharding_spec();
  spec->set_tensor_name(tensor);
  for (int64_t device : devices) {
    spec->add_device(device);
    if (device >= 0)
      continue;
    auto *group = spec->add_index_to_device_group_map();
    group->set_key(device);
    const int64_t groups[][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
    for (int64_t member : groups[-device - 1])
      group->add_value(member);
  }
  for (auto [axis, shards] : dims) {
    auto *dim = spec->add_sharded_dim();
    dim->set_axis(axis);
    dim->add_simple_sharding()->set_num_shards(shards);
  }
  return *spec;
}

Imported read(const ModelBuilder &m) {
  ImportOptions options;
  options.globalBatch = 8;
  return import(m, options);
}

int64_t degree(Imported &imported, StringRef name) {
  auto degrees =
      (*imported.module)->getAttrOfType<DictionaryAttr>(attr::kUserDegrees);
  auto value = degrees ? degrees.getAs<IntegerAttr>(name) : IntegerAttr();
  return value ? value.getInt() : 0;
}

TEST(OnnxShardings, SayDegreesAndDimensions) {
  ModelBuilder m = model();
  annotate(m, "x", {{0, 2}}, {-1, -2});
  annotate(m, "w", {{-1, 2}}, {-3, -4});
  annotate(m, "y", {{0, 2}, {1, 2}}, {0, 1, 2, 3});
  Imported got = read(m);
  ASSERT_TRUE(got.module) << got.error;
  EXPECT_EQ(degree(got, "dp"), 2);
  EXPECT_EQ(degree(got, "tp"), 2);
  EXPECT_EQ(degree(got, "pp"), 0);
  auto dims = got.function().getArgAttrOfType<DenseI64ArrayAttr>(
      0, attr::kUserSplit); // w
  ASSERT_TRUE(dims);
  EXPECT_EQ(dims.asArrayRef(), ArrayRef<int64_t>({1}));
  ASSERT_EQ(got.remarks.size(), 1u);
  EXPECT_NE(got.remarks[0].find("1 shardings of values inside"),
            std::string::npos);
}

TEST(OnnxShardings, OverTheBatchsDevicesAreLeftToTheSearch) {
  ModelBuilder m = model();
  annotate(m, "x", {{0, 2}}, {-1, -2});
  annotate(m, "w", {{0, 2}}, {-1, -2});
  Imported got = read(m);
  ASSERT_TRUE(got.module) << got.error;
  EXPECT_EQ(degree(got, "dp"), 2);
  EXPECT_EQ(degree(got, "tp"), 0);
  EXPECT_FALSE(got.function().getArgAttr(0, attr::kUserSplit));
  ASSERT_EQ(got.remarks.size(), 1u);
  EXPECT_NE(got.remarks[0].find("zero and ep"), std::string::npos);
}

TEST(OnnxShardings, StagesArePipelines) {
  ModelBuilder m = model();
  annotate(m, "w", {{1, 2}}, {0, 1});
  m.node("Relu y -> z");
  m.model.mutable_graph()->mutable_output(0)->set_name("z");
  auto *nodes = m.model.mutable_graph()->mutable_node();
  nodes->Mutable(0)->mutable_device_configurations(0)->set_pipeline_stage(0);
  auto *second = nodes->Mutable(1)->add_device_configurations();
  second->set_configuration_id("four");
  second->set_pipeline_stage(3);
  Imported got = read(m);
  ASSERT_TRUE(got.module) << got.error;
  EXPECT_EQ(degree(got, "tp"), 2);
  EXPECT_EQ(degree(got, "pp"), 2);
  EXPECT_EQ(degree(got, "vpp"), 2);
}

void expectRefused(const ModelBuilder &m,
                   const std::vector<std::string> &mentions) {
  Imported got = read(m);
  EXPECT_FALSE(got.module);
  EXPECT_EQ(got.error.find('\n'), std::string::npos);
  for (const std::string &mention : mentions)
    EXPECT_NE(got.error.find(mention), std::string::npos) << got.error;
}

TEST(OnnxShardings, ThatContradictThemselvesAreRefused) {
  ModelBuilder m = model();
  annotate(m, "w", {{2, 2}}, {-3, -4});
  expectRefused(m, {"node 0 'MatMul_0'", "'w'", "axis 2", "2 dimensions"});
  m = model();
  annotate(m, "w", {{1, 2}}, {-3, -4, 0});
  expectRefused(m, {"lists 3 devices for 2 shards"});
  m = model();
  annotate(m, "w", {{1, 2}}, {0, 7});
  expectRefused(m, {"device 7", "0 to 3"});
  m = model();
  annotate(m, "w", {{1, 2}}, {-1, -3});
  expectRefused(m, {"device 0 holds two"});
  m = model();
  annotate(m, "w", {{1, 0}}, {});
  expectRefused(m, {"axis 1 has 0 shards", "1 to the 4 devices"});
  m = model();
  annotate(m, "w", {{0, 4}, {1, 4}}, {0, 1, 2, 3});
  expectRefused(m, {"shards outnumber the 4 devices"});
  m = model();
  annotate(m, "w", {{1, 2}, {-1, 2}}, {0, 1, 2, 3});
  expectRefused(m, {"axis 1 is split twice"});
  m = model();
  annotate(m, "v", {}, {0});
  expectRefused(m, {"'v'", "not an input or output of the node"});
}

TEST(OnnxShardings, OfUnknownConfigurationsAreRefused) {
  ModelBuilder m = model();
  annotate(m, "w", {{1, 2}}, {-3, -4});
  m.model.mutable_configuration(0)->set_name("eight");
  expectRefused(m, {"'four' does not exist in the model", "'eight'"});
  m.model.clear_configuration();
  expectRefused(m, {"'four' does not exist in the model, which has no"});
  m = model();
  annotate(m, "w", {{1, 2}}, {-3, -4});
  m.model.mutable_configuration(0)->set_num_devices(0);
  expectRefused(m, {"'four' has 0 devices"});
}

TEST(OnnxShardings, ThatDisagreeAreRefused) {
  ModelBuilder m;
  m.input("x", "f32[batch,4]").floats("w", {4, 6}, {1, 2});
  m.floats("b", {1, 6}, {1});
  m.node("Gemm x w b -> y").output("y");
  auto *configuration = m.model.add_configuration();
  configuration->set_name("four");
  configuration->set_num_devices(4);
  annotate(m, "w", {{1, 3}}, {0, 1, 2});
  annotate(m, "b", {{1, 2}}, {-3, -4});
  expectRefused(m, {"has 2 shards", "accepted: the same number, or a divisor"});
}

} // namespace
