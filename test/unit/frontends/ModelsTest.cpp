//===- ModelsTest.cpp - Whole models against reference results ------------===//
#include "ir/Dialect.h"
#include "test/unit/frontends/ModelBuilder.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::test;

namespace {

std::string folderOf(const std::string &model) {
  return "test/fixtures/models/" + model;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T> std::vector<double> decode(const char *data, size_t n) {
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

/// Returns the first batch of a .npy file, which has `count` elements.
std::vector<double> firstBatch(const std::string &path, size_t count) {
  std::string bytes = readFile(path);
  uint16_t header;
  std::memcpy(&header, bytes.data() + 8, 2);
  const char *data = bytes.data() + 10 + header;
  return bytes.find("'<i8'") < header ? decode<int64_t>(data, count)
                                      : decode<float>(data, count);
}

/// Reads argument `i` from its weight file or from the first batch of an input.
HostArray argument(mlir::func::FuncOp f, unsigned i, const std::string &dir) {
  auto type = mlir::cast<mlir::RankedTensorType>(f.getArgumentTypes()[i]);
  HostArray result(type.getShape().vec());
  auto source = f.getArgAttrOfType<mlir::DictionaryAttr>(i, attr::kSource);
  if (!source) {
    auto name = f.getArgAttrOfType<mlir::StringAttr>(i, attr::kName).str();
    result.data =
        firstBatch(dir + "/batches/" + name + ".npy", result.data.size());
    return result;
  }
  std::string bytes = readFile(source.getAs<mlir::StringAttr>("file").str());
  int64_t offset = source.getAs<mlir::IntegerAttr>("offset").getInt();
  result.data = decode<float>(bytes.data() + offset, result.data.size());
  return result;
}

std::set<std::string> namesOf(mlir::func::FuncOp f, llvm::StringRef role) {
  std::set<std::string> names;
  for (unsigned i = 0; i < f.getNumArguments(); ++i)
    if (f.getArgAttrOfType<mlir::StringAttr>(i, attr::kRole) == role)
      names.insert(f.getArgAttrOfType<mlir::StringAttr>(i, attr::kName).str());
  return names;
}

class OnnxModels : public testing::TestWithParam<const char *> {};

/// The imported model has PyTorch's loss on the first batch, and the same
/// trained parameters.
TEST_P(OnnxModels, FirstLossIsTheOracles) {
  std::string dir = folderOf(GetParam());
  auto oracle = nlohmann::json::parse(readFile(dir + "/oracle.json"));
  ImportOptions options;
  options.globalBatch = 8;
  options.frozen = oracle["frozen"].get<std::vector<std::string>>();
  Imported imported = importFile(dir + "/model.onnx", options);
  ASSERT_EQ(imported.error, "");
  mlir::func::FuncOp f = imported.function();

  std::set<std::string> trained;
  for (const auto &entry : oracle["param_norms"].items())
    trained.insert(entry.key());
  EXPECT_EQ(namesOf(f, role::kParameter), trained);
  auto inputs = oracle["inputs"].get<std::set<std::string>>();
  EXPECT_EQ(namesOf(f, role::kInput), inputs);

  std::vector<HostArray> arguments;
  for (unsigned i = 0; i < f.getNumArguments(); ++i)
    arguments.push_back(argument(f, i, dir));
  double loss = runGlobal(f, arguments)[0][0];
  double want = oracle["losses"][0].get<double>();
  EXPECT_NEAR(loss, want, 5e-6 * want);
  EXPECT_TRUE(f.getResultAttr(0, "dpc.loss"));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, OnnxModels,
                         testing::Values("mlp", "gpt2-tiny", "llama-tiny",
                                         "bert-tiny", "moe-tiny",
                                         "moe-capacity"),
                         [](const auto &info) {
                           std::string name = info.param;
                           llvm::erase(name, '-');
                           return name;
                         });

} // namespace
