//===- RolesTest.cpp - Parameters, buffers, inputs and their sources ------===//
#include "frontends/onnx/ExternalFiles.h"
#include "frontends/onnx/ModelFile.h"
#include "ir/Dialect.h"
#include "test/unit/frontends/ModelBuilder.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace dpc;
using namespace dpc::test;

namespace {

/// Returns "parameter", "buffer" or "input"; "" if `name` is not an argument.
std::string roleOf(Imported &imported, llvm::StringRef name) {
  mlir::func::FuncOp f = imported.function();
  for (unsigned i = 0; i < f.getNumArguments(); ++i)
    if (f.getArgAttrOfType<mlir::StringAttr>(i, attr::kName) == name)
      return f.getArgAttrOfType<mlir::StringAttr>(i, attr::kRole).str();
  return "";
}

mlir::DictionaryAttr sourceOf(Imported &imported, unsigned argument) {
  return imported.function().getArgAttrOfType<mlir::DictionaryAttr>(
      argument, attr::kSource);
}

int64_t number(mlir::DictionaryAttr source, llvm::StringRef key) {
  return source.getAs<mlir::IntegerAttr>(key).getInt();
}

TEST(OnnxRoles, Defaults) {
  ModelBuilder m;
  m.input("x", "f32[batch,4]").input("t", "f32[batch,1]");
  m.floats("w", {4, 4}, {0.5f}).floats("unused", {4}, {1.0f});
  m.floats("freqs", {4}, {1.0f, 0.1f, 0.01f, 0.001f});
  m.floats("mask", {1, 4}, {0.0f, 0.0f, -1e9f, -1e9f});
  m.floats("bias", {4}, {0.0f, -0.5f, 0.0f, 1.0f});
  m.floats("eps", {}, {1e-5f});
  m.node("Mul t freqs -> angle").node("Cos angle -> c").node("Sin angle -> s");
  m.node("MatMul x w -> a").node("Add a mask -> b").node("Add b bias -> d");
  m.node("Add d eps -> e").node("Mul e c -> f").node("Mul f s -> y");
  ImportOptions options;
  options.globalBatch = 3;
  Imported imported = import(m.output("y"), options);
  ASSERT_EQ(imported.error, "");
  EXPECT_EQ(roleOf(imported, "w"), "parameter");
  EXPECT_EQ(roleOf(imported, "bias"), "parameter");
  EXPECT_EQ(roleOf(imported, "freqs"), "buffer");
  EXPECT_EQ(roleOf(imported, "mask"), "");
  EXPECT_EQ(roleOf(imported, "eps"), "");
  EXPECT_EQ(roleOf(imported, "unused"), "");
  EXPECT_EQ(roleOf(imported, "x"), "input");
  // Arguments are ordered: parameters, buffers, inputs.
  EXPECT_TRUE(inOrder(imported.text, {"\"w\"", "\"bias\"", "\"freqs\"",
                                      "dpc.batch_dim = 0", "\"x\"", "\"t\""}));
}

// YOLOv8 and PP-OCR store the scales of Resize as float initializers.
TEST(OnnxRoles, ShapesAndScalesAreNotTrained) {
  ModelBuilder m;
  m.input("x", "f32[1,2,3,4]").floats("w", {4, 4}, {0.5f});
  m.floats("scales", {4}, {1, 1, 0.5f, 2}).floats("factors", {4}, {1, 1, 4, 1});
  m.floats("sizes", {2}, {12, 8});
  m.node("MatMul x w -> a").node("Mul scales factors -> s");
  m.node("Resize a _ s -> b", {{"mode", "nearest"}});
  m.node("Cast sizes -> n", {{"to", int64_t(7)}}).node("Reshape b n -> y");
  Imported imported = import(m.output("y"));
  ASSERT_EQ(imported.error, "");
  EXPECT_EQ(roleOf(imported, "w"), "parameter");
  for (const char *name : {"scales", "factors", "sizes"})
    EXPECT_EQ(roleOf(imported, name), "") << name;
  // A factor of data as well is trained, so that the scales are not known.
  m.node("Mul a factors -> c").output("c");
  EXPECT_TRUE(inOrder(import(m).error, {"input 2 's' is computed from data"}));
}

TEST(OnnxRoles, NamedBuffersAreNotTrained) {
  for (const char *names : {"[\"distances\"]", "distances", ""}) {
    ModelBuilder m;
    m.input("x", "f32[2,4]").floats("w", {4, 4}, {0.5f});
    m.floats("distances", {4, 4}, {1.0f});
    auto *entry = m.model.add_metadata_props();
    entry->set_key("dpc.buffers");
    entry->set_value(names);
    m.node("MatMul x w -> a").node("MatMul a distances -> y");
    Imported imported = import(m.output("y"));
    ASSERT_EQ(imported.error, "");
    EXPECT_EQ(roleOf(imported, "w"), "parameter");
    EXPECT_EQ(roleOf(imported, "distances"),
              names[0] == '[' ? "buffer" : "parameter");
  }
}

TEST(OnnxRoles, MatrixBeforeSineIsTrained) {
  ModelBuilder m;
  m.input("x", "f32[2,4]").floats("w", {4, 4}, {0.5f});
  m.node("MatMul x w -> a").node("Sin a -> y").output("y");
  Imported imported = import(m);
  EXPECT_EQ(roleOf(imported, "w"), "parameter");
}

TEST(OnnxRoles, UserDecides) {
  ModelBuilder m;
  m.input("x", "f32[4]").floats("block.0.w", {4}, {1.0f});
  m.floats("block.1.w", {4}, {1.0f}).floats("temperature", {}, {2.0f});
  m.node("Mul x block.0.w -> a").node("Mul a block.1.w -> b");
  m.node("Mul b temperature -> y").output("y");
  ImportOptions options;
  options.frozen = {"block.*"};
  options.trainable = {"block.1.w", "temperature"};
  Imported imported = import(m, options);
  EXPECT_EQ(roleOf(imported, "block.0.w"), "buffer");
  EXPECT_EQ(roleOf(imported, "block.1.w"), "parameter");
  EXPECT_EQ(roleOf(imported, "temperature"), "parameter");
}

// A file does not say which initializers are buffers, so freezing one is
// accepted.
TEST(OnnxRoles, FreezingABufferIsSaid) {
  ModelBuilder m;
  m.input("x", "f32[4]").floats("w", {4}, {1.0f}).floats("t", {4}, {1.0f});
  m.node("Cos t -> c").node("Mul x w -> a").node("Mul a c -> y").output("y");
  ImportOptions options;
  options.frozen = {"w"};
  EXPECT_TRUE(import(m, options).remarks.empty());
  options.frozen = {"*", "t"};
  Imported imported = import(m, options);
  ASSERT_EQ(imported.remarks.size(), 1u);
  EXPECT_EQ(imported.remarks[0], "--frozen=t changes nothing: the initializers "
                                 "are not trained anyway");
  EXPECT_TRUE(inOrder(imported.text, {"dpc.frozen", "\"w\""}));
}

// A gate with a module path is trained; literals are constants.
TEST(OnnxRoles, Scalars) {
  ModelBuilder m;
  m.input("x", "f32[4]").floats("blocks.0.gate", {}, {1.0f});
  const char *literals[] = {"val_3", "scale", "const_0.5", "onnx::Mul_7",
                            "m.lifted_tensor_0"};
  m.node("Mul x blocks.0.gate -> y0");
  for (int i = 0; i < 5; ++i) {
    m.floats(literals[i], {}, {0.5f});
    m.node("Mul y" + std::to_string(i) + " " + literals[i] + " -> y" +
           std::to_string(i + 1));
  }
  Imported imported = import(m.output("y5"));
  ASSERT_EQ(imported.error, "");
  EXPECT_EQ(roleOf(imported, "blocks.0.gate"), "parameter");
  for (const char *literal : literals)
    EXPECT_EQ(roleOf(imported, literal), "") << literal;
  EXPECT_TRUE(inOrder(imported.text,
                      {"dpc.constants = [\"val_3\", \"scale\", \"const_0.5\", "
                       "\"onnx::Mul_7\", \"m.lifted_tensor_0\"]"}));
  // Only the name `scale` could be a member of the outermost module.
  ASSERT_EQ(imported.remarks.size(), 1u);
  EXPECT_NE(imported.remarks[0].find("--trainable=scale"), std::string::npos)
      << imported.remarks[0];
}

TEST(OnnxRoles, UnreadWeightsAreNamed) {
  ModelBuilder m;
  m.input("x", "f32[4]").floats("l1.scale", {4}, {1, 2, 3, 4});
  m.floats("l2.scale", {4}, {1, 2, 3, 4}).floats("val_3", {}, {2});
  m.node("Mul x l1.scale -> y0").node("Mul y0 val_3 -> y1");
  Imported imported = import(m.output("y1"));
  ASSERT_EQ(imported.error, "");
  EXPECT_TRUE(inOrder(imported.text,
                      {"dpc.unread_weights = [\"l2.scale\", \"val_3\"]"}));
}

TEST(OnnxRoles, BoundsOfAClipAreNoMembers) {
  ModelBuilder m;
  m.input("x", "f32[4]").floats("high", {}, {1.0f}).floats("low", {}, {0.0f});
  Imported imported = import(m.node("Clip x low high -> y").output("y"));
  ASSERT_EQ(imported.error, "");
  EXPECT_TRUE(imported.remarks.empty());
}

TEST(OnnxRoles, IntegersAreNotTrained) {
  ModelBuilder m;
  m.input("x", "i64[3]").ints("offset", {1, 2, 3});
  Imported imported = import(m.node("Add x offset -> y").output("y"));
  EXPECT_EQ(roleOf(imported, "offset"), "");
  EXPECT_TRUE(
      inOrder(imported.text, {"dpc.constant dense<[1, 2, 3]>", "dpc.binary"}));
}

TEST(OnnxRoles, SourcePointsAtTheBytes) {
  ModelBuilder m;
  m.input("x", "f32[3]").floats("first", {3}, {1.0f, 2.0f, 3.0f});
  // The data of the second initializer is in float_data, not in raw_data.
  auto *second = m.model.mutable_graph()->add_initializer();
  second->set_name("second");
  second->set_data_type(::onnx::TensorProto::FLOAT);
  second->add_dims(3);
  for (float f : {4.0f, 5.0f, 6.0f})
    second->add_float_data(f);
  m.node("Mul x first -> a").node("Mul a second -> y").output("y");
  std::string path = m.write();
  Imported imported = importFile(path);
  ASSERT_EQ(imported.error, "");
  std::ifstream file(path, std::ios::binary);
  for (unsigned i : {0u, 1u}) {
    auto source = sourceOf(imported, i);
    ASSERT_TRUE(source);
    EXPECT_EQ(source.getAs<mlir::StringAttr>("file"), path);
    EXPECT_EQ(source.getAs<mlir::StringAttr>("dtype"), "f32");
    EXPECT_EQ(number(source, "bytes"), 12);
    float values[3];
    file.seekg(number(source, "offset"));
    file.read(reinterpret_cast<char *>(values), 12);
    for (unsigned j = 0; j < 3; ++j)
      EXPECT_EQ(values[j], static_cast<float>(3 * i + j + 1));
  }
  std::remove(path.c_str());
}

TEST(OnnxRoles, AbsentExternalDataIsAbstract) {
  ModelBuilder m;
  m.input("x", "f32[3]").external("w", {3}, "nowhere.bin", 4096);
  Imported imported = import(m.node("Mul x w -> y").output("y"));
  EXPECT_EQ(roleOf(imported, "w"), "parameter");
  EXPECT_FALSE(sourceOf(imported, 0));
}

TEST(OnnxRoles, ExternalData) {
  std::string data = testing::TempDir() + "dpc-frontends-weights.bin";
  std::ofstream(data, std::ios::binary) << std::string(64, '\0');
  ModelBuilder m;
  m.input("x", "f32[3]").external("w", {3}, "dpc-frontends-weights.bin", 16);
  Imported imported = import(m.node("Mul x w -> y").output("y"));
  ASSERT_EQ(imported.error, "");
  ASSERT_TRUE(sourceOf(imported, 0));
  EXPECT_EQ(number(sourceOf(imported, 0), "offset"), 16);
  ModelBuilder beyond;
  beyond.input("x", "f32[3]")
      .external("w", {3}, "dpc-frontends-weights.bin", 60);
  EXPECT_TRUE(inOrder(import(beyond.node("Mul x w -> y").output("y")).error,
                      {"holds 64 bytes", "'w' ends at byte 72"}));
  std::remove(data.c_str());
}

TEST(OnnxRoles, ExternalDataOfTwoModels) {
  namespace fs = std::filesystem;
  const fs::path folder = testing::TempDir() + "dpc-frontends-external";
  fs::create_directories(folder);
  auto write = [&](const char *name, const std::string &bytes, int second) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    fs::last_write_time(folder / name,
                        fs::file_time_type() + std::chrono::seconds(second));
  };
  ModelBuilder builder, other;
  builder.input("x", "f32[3]").external("w", {3}, "w.bin", 16);
  const std::string model =
      builder.node("Mul x w -> y").output("y").model.SerializeAsString();
  other.input("x", "f32[3]").external("w", {3}, "v.bin", 16);
  write("a.onnx", model, 2);
  auto lines = [&] {
    auto file = frontend::ModelFile::open((folder / "a.onnx").string());
    return frontend::overwrittenFiles((*file)->model().graph(),
                                      (folder / "a.onnx").string());
  };
  write("w.bin", std::string(64, '\0'), 1);
  write("b.onnx", model, 4); // a copy
  EXPECT_TRUE(lines().empty());
  write("w.bin", std::string(64, '\0'), 3);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_TRUE(inOrder(lines().front(), {"'w.bin'", "'a.onnx'", "'b.onnx'",
                                        "did its export overwrite them?"}));
  write("b.onnx",
        other.node("Mul x w -> y").output("y").model.SerializeAsString(), 4);
  EXPECT_TRUE(lines().empty());
  fs::remove_all(folder);
}

TEST(OnnxRoles, BatchDimension) {
  ModelBuilder m;
  m.input("step", "f32[]").input("x", "f32[n,s]").input("y", "f32[s,n]");
  m.input("z", "f32[?]");
  m.node("Identity step -> loss").node("Identity x -> a");
  m.node("Identity y -> b").node("Identity z -> c");
  m.output("a").output("loss").output("b").output("c");
  ImportOptions options;
  options.globalBatch = 6;
  options.bind = {{"s", 5}, {"z.0", 7}};
  Imported imported = import(m, options);
  ASSERT_EQ(imported.error, "");
  EXPECT_TRUE(
      inOrder(imported.text, {"tensor<6x5xf32> {dpc.batch_dim = 0 : i64",
                              "tensor<5x6xf32> {dpc.batch_dim = 1 : i64",
                              "tensor<7xf32> {dpc.name = \"z\"", "->",
                              "tensor<6x5xf32> {dpc.name = \"a\"}",
                              "tensor<f32> {dpc.loss, dpc.name = \"loss\"}"}));
}

/// Returns the name of the output that is trained, "" if there is none, or the
/// error of the import. Outputs called "wide" are no scalars.
std::string lossOf(const std::vector<std::string> &outputs,
                   const std::string &option = "") {
  ModelBuilder m;
  m.input("x", "f32[]").input("y", "f32[8]");
  for (const std::string &output : outputs) {
    m.node((output.starts_with("wide") ? "Exp y -> " : "Exp x -> ") + output);
    m.output(output);
  }
  ImportOptions options;
  options.lossOutput = option;
  Imported imported = import(m, options);
  if (!imported.error.empty())
    return imported.error;
  mlir::func::FuncOp f = imported.function();
  std::string found;
  for (unsigned i = 0; i < f.getNumResults(); ++i)
    if (f.getResultAttr(i, "dpc.loss"))
      found += f.getResultAttrOfType<mlir::StringAttr>(i, "dpc.name").str();
  return found;
}

TEST(OnnxRoles, TheOutputCalledLossIsTrained) {
  EXPECT_EQ(lossOf({"ce", "loss"}), "loss");
  EXPECT_EQ(lossOf({"loss", "ce"}), "loss");
  EXPECT_EQ(lossOf({"wide", "ce"}), "ce");
  EXPECT_EQ(lossOf({"ce", "aux"}), "");
  EXPECT_EQ(lossOf({"wide"}), "");
}

TEST(OnnxRoles, AnOptionChoosesTheTrainedOutput) {
  EXPECT_EQ(lossOf({"loss", "ce"}, "ce"), "ce");
  EXPECT_EQ(lossOf({"ce", "aux"}, "aux"), "aux");
  std::string error = lossOf({"ce", "wide"}, "aux");
  EXPECT_TRUE(inOrder(
      error, {"--loss-output=aux: no output has this name", "'ce', 'wide'"}))
      << error;
  error = lossOf({"ce", "wide"}, "wide");
  EXPECT_TRUE(inOrder(error, {"--loss-output=wide: the output is [8] f32",
                              "accepted: a float scalar"}))
      << error;
}

} // namespace
