//===- ModelBuilderTest.cpp - Models of dims match published ones ---------===//
#include "frontends/dims/ModelBuilder.h"

#include "frontends/dims/StatedDims.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace dpc::model;

namespace {

struct Published {
  const char *name;
  ModelDims dims;
  double parameters;
  double tolerance = 0; ///< relative; for rounded published numbers
};

ModelDims dims(Family family, int64_t layers, int64_t hidden, int64_t heads,
               int64_t ffn = 0) {
  ModelDims d = ModelDims::defaults(family);
  d.layers = layers;
  d.hidden = hidden;
  d.heads = heads;
  d.ffn = ffn;
  d.complete();
  return d;
}

ModelDims gpt3() {
  ModelDims d = dims(Family::gpt, 96, 12288, 96);
  d.seq = 2048;
  return d;
}

/// Returns the numbers of weights in Hugging Face and torchvision. For GPT-3
/// (174.6e9) and DiT (675e6), the numbers are from the papers; DiT's positions
/// are not trained.
std::vector<Published> publishedModels() {
  return {
      {"GPT-2", dims(Family::gpt, 12, 768, 12), 124439808},
      {"GPT-3 175B", gpt3(), 174.6e9, 1e-3},
      {"BLOOM-176B", dims(Family::bloom, 70, 14336, 112), 176247271424},
      {"MPT-7B", dims(Family::mpt, 32, 4096, 32), 6649286656},
      {"Llama-3 8B", dims(Family::llama, 32, 4096, 32, 14336), 8030261248},
      {"Llama-3 70B", dims(Family::llama, 80, 8192, 64, 28672), 70553706496},
      {"Llama-3 405B", dims(Family::llama, 126, 16384, 128, 53248),
       405853388800},
      {"Mixtral 8x7B", dims(Family::moe, 32, 4096, 32, 14336), 46702792704},
      {"BERT-large", dims(Family::bert, 24, 1024, 16), 335174458},
      {"ViT-L/16", dims(Family::vit, 24, 1024, 16), 304326632},
      {"DiT-XL/2", dims(Family::dit, 28, 1152, 16), 675e6 - 256 * 1152, 1e-3}};
}

std::string refusalOf(ModelDims d) {
  d.complete();
  return d.refusal();
}

} // namespace

TEST(ModelBuilderTest, ParametersArePublishedOnes) {
  for (const Published &model : publishedModels()) {
    SCOPED_TRACE(model.name);
    EXPECT_EQ(model.dims.refusal(), "");
    double counted = buildModel(model.dims).parameters;
    EXPECT_NEAR(counted, model.parameters, model.tolerance * model.parameters);
  }
}

TEST(ModelBuilderTest, WeightsAreDescribedAndAbsent) {
  Model model = buildModel(dims(Family::llama, 2, 64, 4, 128));
  double elements = 0;
  for (const auto &tensor : model.proto.graph().initializer()) {
    if (tensor.data_location() != ::onnx::TensorProto::EXTERNAL)
      continue;
    double size = 1;
    for (int64_t dim : tensor.dims())
      size *= static_cast<double>(dim);
    elements += size;
  }
  EXPECT_EQ(elements, model.parameters);
  EXPECT_LT(model.proto.ByteSizeLong(), 20000U);
}

TEST(ModelBuilderTest, GraphsAreLinearInLayers) {
  for (Family family : allFamilies()) {
    SCOPED_TRACE(stringifyFamily(family));
    auto nodes = [&](int64_t layers) {
      ModelDims d = ModelDims::defaults(family);
      d.layers = layers;
      d.complete();
      return buildModel(d).proto.graph().node_size();
    };
    EXPECT_EQ(nodes(40) - nodes(20), 10 * (nodes(4) - nodes(2)));
  }
}

TEST(ModelBuilderTest, FamiliesAreKnownByName) {
  for (Family family : allFamilies())
    EXPECT_EQ(symbolizeFamily(stringifyFamily(family)), family);
  EXPECT_FALSE(symbolizeFamily("gpt5").has_value());
}

TEST(ModelBuilderTest, DefaultsFit) {
  for (Family family : allFamilies())
    EXPECT_EQ(refusalOf(ModelDims::defaults(family)), "")
        << stringifyFamily(family);
}

TEST(ModelBuilderTest, FilesStateTheirDims) {
  std::string path = testing::TempDir() + "stated-dims.onnx";
  for (Family family : allFamilies()) {
    SCOPED_TRACE(stringifyFamily(family));
    ModelDims d = ModelDims::defaults(family);
    d.layers = 3;
    d.capacity = 1.3;
    d.complete();
    EXPECT_EQ(stringifyDims(parseDims(stringifyDims(d)).value()),
              stringifyDims(d));
    ASSERT_TRUE(writeModelFile(d, path));
    std::optional<ModelDims> stated = dimsOfFile(path);
    ASSERT_TRUE(stated.has_value());
    EXPECT_EQ(stringifyDims(*stated), stringifyDims(d));
  }
  // After a change, the model no longer matches its stated dims.
  Model model = buildModel(dims(Family::gpt, 2, 64, 4));
  model.proto.mutable_graph()->mutable_node(0)->set_name("another");
  std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
  EXPECT_FALSE(dimsOfFile(path).has_value());
  std::ofstream(path, std::ios::binary) << "no model";
  EXPECT_FALSE(dimsOfFile(path).has_value());
  std::filesystem::remove(path);
  for (const char *text : {"", "gpt5", "gpt,layers", "gpt,layers=two",
                           "gpt,layers=2", "gpt,depth=2"})
    EXPECT_FALSE(parseDims(text).has_value()) << text;
}

TEST(ModelBuilderTest, BadDimsAreRefused) {
  auto refused = [](Family family, int64_t ModelDims::*field, int64_t value) {
    ModelDims d = ModelDims::defaults(family);
    d.*field = value;
    return refusalOf(d);
  };
  EXPECT_EQ(refused(Family::gpt, &ModelDims::heads, 7),
            "--heads=7: must divide --hidden=768, unless --head-dim is given");
  EXPECT_EQ(refused(Family::llama, &ModelDims::kvHeads, 3),
            "--kv-heads=3: must divide --heads=32");
  EXPECT_EQ(refused(Family::llama, &ModelDims::headDim, 3),
            "--head-dim=3: must be even, because RoPE rotates pairs");
  EXPECT_EQ(refused(Family::gpt, &ModelDims::layers, 0),
            "--layers=0: expected 1 to 16384");
  EXPECT_EQ(refused(Family::bert, &ModelDims::vocab, -1),
            "--vocab=-1: expected 1 to 16777216");
  EXPECT_EQ(refused(Family::gpt, &ModelDims::hidden, INT64_MAX),
            "--hidden=9223372036854775807: expected 1 to 1048576");
  EXPECT_EQ(refused(Family::vit, &ModelDims::patch, 17),
            "--patch=17: must divide --image=224");
  EXPECT_EQ(refused(Family::moe, &ModelDims::topk, 9),
            "--topk=9: there are 8 experts to choose from");
  EXPECT_EQ(refused(Family::moe, &ModelDims::group, 100),
            "--group=100: must divide --seq=8192, since a group lies in one "
            "sample");
}
