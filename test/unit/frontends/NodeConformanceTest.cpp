//===- NodeConformanceTest.cpp - Node tests of the onnx wheel -------------===//
//
// The onnx package contains a model with inputs and outputs for each variant of
// each operator. The host interpreter must reproduce the outputs of every model
// that imports. Inputs that must be known at import time, such as shapes and
// axes, become initializers first.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "test/unit/frontends/ModelBuilder.h"

#include "frontends/onnx/ModelFile.h"

#include "llvm/ADT/StringSet.h"

#include <filesystem>
#include <fstream>

using namespace dpc;
using namespace dpc::test;
namespace fs = std::filesystem;
using ::onnx::TensorProto;

namespace {

/// The least number of the 1,765 models that must import and be correct. Raise
/// it when more operators are supported.
constexpr int kMustPass = 1380;

template <typename Message>
bool readMessage(const fs::path &path, Message &message) {
  std::ifstream file(path, std::ios::binary);
  return file && message.ParseFromIstream(&file);
}

/// Returns the first operand of `op` that must be known at import time.
int firstStaticOperand(llvm::StringRef op) {
  static const llvm::StringSet<> later = {"TopK",
                                          "CumSum",
                                          "Reshape",
                                          "Expand",
                                          "Slice",
                                          "Tile",
                                          "Pad",
                                          "Squeeze",
                                          "Unsqueeze",
                                          "Split",
                                          "Trilu",
                                          "OneHot",
                                          "Dropout",
                                          "ReduceSum",
                                          "ReduceMax",
                                          "ReduceMin",
                                          "ReduceProd",
                                          "ReduceMean",
                                          "ReduceL1",
                                          "ReduceL2",
                                          "ReduceSumSquare",
                                          "ReduceLogSum",
                                          "SequenceAt",
                                          "SplitToSequence",
                                          "ReduceLogSumExp"};
  if (op == "Range" || op == "ConstantOfShape")
    return 0;
  return later.contains(op) ? 1 : INT_MAX;
}

bool isStatic(const ::onnx::GraphProto &graph, const std::string &name) {
  for (const auto &node : graph.node())
    for (int i = firstStaticOperand(node.op_type()); i < node.input_size(); ++i)
      if (node.input(i) == name)
        return true;
  return false;
}

std::optional<HostArray> decode(const frontend::ModelFile &file,
                                const TensorProto &tensor,
                                mlir::MLIRContext *context) {
  auto value = file.decode(tensor, context);
  if (!value) {
    llvm::consumeError(value.takeError());
    return std::nullopt;
  }
  HostArray array(value->shape().vec());
  for (int64_t n = 0; n < array.size(); ++n)
    array[n] =
        value->isFloat() ? value->at(n).f : static_cast<double>(value->at(n).i);
  return array;
}

/// Compares results with a tolerance that depends on the element type, because
/// the interpreter computes in f64.
bool agrees(const HostArray &got, const HostArray &want, int32_t type) {
  double tolerance = type == TensorProto::BFLOAT16  ? 3e-2
                     : type == TensorProto::FLOAT16 ? 3e-3
                                                    : 1e-3;
  // Ties can round differently in f64.
  bool isQuantized = type == TensorProto::UINT8 || type == TensorProto::INT8;
  if (got.shape != want.shape)
    return false;
  for (int64_t n = 0; n < got.size(); ++n) {
    bool same =
        got[n] == want[n] ||
        (isQuantized && std::fabs(got[n] - want[n]) == 1) ||
        (std::isnan(got[n]) && std::isnan(want[n])) ||
        std::fabs(got[n] - want[n]) <= tolerance * (1e-2 + std::fabs(want[n]));
    if (!same)
      return false;
  }
  return true;
}

enum class Outcome { Passed, Refused, Wrong };

class NodeTest {
public:
  explicit NodeTest(const fs::path &folder) : folder(folder) {}

  Outcome run() {
    if (!readMessage(folder / "model.onnx", model))
      return Outcome::Refused;
    for (int i = 0; i < model.graph().input_size(); ++i) {
      TensorProto tensor;
      if (!readMessage(dataFile("input_", i), tensor))
        return Outcome::Refused;
      given[model.graph().input(i).name()] = tensor;
    }
    specialize();
    ModelBuilder builder;
    builder.model = model;
    std::string path = builder.write();
    Imported imported = importFile(path);
    auto file = frontend::ModelFile::open(path);
    Outcome outcome = Outcome::Refused;
    if (imported.module && file)
      outcome = compare(imported, **file);
    if (!file)
      llvm::consumeError(file.takeError());
    std::remove(path.c_str());
    return outcome;
  }

private:
  fs::path dataFile(const char *prefix, int i) const {
    return folder / "test_data_set_0" / (prefix + std::to_string(i) + ".pb");
  }

  void specialize() {
    auto *graph = model.mutable_graph();
    for (int i = graph->input_size() - 1; i >= 0; --i) {
      std::string name = graph->input(i).name();
      if (!isStatic(*graph, name))
        continue;
      TensorProto &tensor = *graph->add_initializer();
      tensor = given[name];
      tensor.set_name(name);
      graph->mutable_input()->DeleteSubrange(i, 1);
    }
  }

  Outcome compare(Imported &imported, const frontend::ModelFile &file) {
    mlir::func::FuncOp f = imported.function();
    mlir::MLIRContext *context = f.getContext();
    std::vector<HostArray> inputs;
    for (unsigned i = 0; i < f.getNumArguments(); ++i) {
      auto name = f.getArgAttrOfType<mlir::StringAttr>(i, attr::kName).str();
      auto value =
          given.count(name) ? decode(file, given[name], context) : std::nullopt;
      if (!value)
        return Outcome::Refused;
      inputs.push_back(std::move(*value));
    }
    std::vector<HostArray> outputs = runGlobal(f, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      TensorProto tensor;
      if (!readMessage(dataFile("output_", static_cast<int>(i)), tensor))
        return Outcome::Refused;
      auto want = decode(file, tensor, context);
      if (!want || !agrees(outputs[i], *want, tensor.data_type()))
        return Outcome::Wrong;
    }
    return Outcome::Passed;
  }

  fs::path folder;
  ::onnx::ModelProto model;
  std::map<std::string, TensorProto> given;
};

TEST(OnnxNodeConformance, EveryImportedModelGivesItsOutputs) {
  fs::path root = DPC_ONNX_NODE_TESTS;
  if (!fs::exists(root))
    GTEST_SKIP() << root << " does not exist";
  int passed = 0, refused = 0;
  std::vector<std::string> wrong;
  for (const auto &entry : fs::directory_iterator(root)) {
    switch (NodeTest(entry.path()).run()) {
    case Outcome::Passed:
      ++passed;
      break;
    case Outcome::Refused:
      ++refused;
      break;
    case Outcome::Wrong:
      wrong.push_back(entry.path().filename().string());
      break;
    }
  }
  llvm::sort(wrong);
  std::printf("node tests: %d passed, %d refused, %zu wrong\n", passed, refused,
              wrong.size());
  EXPECT_TRUE(wrong.empty()) << llvm::join(wrong, "\n");
  EXPECT_GE(passed, kMustPass);
}

} // namespace
