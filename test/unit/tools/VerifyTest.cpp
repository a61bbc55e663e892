//===- VerifyTest.cpp - verification can fail -----------------------------===//
//
// dpc-opt compares a plan with the plan for one device. In these tests the two
// have different options, as if the compiler were wrong.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/Verify.h"

#include "runtime/io/SourceFiles.h"
#include "runtime/plan/PlanJson.h"
#include "tools/driver/Compile.h"

#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace fs = std::filesystem;
using namespace dpc;

namespace {

class Verify : public testing::Test {
protected:
  fs::path root;

  void SetUp() override {
    std::string name = testing::TempDir() + "dpc-verify-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }

  CompileOptions options(int ranks) const {
    CompileOptions result;
    result.model = DPC_FIXTURES "/models/mlp/model.onnx";
    result.cluster = "local:" + std::to_string(ranks);
    result.strategy = "dp=" + std::to_string(ranks);
    result.globalBatch = 8;
    result.verify = "off";
    result.output = (root / result.strategy).string();
    return result;
  }

  std::string verify(const CompileOptions &tested,
                     const CompileOptions &reference) const {
    Reporter silent;
    EXPECT_TRUE(succeeded(compileModel(tested, silent)));
    EXPECT_TRUE(succeeded(compileModel(reference, silent)));
    return verifyFolders(tested.output, reference.output);
  }

  static std::string verifyFolders(const std::string &tested,
                                   const std::string &reference) {
    auto plan = rt::readPlan(tested);
    auto one = rt::readPlan(reference);
    if (!plan || !one)
      return plan ? one.status().message() : plan.status().message();
    return verifyAgainstOneDevice({*plan, tested}, {*one, reference}, "").why;
  }
};

} // namespace

TEST_F(Verify, AcceptsTheSameProgram) {
  EXPECT_EQ(verify(options(3), options(1)), "");
}

TEST_F(Verify, NamesTheTensorThatDiffers) {
  // Bias correction makes the first update independent of beta1. Therefore the
  // outputs of both steps agree, and only states differ.
  CompileOptions other = options(1);
  other.beta1 = 0.5;
  std::string why = verify(options(2), other);
  EXPECT_NE(why.find("tensor 'l"), std::string::npos) << why;
  EXPECT_NE(why.find("differs from one device: element "), std::string::npos)
      << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

// Another weight decay is detected, although it changes weights by only 1e-4 of
// their values (the learning rate is 1e-3).
TEST_F(Verify, SeesAnotherWeightDecay) {
  for (const char *optimizer : {"adamw", "sgd"}) {
    CompileOptions tested = options(2), other = options(1);
    tested.train = other.train = optimizer;
    other.weightDecay = 0.1;
    std::string why = verify(tested, other);
    EXPECT_NE(why.find("' differs from one device: element "),
              std::string::npos)
        << optimizer << ": " << why;
    EXPECT_EQ(why.find("tensor 'l"), 0u) << optimizer << ": " << why;
  }
}

TEST_F(Verify, AcceptsSgdOfATinyLearningRate) {
  CompileOptions tested = options(3), one = options(1);
  tested.train = one.train = "sgd";
  tested.lr = one.lr = 1e-9;
  EXPECT_EQ(verify(tested, one), "");
}

// A wrong beta1, which changes first moments, is detected despite the rounding
// of GEMMs in bf16 and fp8.
TEST_F(Verify, SeesMistakesThroughTheRoundingOfNarrowTypes) {
  for (auto [precision, model] :
       {std::pair("bf16", "mlp"), std::pair("fp8", "bert-tiny")})
    for (const char *strategy : {"dp=2", "tp=2"}) {
      SCOPED_TRACE(std::string(precision) + " " + strategy);
      CompileOptions tested = options(2), one = options(1);
      tested.model = one.model =
          std::string(DPC_FIXTURES "/models/") + model + "/model.onnx";
      tested.strategy = strategy;
      tested.precision = one.precision = precision;
      EXPECT_EQ(verify(tested, one), "");
      one.beta1 = 0.5;
      std::string why = verify(tested, one);
      EXPECT_NE(why.find("differs from one device"), std::string::npos) << why;
    }
}

// Batch norms magnify rounding. Tolerances grow accordingly, but a mistake is
// still detected.
TEST_F(Verify, SeesMistakesInModelsThatMagnifyRounding) {
  CompileOptions tested = options(2), one = options(1);
  tested.model = one.model = DPC_FIXTURES "/models/resnet-tiny/model.onnx";
  EXPECT_EQ(verify(tested, one), "");
  one.beta1 = 0.5;
  std::string why = verify(tested, one);
  EXPECT_NE(why.find(".exp_avg' differs from one device"), std::string::npos)
      << why;
}

// A NaN on one device is an error, because every plan would match it. The
// weight that holds it is named.
TEST_F(Verify, RefusesWhatIsNaNOnOneDevice) {
  ASSERT_EQ(verify(options(2), options(1)), "");
  std::vector<float> nan(1 << 16, std::numeric_limits<float>::quiet_NaN());
  std::string file = (root / "nan.bin").string();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char *>(nan.data()),
             static_cast<std::streamsize>(nan.size() * sizeof(float)));
  auto plan = rt::readPlan(options(2).output);
  auto one = rt::readPlan(options(1).output);
  ASSERT_TRUE(plan && one);
  for (rt::Plan *edited : {&*plan, &*one}) {
    for (rt::Tensor &tensor : edited->tensors)
      if (tensor.name == "l1.bias")
        tensor.source->file = file, tensor.source->offset = 0;
    edited->sourceFiles = *rt::findSourceFiles(*edited, root.string());
  }
  Verdict verdict = verifyAgainstOneDevice({*plan, options(2).output},
                                           {*one, options(1).output}, "");
  std::string why = verdict.why;
  EXPECT_TRUE(verdict.cannotBeChecked);
  EXPECT_EQ(why.find("weight 'l1.bias' holds nan (element 0) in " + file), 0U)
      << why;
}

TEST_F(Verify, NamesTheOutputThatDiffers) {
  CompileOptions other = options(2);
  other.frozen = {"l3.bias"};
  std::string why = verify(other, options(1));
  EXPECT_EQ(why.find("output 'grad_norm' of step 1 differs from one device: "
                     "element 0 is "),
            0u)
      << why;
}

TEST_F(Verify, SaysWhichPlanDoesNotRun) {
  ASSERT_EQ(verify(options(2), options(1)), "");
  std::string two = options(2).output, one = options(1).output;
  fs::remove(fs::path(two) / "kernels" / "kernels.so");
  EXPECT_EQ(verifyFolders(two, one).find("the plan does not run: "), 0u);
  fs::remove(fs::path(one) / "kernels" / "kernels.so");
  std::string why = verifyFolders(two, one);
  EXPECT_EQ(why.find("the plan for one device does not run: "), 0u) << why;
  EXPECT_NE(why.find("kernels.so"), std::string::npos) << why;
}
