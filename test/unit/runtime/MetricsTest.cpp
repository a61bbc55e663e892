//===- MetricsTest.cpp - metrics of steps, and the loss of a plan ---------===//
#include "runtime/observe/Metrics.h"
#include "runtime/job/MaskCheck.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace dpc::rt {
namespace {

class MetricsFiles : public test::ScratchFolder {
protected:
  std::string textOf(const std::string &kind) const {
    StepReport report;
    report.step = 3;
    report.loss = 2.5;
    report.learningRate = 0.125;
    report.outputs = {{"ce", 2.25},
                      {"head.acc", 0.5},
                      {"head_acc", 0.75},
                      {"step-seconds", 8},
                      {"steps-total", 9},
                      {metricName("loss"), 7},
                      {"broken", std::nan("")}};
    auto metrics = openMetrics(kind + ":" + at("metrics"), 0);
    EXPECT_TRUE(metrics.ok());
    EXPECT_TRUE((*metrics)->write(report).ok());
    std::ostringstream text;
    text << std::ifstream(at("metrics")).rdbuf();
    return text.str();
  }
};

TEST_F(MetricsFiles, JsonHasOutputsAndTheLearningRate) {
  auto record = nlohmann::json::parse(textOf("jsonl"));
  EXPECT_EQ(record["loss"], 2.5);
  EXPECT_EQ(record["lr"], 0.125);
  EXPECT_EQ(record["ce"], 2.25);
  EXPECT_EQ(record["head.acc"], 0.5);
  EXPECT_EQ(record["output.loss"], 7);
  ASSERT_TRUE(record.contains("broken"));
  EXPECT_TRUE(record["broken"].is_null());
}

TEST_F(MetricsFiles, TwoRunsDoNotWriteToOneFile) {
  for (int64_t done : {0, 1}) {
    auto first = openMetrics(at("m.jsonl"), done);
    ASSERT_TRUE(first.ok()) << first.status().message();
    StepReport step;
    step.step = 1;
    ASSERT_TRUE((*first)->write(step).ok());
    EXPECT_EQ(openMetrics(at("m.jsonl"), 0).status().message(),
              "--metrics: " + at("m.jsonl") +
                  ": another run writes its metrics there; choose another "
                  "file");
    // The lines of the first run stay.
    EXPECT_GT(std::filesystem::file_size(at("m.jsonl")), 0u);
  }
  EXPECT_TRUE(openMetrics(at("m.jsonl"), 1).ok());
  EXPECT_TRUE(openMetrics("/dev/null", 0).ok());
}

TEST_F(MetricsFiles, PrometheusHasValidAndUniqueNames) {
  std::string text = textOf("prometheus");
  for (const char *line :
       {"dpc_lr 0.125", "dpc_ce 2.25", "dpc_head_acc 0.5", "dpc_head_acc_ 0.75",
        "dpc_output_loss 7", "dpc_broken NaN", "dpc_step_seconds 0",
        "dpc_step_seconds_ 8", "dpc_steps_total 3", "dpc_steps_total_ 9"})
    EXPECT_HAS(text, std::string("\n") + line + "\n");
}

TEST_F(MetricsFiles, AnEvaluationHasItsOutputsEverywhere) {
  EvalReport report;
  report.step = 4;
  report.loss = 1.5;
  report.samples = 19;
  report.outputs = {{evalName("ce"), 1.25}, {evalName("head.acc"), 0.5}};
  for (const char *kind : {"jsonl", "prometheus"}) {
    auto metrics = openMetrics(std::string(kind) + ":" + at("metrics"), 0);
    ASSERT_TRUE(metrics.ok());
    ASSERT_TRUE((*metrics)->write(report).ok());
    std::ostringstream text;
    text << std::ifstream(at("metrics")).rdbuf();
    if (kind == std::string("prometheus")) {
      for (const char *line :
           {"dpc_eval_loss 1.5", "dpc_eval_ce 1.25", "dpc_eval_head_acc 0.5"})
        EXPECT_HAS(text.str(), std::string("\n") + line + "\n");
      continue;
    }
    EXPECT_EQ(text.str(), "{\"step\":4,\"eval_loss\":1.5,\"eval_ce\":1.25,"
                          "\"eval_head.acc\":0.5,\"eval_samples\":19}\n");
  }
}

TEST(EvalName, IsUniqueAmongAllNumbers) {
  EXPECT_EQ(evalName("ce"), "eval_ce");
  EXPECT_EQ(evalName("loss"), "eval_output.loss");
  EXPECT_EQ(evalName("samples"), "eval_output.samples");
  // A step's output cannot pass for one of an evaluation.
  EXPECT_EQ(metricName("eval_ce"), "output.eval_ce");
}

TEST(StepOutputs, AreScalarsAndValuesPerSample) {
  Plan plan;
  auto add = [&](const char *name, std::vector<int64_t> shape, int64_t batch) {
    Port &port = plan.outputs.emplace_back();
    port.name = name;
    port.globalShape = std::move(shape);
    port.batchDim = batch;
  };
  add("loss", {}, -1);
  add("logits", {8, 2}, 0);
  add("each", {8}, 0);
  add("classes", {8}, -1);
  add("grad_norm", {}, -1);
  add("one", {1}, -1);
  auto names = [&] {
    std::string all;
    for (const StepOutput &output : stepOutputs(plan))
      all += plan.outputs[output.index].name +
             (output.isPerSample ? " a sample, " : ", ");
    return all;
  };
  EXPECT_EQ(names(), "each a sample, grad_norm, one, ");
  plan.trains = true; // the norm is a number of the update
  EXPECT_EQ(names(), "each a sample, one, ");
  HostTensor each = HostTensor::zeros(DType::F32, {4});
  for (int64_t i = 0; i < 4; ++i)
    each.set(i, static_cast<double>(i * i));
  StepOutput output = stepOutputs(plan).front();
  EXPECT_EQ(output.numberOf(each, 3), 5. / 3);
  EXPECT_EQ(output.numberOf(each, -1), 14. / 4);
}

TEST(MetricName, KeepsNamesThatAreFree) {
  EXPECT_EQ(metricName("accuracy"), "accuracy");
  for (const char *taken : {"step", "loss", "lr", "grad_norm", "eval_loss"})
    EXPECT_EQ(metricName(taken), std::string("output.") + taken);
}

// Another scalar, such as the accuracy, does not pass for the loss.
TEST(FindLoss, IsTheOutputOfThisNameAndOneValue) {
  Plan plan;
  auto add = [&](const char *name, std::vector<int64_t> shape,
                 DType dtype = DType::F32) {
    Port port;
    port.name = name;
    port.globalShape = std::move(shape);
    port.dtype = dtype;
    plan.outputs.push_back(port);
  };
  add("scores", {8, 2});
  add("count", {}, DType::I64);
  EXPECT_EQ(findLoss(plan), -1);
  add("accuracy", {});
  EXPECT_EQ(findLoss(plan), -1);
  add("loss", {8});
  EXPECT_EQ(findLoss(plan), -1);
  plan.outputs.back().globalShape = {1};
  EXPECT_EQ(findLoss(plan), 3);
}

// A training plan calls its loss "loss", whatever the model calls it.
TEST(FindLoss, IsTheNamedOneOfAnInferencePlan) {
  Plan plan;
  for (const char *name : {"loss", "total"}) {
    Port port;
    port.name = name;
    plan.outputs.push_back(port);
  }
  plan.lossOutput = "total";
  EXPECT_EQ(findLoss(plan), 1);
  plan.trains = true;
  EXPECT_EQ(findLoss(plan), 0);
  plan.outputs[0].name = "accuracy"; // an imported step keeps its names
  EXPECT_EQ(findLoss(plan), 1);
}

} // namespace
} // namespace dpc::rt
