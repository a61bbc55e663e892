//===- RunSettingsTest.cpp - what two plans compute differently -----------===//
#include "runtime/plan/RunSettings.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

const std::vector<Setting> kBefore = {{kGraph, "a"},
                                      {kGraphConstants, "b"},
                                      {"optimizer", "adamw"},
                                      {"lr", "0.001"},
                                      {"eps", "1e-08"}};

TEST(RunSettings, EachDifferenceIsNamedWithBothValues) {
  EXPECT_EQ(differencesFrom(kBefore, kBefore, true), "");
  std::vector<Setting> now = {{kGraph, "a"},
                              {kGraphConstants, "b"},
                              {"optimizer", "sgd"},
                              {"lr", "0.001"},
                              {"momentum", "0.9"}};
  EXPECT_EQ(differencesFrom(kBefore, now, true),
            "optimizer sgd instead of adamw, momentum 0.9 instead of none, "
            "eps none instead of 1e-08");
}

TEST(RunSettings, ConstantsCountOnlyForOneBatchSize) {
  std::vector<Setting> now = kBefore;
  now[1].value = "c";
  EXPECT_EQ(differencesFrom(kBefore, now, /*hasSameBatch=*/true),
            "other constants in the graph of the model");
  EXPECT_EQ(differencesFrom(kBefore, now, /*hasSameBatch=*/false), "");
  now[0].value = "c";
  EXPECT_EQ(differencesFrom(kBefore, now, /*hasSameBatch=*/false),
            "another graph of the model");
}

TEST(RunSettings, AnotherSeedOfDropoutIsNoOtherConstant) {
  std::vector<Setting> before = {{kGraph, "a"},
                                 {kGraphConstants, "1"},
                                 {kDropoutSeed, "0"},
                                 {kEvalConstants, "2"}};
  std::vector<Setting> now = before;
  now[1].value = "3";
  now[2].value = "7";
  EXPECT_EQ(differencesFrom(before, now, true), "dropout_seed 7 instead of 0");
  now[3].value = "4";
  EXPECT_EQ(differencesFrom(before, now, true),
            "dropout_seed 7 instead of 0, "
            "other constants in the graph of the model");
}

TEST(RunSettings, NothingDiffersFromUnknownSettings) {
  EXPECT_EQ(differencesFrom({}, kBefore, true), "");
  EXPECT_EQ(differencesFrom(kBefore, {}, true), "");
}

TEST(RunSettings, AnEvaluationNeedsTheGraphOfTheTrainedLoss) {
  Plan training, evaluation;
  EXPECT_TRUE(hasSameLoss(training, evaluation, true));
  training.settings = {{kGraph, "dropout"},
                       {kGraphConstants, "1"},
                       {kEvalGraph, "a"},
                       {kEvalConstants, "2"}};
  evaluation.settings = {{kGraph, "a"}, {kGraphConstants, "2"}};
  EXPECT_TRUE(hasSameLoss(training, evaluation, true));
  evaluation.settings[1].value = "3";
  EXPECT_FALSE(hasSameLoss(training, evaluation, true));
  EXPECT_TRUE(hasSameLoss(training, evaluation, false));
  evaluation.settings[0].value = "b";
  EXPECT_FALSE(hasSameLoss(training, evaluation, false));
}

TEST(RunSettings, ADescriptionHasNoHashes) {
  EXPECT_EQ(describeSettings(kBefore), "optimizer adamw, lr 0.001, eps 1e-08");
}

} // namespace
} // namespace dpc::rt
