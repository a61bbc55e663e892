//===- DataTest.cpp - input files, output files, initial values -----------===//
#include "runtime/io/InitialValues.h"
#include "runtime/io/InputSource.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"
#include "runtime/io/SourceFiles.h"
#include "test/unit/runtime/ScratchFolder.h"
#include "test/unit/runtime/TestPlans.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

namespace dpc::rt {
namespace {

using test::leastSquares;
using test::ramp;

class Data : public test::ScratchFolder {
protected:
  std::string read(const std::string &name) const {
    std::ifstream in(dir / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(Data, NpyRoundTripsEveryType) {
  for (DType type : {DType::F32, DType::F64, DType::F16, DType::I64, DType::I32,
                     DType::I16, DType::I8, DType::U8, DType::Bool, DType::U16,
                     DType::U32, DType::U64}) {
    HostTensor tensor = HostTensor::zeros(type, {2, 3});
    for (int i = 0; i < 6; ++i)
      tensor.set(i, i % 2);
    ASSERT_TRUE(writeNpy(at("a.npy"), tensor).ok());
    Expected<NpyArray> back = openNpy(at("a.npy"));
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back->dtype, type);
    EXPECT_EQ(back->shape, tensor.shape);
    EXPECT_EQ(std::memcmp(back->data, tensor.data.data(), tensor.data.size()),
              0);
  }
  ASSERT_TRUE(writeNpy(at("s.npy"), HostTensor::zeros(DType::F32, {})).ok());
  EXPECT_TRUE(openNpy(at("s.npy"))->shape.empty());
}

constexpr DType kNarrow[] = {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2,
                             DType::F8E5M2FNUZ, DType::F4E2M1};

TEST_F(Data, NarrowFloatsKeepTheirCodes) {
  for (DType type : kNarrow) {
    NarrowFloat format = *narrowFloatOf(type);
    for (int code = 0; code < 2 * format.signBit; ++code) {
      float value = narrowToFloat(static_cast<uint8_t>(code), format);
      if (!std::isnan(value)) {
        EXPECT_EQ(floatToNarrow(value, format), code) << nameOf(type);
      }
    }
  }
}

TEST_F(Data, NarrowFloatsRoundToEven) {
  struct Example {
    DType type;
    float value;
    int code;
  };
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (auto [type, value, code] : std::initializer_list<Example>{
           {DType::F8E4M3FN, 1, 0x38},
           {DType::F8E4M3FN, 1.0625, 0x38}, // between 1 and 1.125: to even
           {DType::F8E4M3FN, 1.1875, 0x3a},
           {DType::F8E4M3FN, -448, 0xfe},
           {DType::F8E4M3FN, 500, 0x7f},
           {DType::F8E4M3FN, 0x1p-10f, 0}, // half of the smallest number
           {DType::F8E4M3FNUZ, -0.0f, 0},
           {DType::F8E4M3FNUZ, 240, 0x7f},
           {DType::F8E4M3FNUZ, -inf, 0x80},
           {DType::F8E5M2, 57344, 0x7b},
           {DType::F8E5M2, 1e6f, 0x7c},
           {DType::F8E5M2, -inf, 0xfc},
           {DType::F8E5M2FNUZ, 0x1p-17f, 1},
           {DType::F4E2M1, -2.5f, 0xc},
           {DType::F4E2M1, 100, 7}})
    EXPECT_EQ(floatToNarrow(value, *narrowFloatOf(type)), code)
        << nameOf(type) << " " << value;
}

TEST_F(Data, NpyRefusesBadFiles) {
  ASSERT_TRUE(writeNpy(at("a.npy"), ramp({2, 3})).ok());
  std::string good = read("a.npy");
  auto errorOf = [&](std::string bytes) {
    write("b.npy", bytes);
    return openNpy(at("b.npy")).status().message();
  };
  EXPECT_HAS(errorOf(good.substr(0, good.size() - 1)), "data is cut off");
  EXPECT_HAS(errorOf(good + good),
             std::to_string(good.size()) +
                 " bytes follow the array f32[2, 3], expected one array");
  EXPECT_HAS(errorOf(good.substr(0, 40)), "header is cut off");
  EXPECT_HAS(errorOf("hello"), "not a .npy");
  std::string text = good;
  text.replace(text.find("<f4"), 3, ">f4");
  EXPECT_HAS(errorOf(text), ">f4");
  text = good;
  text.replace(text.find("False"), 5, "True ");
  EXPECT_HAS(errorOf(text), "Fortran");
  EXPECT_HAS(openNpy(at("none.npy")).status().message(), "No such file");
}

TEST_F(Data, SafetensorsRoundTrip) {
  SafetensorsWriter writer;
  ASSERT_TRUE(writer
                  .start(at("p.safetensors"),
                         {{"a.b", DType::F32, {2, 3}}, {"c", DType::F32, {}}})
                  .ok());
  ASSERT_TRUE(writer.append(ramp({2, 3})).ok());
  ASSERT_TRUE(writer.append(ramp({}, 1, -9)).ok());
  ASSERT_TRUE(writer.finish().ok());
  Expected<SafetensorsFile> file = openSafetensors(at("p.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->entries.size(), 2u);
  const SafetensorsEntry &c = file->entries["c"];
  EXPECT_EQ(loadAsDouble(file->file.data() + c.offset, DType::F32, 0), 9);
  EXPECT_EQ(c.offset % 4, 0);
  EXPECT_EQ(file->entries["a.b"].shape, (std::vector<int64_t>{2, 3}));
}

TEST_F(Data, SafetensorsTrustNothing) {
  auto errorOf = [&](const std::string &header, const std::string &data) {
    uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    write("q.safetensors", bytes + header + data);
    Expected<SafetensorsFile> file = openSafetensors(at("q.safetensors"));
    return file ? std::string("accepted") : file.status().message();
  };
  std::string ok = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(errorOf(ok, "1234"), "accepted");
  EXPECT_HAS(errorOf(ok, "123"),
             concat("is truncated: it has ", 8 + ok.size() + 3,
                    " bytes, its header needs ", 8 + ok.size() + 4));
  EXPECT_HAS(
      errorOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,9]}})",
              "1234"),
      "outside");
  write("q.safetensors", std::string("\x20\0\0\0\0\0\0\0{", 9));
  EXPECT_HAS(openSafetensors(at("q.safetensors")).status().message(),
             "is truncated: it has 9 bytes, its header alone needs 40");
  EXPECT_HAS(errorOf("{", ""), "not JSON");
  EXPECT_HAS(
      errorOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
              "1234"),
      "has 8");
  EXPECT_HAS(errorOf(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}})",
                     "1234"),
             "F4");
  EXPECT_HAS(
      errorOf(
          R"({"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,4]}})",
          "1234"),
      "not a size");
  write("r.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_FALSE(openSafetensors(at("r.safetensors")).ok());
}

TEST_F(Data, RandomValuesDoNotDependOnTheLayout) {
  Tensor tensor;
  tensor.name = "w";
  tensor.globalShape = {6, 5};
  tensor.init = InitKind::Random;
  InitialValues values({}, ".", *InitChoice::parse("random:3"));
  Mesh one, three{{{"tp", 3}}, 1};
  tensor.layout = Layout::replicated({6, 5});
  std::vector<float> whole(30), parts(30), shard(10);
  ASSERT_TRUE(values.fill(tensor, one, 0, whole.data()).ok());
  tensor.layout = {{{{6, {}}}, {{5, {"tp"}}}}};
  std::vector<float> local(12);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(values.fill(tensor, three, rank, local.data()).ok());
    unpackShard(local.data(), parts.data(), 4, tensor.layout, three, rank, 0);
  }
  EXPECT_EQ(parts, whole);
  EXPECT_NE(whole[0], whole[1]);
  tensor.name = "v";
  tensor.layout = Layout::replicated({6, 5});
  ASSERT_TRUE(values.fill(tensor, one, 0, parts.data()).ok());
  EXPECT_NE(parts, whole);
}

TEST_F(Data, RandomValuesKeepTheScalesOfNorms) {
  Tensor tensor;
  tensor.name = "g";
  tensor.globalShape = {3};
  tensor.layout = Layout::replicated({3});
  tensor.init = InitKind::Value;
  tensor.value = 1;
  std::vector<float> got(3, 9);
  for (auto [choice, expected] :
       {std::pair("random:3", 1), std::pair("zeros", 0)}) {
    InitialValues values({}, ".", *InitChoice::parse(choice));
    ASSERT_TRUE(values.fill(tensor, Mesh{}, 0, got.data()).ok());
    EXPECT_EQ(got, std::vector<float>(3, static_cast<float>(expected)));
  }
}

TEST_F(Data, SourcesAreConvertedAndChecked) {
  HostTensor half = HostTensor::zeros(DType::F16, {3});
  for (int i = 0; i < 3; ++i)
    half.set(i, i + 0.5);
  write("w.bin",
        "pad!" + std::string(reinterpret_cast<char *>(half.data.data()), 6));
  Tensor tensor;
  tensor.name = "w";
  tensor.globalShape = {3};
  tensor.layout = {{{{3, {"tp"}}}}};
  tensor.source = TensorSource{"w.bin", 4, 6, DType::F16};
  tensor.init = InitKind::Source;
  Mesh mesh{{{"tp", 2}}, 1};
  Plan plan;
  plan.tensors = {tensor};
  plan.sourceFiles = *findSourceFiles(plan, dir);
  plan.sourceFiles.push_back({"gone.bin", 0, "0123456789abcdef"});
  InitialValues values(plan, dir, {});
  float local[2] = {-1, -1};
  ASSERT_TRUE(values.fill(tensor, mesh, 1, local).ok());
  EXPECT_EQ(local[0], 2.5f);
  EXPECT_EQ(local[1], -1.f) << "padding is kept";

  tensor.source->offset = 5;
  std::string error = values.fill(tensor, mesh, 0, local).message();
  EXPECT_HAS(error, "parameter 'w': bytes 5 to 11 of");
  tensor.source->file = "gone.bin";
  error = values.fill(tensor, mesh, 0, local).message();
  EXPECT_HAS(error, "parameter 'w'");
  EXPECT_HAS(error, "gone.bin");
  EXPECT_HAS(error, "--init=random:SEED");
  tensor.source.reset();
  error = values.fill(tensor, mesh, 0, local).message();
  EXPECT_HAS(error, "no data");
}

TEST_F(Data, ChangedSourcesAreRefused) {
  HostTensor values = ramp({3}, 1, 0.5);
  std::string bytes(reinterpret_cast<char *>(values.data.data()), 12);
  write("w.bin", bytes);
  Plan plan;
  Tensor &tensor = plan.tensors.emplace_back();
  tensor.name = "w";
  tensor.globalShape = {3};
  tensor.layout = Layout::replicated({3});
  tensor.source = TensorSource{"w.bin", 0, 12, DType::F32};
  plan.sourceFiles = *findSourceFiles(plan, dir);
  float local[3] = {};
  auto errorWith = [&](const InitChoice &choice) {
    InitialValues values(plan, dir, choice);
    return values.fill(tensor, Mesh{}, 0, local).message();
  };
  EXPECT_EQ(errorWith({}), "");
  EXPECT_EQ(local[2], 1.5f);
  std::string changed = bytes;
  changed[4] ^= 1;
  write("w.bin", changed);
  for (const InitChoice &choice : {InitChoice(), *InitChoice::parse("random:1"),
                                   *InitChoice::parse("zeros")})
    EXPECT_HAS(errorWith(choice), at("w.bin") + ": changed since the plan '");
  // Values that come from elsewhere do not need the file.
  InitialValues given(plan, dir, {}, {{"w", values}});
  EXPECT_TRUE(given.fill(tensor, Mesh{}, 0, local).ok());
  write("w.bin", bytes);
  EXPECT_EQ(errorWith({}), "");
}

TEST_F(Data, InitChoices) {
  EXPECT_EQ(InitChoice::parse("random:17")->seed, 17u);
  EXPECT_EQ(InitChoice::parse("zeros")->kind, InitChoice::Kind::Zeros);
  for (const char *bad : {"random:", "random:x", "ones", ""})
    EXPECT_HAS(InitChoice::parse(bad).status().message(), "expected") << bad;
}

TEST_F(Data, BatchesAreCheckedAndRepeat) {
  Plan plan = leastSquares(1, 1);
  ASSERT_TRUE(writeNpy(at("x.npy"), ramp({2, 8, 4})).ok());
  auto source = openNpyInputs(plan, dir);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->steps(), 2);
  EXPECT_EQ(loadAsDouble((*(*source)->load(2))[0], DType::F32, 0), 32);
  EXPECT_EQ(loadAsDouble((*(*source)->load(3))[0], DType::F32, 0), 0);

  auto errorOf = [&](const HostTensor &tensor) {
    EXPECT_TRUE(writeNpy(at("x.npy"), tensor).ok());
    return openNpyInputs(plan, dir).status().message();
  };
  EXPECT_EQ(errorOf(ramp({2, 9, 4})),
            at("x.npy") + ": found f32[2, 9, 4], expected f32[steps, 8, 4]");
  EXPECT_EQ(errorOf(HostTensor::zeros(DType::F64, {2, 8, 4})),
            at("x.npy") + ": found f64[2, 8, 4], expected f32[steps, 8, 4]");
  EXPECT_EQ(errorOf(HostTensor::zeros(DType::F32, {0, 8, 4})),
            at("x.npy") + ": has no steps; expected f32[steps, 8, 4]");
  std::filesystem::remove(at("x.npy"));
  EXPECT_HAS(openNpyInputs(plan, dir).status().message(), "input 'x'");
}

Plan tokenPlan() {
  Plan plan;
  plan.inputs = {{"tokens", 0, DType::I64, {2, 3}, {}, 100}};
  return plan;
}

TEST_F(Data, IntegersWidenAndAreBounded) {
  Plan plan = tokenPlan();
  HostTensor ids = HostTensor::zeros(DType::I32, {1, 2, 3});
  ids.set(4, 99);
  ASSERT_TRUE(writeNpy(at("tokens.npy"), ids).ok());
  auto source = openNpyInputs(plan, dir);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(loadAsDouble((*(*source)->load(1))[0], DType::I64, 4), 99);
  ids.set(4, 100);
  ASSERT_TRUE(writeNpy(at("tokens.npy"), ids).ok());
  EXPECT_HAS(openNpyInputs(plan, dir).status().message(),
             "element 4 of input 'tokens' is 100, expected 0 to 99");
  ids.set(4, -1);
  ASSERT_TRUE(writeNpy(at("tokens.npy"), ids).ok());
  EXPECT_HAS(openNpyInputs(plan, dir).status().message(),
             "element 4 of input 'tokens' is -1, expected 0 to 99");
  plan.inputs[0].ignored = -1;
  EXPECT_TRUE(openNpyInputs(plan, dir).ok());
}

TEST(UnreadInputs, AreSaidWithTheInputThatMayHaveReplacedThem) {
  Plan plan = tokenPlan();
  EXPECT_TRUE(unreadTexts(plan).empty());
  std::string text = "input 'tokens' is not read by the model";
  plan.inputs[0].use = InputUse::Unread;
  plan.inputs.push_back(
      {"other", 0, plan.inputs[0].dtype, plan.inputs[0].globalShape, {}});
  EXPECT_EQ(unreadTexts(plan),
            std::vector<std::string>{
                text + "; was it exported with one tensor for two inputs?"});
  plan.inputs.back().globalShape[0] += 1;
  EXPECT_EQ(unreadTexts(plan), std::vector<std::string>{text});
}

} // namespace
} // namespace dpc::rt
