//===- WeightMatchTest.cpp - names and shapes of weight files -------------===//
#include "runtime/io/WeightMatch.h"
#include "runtime/io/InitialValues.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/io/WeightValues.h"

#include "test/unit/runtime/ScratchFolder.h"

#include <cmath>
#include <cstring>
#include <map>

namespace dpc::rt {
namespace {

Tensor weight(const std::string &name, std::vector<int64_t> shape,
              TensorRole role = TensorRole::Parameter) {
  Tensor tensor;
  tensor.name = name;
  tensor.role = role;
  tensor.globalShape = shape;
  tensor.layout = Layout::replicated(shape);
  tensor.init = InitKind::Source;
  tensor.source = TensorSource{"w.bin", 0, 4 * numElements(shape), DType::F32};
  return tensor;
}

/// A plan with a trained and a frozen weight, a tied weight, an optimizer
/// state, and a constant.
Plan smallPlan() {
  Plan plan;
  plan.tensors = {weight("l1.weight", {2, 3}),
                  weight("l1.base", {3}, TensorRole::Buffer),
                  weight("wte.weight", {4})};
  plan.tensors.back().aliases = {"head.weight"};
  Tensor state = weight("l1.weight.exp_avg", {2, 3}, TensorRole::State);
  state.init = InitKind::Zeros;
  state.source.reset();
  Tensor constant = weight("constant.4", {5}, TensorRole::Buffer);
  constant.isUnsaved = true;
  plan.tensors.push_back(state);
  plan.tensors.push_back(constant);
  plan.unreadWeights = {"head.bias"};
  return plan;
}

class WeightMatchTest : public test::ScratchFolder {
protected:
  using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

  /// The value of an element of the second tensor, minus that of the first.
  double increment = 1;
  /// Types of tensors that are not written as f32, by name.
  std::map<std::string, DType> types;
  bool isRamp = false; ///< whether element j has j more

  DType typeOf(const std::string &name) const {
    auto found = types.find(name);
    return found == types.end() ? DType::F32 : found->second;
  }

  /// Writes tensors of these shapes. All elements of tensor i are
  /// 1 + i * increment, plus their index with isRamp.
  WeightFiles filesWith(const Shapes &shapes) const {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto &[name, shape] : shapes)
      entries.push_back({name, typeOf(name), shape});
    SafetensorsWriter writer;
    EXPECT_TRUE(writer.start(at("w.safetensors"), entries).ok());
    for (size_t i = 0; i < shapes.size(); ++i) {
      HostTensor value =
          HostTensor::zeros(typeOf(shapes[i].first), shapes[i].second);
      for (int64_t j = 0; j < value.elements(); ++j)
        value.set(j, 1 + (i > 0 ? static_cast<double>(i) * increment : 0) +
                         (isRamp ? static_cast<double>(j) : 0));
      EXPECT_TRUE(writer.append(value).ok());
    }
    EXPECT_TRUE(writer.finish().ok());
    return *WeightFiles::open(at("w.safetensors"));
  }

  WeightMatch match(const Shapes &shapes) const {
    return matchWeights(smallPlan(), filesWith(shapes));
  }
};

TEST_F(WeightMatchTest, AllNamesOfAModelFit) {
  for (const char *tied : {"wte.weight", "head.weight"}) {
    WeightMatch found = match({{"l1.weight", {2, 3}},
                               {"l1.base", {3}},
                               {tied, {4}},
                               {"head.bias", {7}}});
    EXPECT_EQ(found.check(false).message(), "") << tied;
    EXPECT_TRUE(found.remarks().empty()) << tied;
  }
  increment = 0;
  EXPECT_TRUE(match({{"l1.weight", {2, 3}},
                     {"l1.base", {3}},
                     {"wte.weight", {4}},
                     {"head.weight", {4}},
                     {"l1.weight.exp_avg", {2, 3}}})
                  .check(false)
                  .ok());
}

/// A file of an untied fine-tune: either value would drop the other.
TEST_F(WeightMatchTest, ATiedWeightWithTwoValuesIsNeverAccepted) {
  WeightMatch found = match({{"l1.weight", {2, 3}},
                             {"l1.base", {3}},
                             {"wte.weight", {4}},
                             {"head.weight", {4}}});
  for (bool isPartial : {false, true})
    EXPECT_EQ(found.check(isPartial).message(),
              "--init: " + at("w.safetensors") +
                  " has different values for the names of 1 tied weight: "
                  "'wte.weight' and 'head.weight'");
}

/// Quantized weights need their scales.
TEST_F(WeightMatchTest, IntegersFillNoFloats) {
  types = {{"l1.weight", DType::I32}};
  WeightMatch found =
      match({{"l1.weight", {2, 3}}, {"l1.base", {3}}, {"wte.weight", {4}}});
  for (bool isPartial : {false, true})
    EXPECT_EQ(found.check(isPartial).message(),
              "--init: " + at("w.safetensors") +
                  " has 1 tensor of another shape or type: 'l1.weight' "
                  "(i32[2, 3], expected f32[2, 3])");
}

TEST_F(WeightMatchTest, AMisspelledNameIsMissingAndUnknown) {
  WeightMatch found =
      match({{"l1.wieght", {2, 3}}, {"l1.base", {3}}, {"wte.weight", {4}}});
  EXPECT_EQ(found.missing, std::vector<std::string>{"l1.weight"});
  EXPECT_EQ(found.unknown, std::vector<std::string>{"l1.wieght"});
  EXPECT_EQ(found.check(false).message(),
            "--init: " + at("w.safetensors") +
                " lacks 1 weight of the plan: 'l1.weight' (similar: "
                "'l1.wieght'); it has 1 tensor that the model lacks: "
                "'l1.wieght'; --init-partial accepts missing and unknown "
                "names");
  EXPECT_TRUE(found.check(true).ok());
  std::vector<std::string> lines = found.remarks();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_HAS(lines[0], "keeps the values of the plan: 'l1.weight'");
  EXPECT_HAS(lines[1], "is ignored: 'l1.wieght'");
  EXPECT_EQ(lines[2], "--init-partial: names that may mean the same: "
                      "'l1.wieght' and 'l1.weight'; a weight is only read "
                      "under its own name");
}

TEST_F(WeightMatchTest, AnotherShapeIsNeverAccepted) {
  WeightMatch found =
      match({{"l1.weight", {3, 2}}, {"l1.base", {3}}, {"head.weight", {5}}});
  EXPECT_TRUE(found.missing.empty() && found.unknown.empty());
  for (bool isPartial : {false, true}) {
    std::string error = found.check(isPartial).message();
    EXPECT_HAS(
        error,
        "has 2 tensors of another shape or type: 'l1.weight' (f32[3, 2], "
        "expected f32[2, 3]), 'wte.weight' (f32[5], expected "
        "f32[4])");
    EXPECT_EQ(error.find("--init-partial"), std::string::npos) << error;
  }
}

TEST_F(WeightMatchTest, ConversionsAreSaid) {
  types = {{"l1.weight", DType::F16},
           {"wte.weight", DType::F16},
           {"l1.base", DType::F64}};
  WeightMatch found =
      match({{"l1.weight", {2, 3}}, {"l1.base", {3}}, {"wte.weight", {4}}});
  EXPECT_EQ(found.check(false).message(), "");
  EXPECT_EQ(found.remarks(),
            (std::vector<std::string>{
                "--init: 2 weights are converted from f16 to f32",
                "--init: 1 weight is converted from f64 to f32"}));
}

/// A file of a model that ties two weights, for a plan that does not.
TEST_F(WeightMatchTest, TrainedWeightsWithEqualValuesAreSaid) {
  Plan plan;
  plan.tensors = {weight("e.weight", {5, 4}), weight("h.weight", {5, 4}),
                  weight("other", {5, 4})};
  plan.trains = true;
  increment = 0;
  isRamp = true;
  Shapes shapes = {{"e.weight", {5, 4}}, {"h.weight", {5, 4}}};
  WeightMatch found = matchWeights(plan, filesWith(shapes));
  EXPECT_EQ(found.equal, std::vector<std::string>{"'e.weight' and 'h.weight'"});
  EXPECT_EQ(found.remarks().back(),
            "--init: the values of 'e.weight' and 'h.weight' are equal in " +
                at("w.safetensors") + ", but the plan trains them separately");
  isRamp = false; // ones, as in new norms
  EXPECT_TRUE(matchWeights(plan, filesWith(shapes)).equal.empty());
  isRamp = true;
  increment = 1;
  EXPECT_TRUE(matchWeights(plan, filesWith(shapes)).equal.empty());
  increment = 0;
  plan.tensors[1].role = TensorRole::Buffer; // frozen
  EXPECT_TRUE(matchWeights(plan, filesWith(shapes)).equal.empty());
}

TEST_F(WeightMatchTest, NoRunStartsWithNan) {
  Plan plan;
  plan.tensors = {weight("w", {6})};
  Mesh mesh{{{"dp", 1}}, 1};
  std::vector<float> got(6);
  for (const auto &[value, word] :
       {std::pair(std::nan(""), "nan"), {HUGE_VAL, "inf"}}) {
    increment = value;
    filesWith({{"a", {1}}, {"w", {6}}});
    InitialValues values(plan, at(""), *InitChoice::parse(at("w.safetensors")));
    EXPECT_EQ(values.fill(plan.tensors[0], mesh, 0, got.data()).message(),
              "--init: parameter 'w': " + at("w.safetensors") + " holds " +
                  word);
  }
  increment = -HUGE_VAL; // a mask
  filesWith({{"a", {1}}, {"w", {6}}});
  InitialValues values(plan, at(""), *InitChoice::parse(at("w.safetensors")));
  EXPECT_TRUE(values.fill(plan.tensors[0], mesh, 0, got.data()).ok());
}

TEST_F(WeightMatchTest, NumbersThatDoNotFitAreNamed) {
  Plan plan;
  plan.tensors = {weight("w", {6})};
  Mesh mesh{{{"dp", 1}}, 1};
  std::vector<float> got(6);
  types = {{"w", DType::F64}};
  for (const auto &[value, word] :
       {std::pair(1e39, "1e+39"), {-1e39, "-1e+39"}}) {
    increment = value;
    filesWith({{"a", {1}}, {"w", {6}}});
    InitialValues values(plan, at(""), *InitChoice::parse(at("w.safetensors")));
    EXPECT_EQ(values.fill(plan.tensors[0], mesh, 0, got.data()).message(),
              "--init: parameter 'w': " + at("w.safetensors") + " holds " +
                  word + ", which f32 cannot represent");
  }
}

TEST_F(WeightMatchTest, MatricesOfZerosAreSaid) {
  Plan plan = smallPlan();
  plan.trains = true;
  increment = -1; // the second tensor is 1 - 1
  for (const char *zero : {"l1.weight", "l1.base"}) {
    Shapes shapes{{"wte.weight", {4}}};
    bool isMatrix = std::string(zero) == "l1.weight";
    shapes.push_back({zero, isMatrix ? std::vector<int64_t>{2, 3}
                                     : std::vector<int64_t>{3}});
    WeightMatch found = matchWeights(plan, filesWith(shapes));
    EXPECT_EQ(found.zeros, isMatrix ? std::vector<std::string>{"l1.weight"}
                                    : std::vector<std::string>{});
    if (isMatrix)
      EXPECT_EQ(found.remarks().back(),
                "--init: all values of 1 trained weight are zero in " +
                    at("w.safetensors") + ": 'l1.weight'");
    plan.trains = false;
    EXPECT_TRUE(matchWeights(plan, filesWith(shapes)).zeros.empty());
    plan.trains = true;
  }
}

TEST_F(WeightMatchTest, BiasesOfTwoDimensionsMayBeZeros) {
  Plan plan = smallPlan();
  plan.trains = true;
  plan.tensors[1] = weight("norm.bias", {2, 3});
  increment = -1; // the second tensor is 1 - 1
  EXPECT_TRUE(matchWeights(
                  plan, filesWith({{"wte.weight", {4}}, {"norm.bias", {2, 3}}}))
                  .zeros.empty());
}

TEST_F(WeightMatchTest, ACommonPrefixIsSaid) {
  WeightMatch more = match({{"model.l1.weight", {2, 3}},
                            {"model.l1.base", {3}},
                            {"model.wte.weight", {4}}});
  EXPECT_HAS(more.check(false).message(),
             "; without 'model.', its names are those of the plan");
  WeightMatch other = match({{"model.l1.weight", {2, 3}},
                             {"lm.l1.base", {3}},
                             {"model.wte.weight", {4}}});
  EXPECT_EQ(other.prefixText(), "");
  Plan plan = smallPlan();
  for (Tensor &tensor : plan.tensors)
    tensor.name.insert(0, "lm.");
  WeightMatch less = matchWeights(plan, filesWith({{"l1.weight", {2, 3}},
                                                   {"l1.base", {3}},
                                                   {"wte.weight", {4}}}));
  EXPECT_HAS(less.check(false).message(),
             "; with 'lm.' before them, its names are those of the plan");
}

TEST_F(WeightMatchTest, NegativeVariancesAreSaid) {
  Plan plan = smallPlan();
  plan.tensors[1].name = "l1.running_var";
  for (double second : {1.0, -2.0}) {
    increment = second;
    WeightMatch found = matchWeights(
        plan, filesWith({{"wte.weight", {4}}, {"l1.running_var", {3}}}));
    if (second < 0)
      EXPECT_EQ(found.remarks().back(),
                "--init: 'l1.running_var' has negative values in " +
                    at("w.safetensors") + ": a variance is never negative");
    else
      EXPECT_TRUE(found.negativeVariances.empty());
  }
}

TEST_F(WeightMatchTest, VariancesOfZerosAreSaid) {
  Plan plan = smallPlan();
  plan.tensors[1].name = "l1.running_var";
  increment = -1; // the second tensor is 1 - 1
  Shapes shapes{{"wte.weight", {4}}, {"l1.running_var", {3}}};
  EXPECT_EQ(matchWeights(plan, filesWith(shapes)).remarks().back(),
            "--init: 'l1.running_var' is all zeros in " + at("w.safetensors") +
                ": values that vary have no variance of zero");
  isRamp = true; // one zero
  EXPECT_TRUE(matchWeights(plan, filesWith(shapes)).zeroVariances.empty());
}

TEST_F(WeightMatchTest, ScalesThatBecomeZerosAreSaid) {
  Plan plan;
  plan.tensors = {weight("l1.weight", {2, 2}), weight("norm.weight", {4}),
                  weight("norm.bias", {4})};
  increment = -1; // the second tensor is 1 - 1
  WeightFiles zeros = filesWith({{"l1.weight", {2, 2}}, {"norm.weight", {4}}});
  auto lost = [&](float second) {
    std::string bytes(16, '\0');
    std::vector<float> values = {1, second, 1, 1};
    std::memcpy(bytes.data(), values.data(), 16);
    write("w.bin", bytes);
    return lostScales(plan, trainedSources(plan, dir), zeros);
  };
  EXPECT_EQ(lost(1), std::vector<std::string>{"norm.weight"});
  EXPECT_EQ(textOnScales({"norm.weight"}, "F"),
            "all values of 'norm.weight' are near 0 in F, but near 1 in the "
            "model file: does the model of these weights add 1 to them?");
  // The model may add 1 to a scale of zero.
  EXPECT_TRUE(lost(0).empty());
  plan.tensors[1].name = "norm.bias";
  EXPECT_TRUE(lost(1).empty());
}

TEST_F(WeightMatchTest, LongListsAreCut) {
  Shapes shapes = {{"l1.weight", {2, 3}}, {"l1.base", {3}}};
  for (int i = 10; i < 20; ++i)
    shapes.push_back({"other." + std::to_string(i), {1}});
  WeightMatch found = match(shapes);
  std::string error = found.check(false).message();
  EXPECT_HAS(error, "lacks 1 weight of the plan: 'wte.weight'; it has 10 "
                    "tensors that the model lacks: 'other.10', ");
  EXPECT_HAS(error, "'other.17' and 2 more");
  EXPECT_HAS(found.remarks()[1], "'other.19'");
}

TEST_F(WeightMatchTest, AForeignFileIsNeverAccepted) {
  WeightMatch found = match({{"w", {2, 3}}, {"head.bias", {3}}});
  for (bool isPartial : {false, true})
    EXPECT_HAS(found.check(isPartial).message(),
               "has no tensor of the plan, such as 'l1.weight'");
}

/// An abstract model has no value that a missing weight could keep.
TEST_F(WeightMatchTest, AWeightWithoutAnyValueIsRefused) {
  Plan plan = smallPlan();
  plan.tensors[1].source.reset();
  WeightMatch found = matchWeights(plan, filesWith({{"l1.weight", {2, 3}}}));
  EXPECT_EQ(found.valueless, std::vector<std::string>{"l1.base"});
  EXPECT_HAS(found.check(true).message(),
             "lacks 1 weight for which the plan has no value: 'l1.base'");
  EXPECT_EQ(found.check(false).message().find("--init-partial"),
            std::string::npos);
}

TEST_F(WeightMatchTest, AFileFillsWhatItHas) {
  filesWith({{"head.weight", {4}}, {"l1.weight.exp_avg", {2, 3}}});
  std::ofstream(at("w.bin"), std::ios::binary) << std::string(24, '\0');
  InitChoice choice = *InitChoice::parse(at("w.safetensors"));
  choice.isPartial = true;
  Plan plan = smallPlan();
  plan.sourceFiles = *findSourceFiles(plan, at(""));
  InitialValues values(plan, at(""), choice);
  ASSERT_TRUE(values.check(plan).ok());
  Mesh mesh{{{"dp", 1}}, 1};
  std::vector<float> got(6, 9);
  ASSERT_TRUE(values.fill(plan.tensors[2], mesh, 0, got.data()).ok());
  EXPECT_EQ(got, (std::vector<float>{1, 1, 1, 1, 9, 9})) << "by its alias";
  ASSERT_TRUE(values.fill(plan.tensors[3], mesh, 0, got.data()).ok());
  EXPECT_EQ(got, std::vector<float>(6, 2)) << "a state";
  ASSERT_TRUE(values.fill(plan.tensors[0], mesh, 0, got.data()).ok());
  EXPECT_EQ(got, std::vector<float>(6, 0)) << "from the model";
  plan.tensors[0].source.reset();
  plan.tensors[0].init = InitKind::Value;
  plan.tensors[0].value = 3;
  ASSERT_TRUE(values.fill(plan.tensors[0], mesh, 0, got.data()).ok());
  EXPECT_EQ(got, std::vector<float>(6, 3)) << "from the plan";
}

} // namespace
} // namespace dpc::rt
