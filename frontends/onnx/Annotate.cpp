//===- Annotate.cpp - Plan shardings in an ONNX model ---------------------===//
#include "frontends/onnx/Annotate.h"
#include "frontends/onnx/ExternalFiles.h"

#include "frontends/onnx/PlanShardings.h"
#include "frontends/onnx/Specs.h"

#include <fstream>
#include <set>

using namespace mlir;

namespace dpc {

/// The first IR version of ONNX that has device configurations.
static constexpr int64_t kIrWithDevices = 11;
static constexpr llvm::StringLiteral kConfiguration = "dpc";

namespace {

class Annotator {
public:
  Annotator(const frontend::PlanShardings &plan,
            const llvm::StringMap<Value> &values, OnnxAnnotation &counts)
      : plan(plan), values(values), writer(plan.mesh()), counts(counts) {}

  void run(::onnx::GraphProto &graph);

private:
  void annotate(::onnx::NodeProto &node);
  bool addSpec(::onnx::NodeDeviceConfigurationProto &configuration,
               const std::string &name, const std::optional<ShardingSpec> &spec,
               std::optional<int64_t> stage);
  void notePartial(::onnx::NodeProto &node, const std::string &name,
                   const ShardingSpec &spec);

  const frontend::PlanShardings &plan;
  const llvm::StringMap<Value> &values;
  frontend::SpecWriter writer;
  OnnxAnnotation &counts;
};

} // namespace

template <typename Owner>
static void setMetadata(Owner &owner, const std::string &key,
                        const std::string &value) {
  for (auto &entry : *owner.mutable_metadata_props())
    if (entry.key() == key) {
      entry.set_value(value);
      return;
    }
  auto *entry = owner.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

bool Annotator::addSpec(::onnx::NodeDeviceConfigurationProto &configuration,
                        const std::string &name,
                        const std::optional<ShardingSpec> &spec,
                        std::optional<int64_t> stage) {
  bool isThere =
      llvm::any_of(configuration.sharding_spec(), [&](const auto &other) {
        return other.tensor_name() == name;
      });
  if (!spec || isThere)
    return isThere;
  auto *out = configuration.add_sharding_spec();
  out->set_tensor_name(name);
  writer.write(*spec, stage, *out);
  return true;
}

/// Records a partial sum in the node's metadata, for example "sum over tp".
void Annotator::notePartial(::onnx::NodeProto &node, const std::string &name,
                            const ShardingSpec &spec) {
  std::string text;
  for (const PartialAxis &axis : spec.partial)
    text += (text.empty() ? "" : ", ") + stringifyReduceKind(axis.kind).str() +
            " over " + spec.mesh.getNames()[axis.axis].str();
  setMetadata(node, "dpc.partial." + name, text);
  ++counts.partial;
}

void Annotator::annotate(::onnx::NodeProto &node) {
  node.clear_device_configurations();
  ::onnx::NodeDeviceConfigurationProto configuration;
  configuration.set_configuration_id(kConfiguration.str());
  std::string reader = node.output_size() ? node.output(0) : "";
  std::optional<int64_t> stage;
  for (const std::string &name : node.output())
    if (Value value = values.lookup(name); value && !stage)
      stage = plan.stage(value);
  for (const std::string &name : node.input())
    if (Value value = values.lookup(name))
      addSpec(configuration, name, plan.read(reader, name, value), stage);
  for (const std::string &name : node.output()) {
    Value value = values.lookup(name);
    auto spec = plan.made(name, value);
    if (spec && !spec->partial.empty())
      notePartial(node, name, *spec);
    else
      addSpec(configuration, name, spec, stage);
  }
  if (stage)
    configuration.set_pipeline_stage(static_cast<int32_t>(*stage));
  ++counts.nodes;
  if (!configuration.sharding_spec_size() && !stage)
    return;
  ++counts.annotated;
  *node.add_device_configurations() = std::move(configuration);
}

void Annotator::run(::onnx::GraphProto &graph) {
  for (::onnx::NodeProto &node : *graph.mutable_node())
    annotate(node);
}

static llvm::Error writeModel(const ::onnx::ModelProto &model,
                              llvm::StringRef target) {
  if (model.ByteSizeLong() > size_t(INT32_MAX))
    return frontend::makeError(
        "{0}: the annotated model needs {1} MiB, but a protobuf message holds "
        "at most 2047 MiB; export the model with external data",
        target, model.ByteSizeLong() >> 20);
  std::ofstream file(target.str(), std::ios::binary);
  if (!model.SerializeToOstream(&file) || !file.flush())
    return frontend::makeError("{0}: cannot be written", target);
  return llvm::Error::success();
}

llvm::Expected<OnnxAnnotation> writeAnnotatedOnnx(llvm::StringRef source,
                                                  llvm::StringRef target,
                                                  const ImportOptions &options,
                                                  func::FuncOp sharded,
                                                  const std::string &strategy) {
  auto file = frontend::ModelFile::open(source);
  if (!file)
    return file.takeError();
  llvm::StringMap<Value> values;
  auto imported = importOnnx(**file, *sharded.getContext(), options, &values);
  if (failed(imported))
    return frontend::makeError("{0}: cannot be imported again", source);
  frontend::PlanShardings plan(sharded,
                               *(**imported).getOps<func::FuncOp>().begin());
  ::onnx::ModelProto model = (*file)->model();
  OnnxAnnotation counts;
  counts.externalFiles = frontend::externalFiles(model.graph());
  Annotator(plan, values, counts).run(*model.mutable_graph());
  model.set_ir_version(std::max<int64_t>(model.ir_version(), kIrWithDevices));
  model.clear_configuration();
  auto *configuration = model.add_configuration();
  configuration->set_name(kConfiguration.str());
  configuration->set_num_devices(static_cast<int32_t>(plan.mesh().numRanks()));
  setMetadata(model, "dpc.strategy", strategy);
  setMetadata(model, "dpc.uneven_shards",
              "ceil(n/k) elements each, the last ones fewer or none");
  if (llvm::Error error = writeModel(model, target))
    return std::move(error);
  return counts;
}

} // namespace dpc
