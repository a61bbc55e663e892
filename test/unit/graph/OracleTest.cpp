//===- OracleTest.cpp - Whole models against PyTorch's training curve -----===//
//
// The test imports an ONNX file, simplifies, fuses, differentiates and expands
// it. The interpreter of the tests computes the first steps in f64. The losses
// and gradient norms must match those recorded from PyTorch.
//
//===----------------------------------------------------------------------===//
#include "frontends/onnx/Import.h"
#include "passes/graph/GraphBuilder.h"
#include "test/unit/graph/GraphTest.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

namespace {

constexpr int kSteps = 3;

std::vector<char> readBytes(const std::string &file, int64_t offset,
                            int64_t count) {
  std::vector<char> bytes(count);
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(offset).read(bytes.data(), count);
  EXPECT_EQ(stream.gcount(), count) << file;
  return bytes;
}

/// Reads an array of `type` from `file`, where elements are of type T.
template <typename T>
HostArray readArray(const std::string &file, int64_t offset,
                    RankedTensorType type) {
  HostArray array(type.getShape().vec());
  auto bytes = readBytes(file, offset, array.size() * sizeof(T));
  for (int64_t i = 0; i < array.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    array[i] = value;
  }
  return array;
}

HostArray readWeights(RankedTensorType type, DictionaryAttr source) {
  return readArray<float>(cast<StringAttr>(source.get("file")).str(),
                          cast<IntegerAttr>(source.get("offset")).getInt(),
                          type);
}

/// Reads batch `step` of an .npy file (little endian, version 1) with i64
/// batches [steps, ...].
HostArray readBatch(const std::string &file, RankedTensorType type, int step) {
  auto header = readBytes(file, 0, 10);
  int64_t length = static_cast<unsigned char>(header[8]) +
                   256 * static_cast<unsigned char>(header[9]);
  int64_t size = type.getNumElements() * sizeof(int64_t);
  return readArray<int64_t>(file, 10 + length + step * size, type);
}

class Oracle : public testing::TestWithParam<const char *> {
protected:
  std::string folder() const {
    return std::string("test/fixtures/models/") + GetParam();
  }

  OwningOpRef<ModuleOp> trainStep(const nlohmann::json &optimizer) {
    ImportOptions options;
    options.globalBatch = 8;
    auto module = importOnnx(folder() + "/model.onnx", context(), options);
    EXPECT_TRUE(succeeded(module));
    if (failed(module))
      return nullptr;
    auto number = [&](const char *key) {
      return std::to_string(optimizer.value(key, 0.0));
    };
    EXPECT_TRUE(runPasses(
        **module,
        "func.func(dpc-simplify,dpc-fuse,dpc-simplify),dpc-differentiate{"
        "optimizer=adamw eps=1e-8 beta1=" +
            number("beta1") + " beta2=" + number("beta2") +
            " weight-decay=" + number("weight_decay") +
            " clip-grad-norm=" + number("clip_grad_norm") +
            "},func.func(dpc-expand-cross-entropy,dpc-simplify)"));
    return std::move(*module);
  }
};

HostArray initialValue(func::FuncOp func, unsigned i) {
  auto type = cast<RankedTensorType>(func.getArgument(i).getType());
  if (auto source = func.getArgAttrOfType<DictionaryAttr>(i, attr::kSource))
    return readWeights(type, source);
  return HostArray(type.getShape().vec());
}

TEST_P(Oracle, FirstStepsFollowPyTorch) {
  auto oracle = nlohmann::json::parse(std::ifstream(folder() + "/oracle.json"));
  auto module = trainStep(oracle["optimizer"]);
  ASSERT_TRUE(module);
  // Attention is fused, so only the gates of the two expert layers are softmax
  // ops.
  int gates = StringRef(GetParam()).starts_with("moe") ? 2 : 0;
  EXPECT_EQ(countOps(*module, "dpc.softmax"), gates);
  auto func = module->lookupSymbol<func::FuncOp>("train_step");
  std::vector<HostArray> values;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    values.push_back(initialValue(func, i));
  unsigned lr = func.getNumArguments() - 2;
  values[lr][0] = oracle["optimizer"]["lr"];
  for (int step = 0; step < kSteps; ++step) {
    values[lr + 1][0] = step + 1;
    for (unsigned i = 0; i < lr; ++i)
      if (func.getArgAttrOfType<StringAttr>(i, attr::kRole).getValue() ==
          role::kInput)
        values[i] = readBatch(
            folder() + "/batches/" +
                func.getArgAttrOfType<StringAttr>(i, attr::kName).str() +
                ".npy",
            cast<RankedTensorType>(func.getArgument(i).getType()), step);
    auto results = runGlobal(func, values);
    double loss = results[results.size() - 2][0];
    double gradNorm = results.back()[0];
    EXPECT_NEAR(loss, oracle["losses"][step].get<double>(), 2e-5) << step;
    EXPECT_NEAR(gradNorm, oracle["grad_norms"][step].get<double>(), 2e-4)
        << step;
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      if (auto tie = func.getResultAttrOfType<IntegerAttr>(i, attr::kTies))
        values[tie.getInt()] = results[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Oracle,
                         testing::Values("gpt2-tiny", "llama-tiny", "bert-tiny",
                                         "moe-tiny", "moe-capacity"),
                         [](const testing::TestParamInfo<const char *> &info) {
                           std::string name = info.param;
                           llvm::erase(name, '-');
                           return name;
                         });

} // namespace
