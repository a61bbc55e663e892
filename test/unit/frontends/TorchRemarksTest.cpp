//===- TorchRemarksTest.cpp - Remarks on .pt2 files -----------------------===//
#include "test/unit/frontends/TorchFile.h"

#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::torchtest;

namespace {

TEST(TorchRemarks, TrainableWithoutEffect) {
  auto remarksOf = [](const std::vector<std::string> &frozen,
                      const std::vector<std::string> &trainable) {
    ImportOptions options;
    options.globalBatch = 8;
    options.frozen = frozen;
    options.trainable = trainable;
    return import(contents(kMlp), options).remarks;
  };
  using Remarks = std::vector<std::string>;
  EXPECT_EQ(remarksOf({"l1.*"}, {}), Remarks());
  EXPECT_EQ(remarksOf({}, {"l1.bias"}),
            Remarks{"--trainable changes nothing: without it, training changes "
                    "1 weight: l1.bias"});
  EXPECT_EQ(remarksOf({"*"}, {"l1.bias"}),
            Remarks{"--trainable takes precedence over --frozen, and both "
                    "match 1 weight: l1.bias"});
}

/// Returns the remarks on kMlp after `change` to the graph of its program.
std::vector<std::string>
remarksAfterGraph(llvm::function_ref<void(nlohmann::json &)> change) {
  return import(altered(kMlp, kModel,
                        [&](const std::string &text) {
                          auto json = nlohmann::json::parse(text);
                          change(json["graph_module"]["graph"]);
                          return json.dump();
                        }))
      .remarks;
}

/// Returns the remarks on kMlp after `change` to the nodes of its program.
std::vector<std::string>
remarksAfter(llvm::function_ref<void(nlohmann::json &)> change) {
  return remarksAfterGraph(
      [&](nlohmann::json &graph) { change(graph["nodes"]); });
}

void setInput(nlohmann::json &node, int input, const char *value) {
  node["inputs"][input]["arg"]["as_tensor"]["name"] = value;
}

TEST(TorchRemarks, UnusedWeights) {
  EXPECT_EQ(remarksAfter(
                [](nlohmann::json &nodes) { setInput(nodes[4], 0, "relu"); }),
            (std::vector<std::string>{
                "2 weights of the model are not used: l2.bias, l2.weight"}));
}

TEST(TorchRemarks, LossesOfOtherValues) {
  using Remarks = std::vector<std::string>;
  EXPECT_EQ(remarksAfter([](nlohmann::json &) {}), Remarks());
  EXPECT_EQ(import(contents(DPC_FIXTURES "/torch/labels.pt2")).remarks,
            Remarks());
  EXPECT_EQ(import(contents(DPC_FIXTURES "/torch/rows.pt2")).remarks,
            Remarks());
  EXPECT_EQ(remarksAfter([](nlohmann::json &nodes) {
              nodes[5]["target"] = "torch.ops.aten.nll_loss_nd.default";
            }),
            Remarks{"node 'cross_entropy_loss': nll_loss_nd expects "
                    "log-probabilities, but gets the result of "
                    "aten.linear.default; cross_entropy accepts such scores"});
  Remarks softmax = remarksAfter([](nlohmann::json &nodes) {
    nodes[3]["target"] = "torch.ops.aten.softmax.int";
    nodes[3]["inputs"].push_back(
        {{"name", "dim"}, {"arg", {{"as_int", -1}}}, {"kind", 1}});
    setInput(nodes[5], 0, "relu_1");
    nodes[5]["target"] = "torch.ops.aten.nll_loss_nd.default";
  });
  ASSERT_EQ(softmax.size(), 2u);
  EXPECT_EQ(softmax[0],
            "2 weights of the model are not used: l3.bias, l3.weight");
  EXPECT_EQ(softmax[1],
            "node 'cross_entropy_loss': nll_loss_nd expects "
            "log-probabilities, but gets the result of aten.softmax.int; "
            "cross_entropy accepts such scores");
  Remarks broadcast = remarksAfter([](nlohmann::json &nodes) {
    nodes[5]["target"] = "torch.ops.aten.mse_loss.default";
    setInput(nodes[5], 1, "p_l3_bias");
  });
  ASSERT_EQ(broadcast.size(), 1u);
  EXPECT_NE(broadcast[0].find("mse_loss compares 'linear_2' [s6, 10] with "
                              "'p_l3_bias' [10]: broadcasting"),
            std::string::npos)
      << broadcast[0];
}

/// Layers in a Python list. The matrix that the forward itself writes down is
/// no weight, and a vector may be any constant.
TEST(TorchRemarks, WeightsOfNoModule) {
  std::string model = contents(DPC_FIXTURES "/torch/unlisted.pt2");
  ImportOptions options;
  options.globalBatch = 2;
  EXPECT_EQ(import(model, options).remarks,
            std::vector<std::string>{
                "2 weights are neither parameters nor buffers, and are not "
                "trained: lifted_tensor_0 [4, 4], lifted_tensor_2 [4, 4]; "
                "layers in a list need nn.ModuleList, a tensor nn.Parameter or "
                "register_buffer"});
  options.evaluates = true;
  EXPECT_EQ(import(model, options).remarks, std::vector<std::string>());
}

/// Makes the loss of kMlp an nll_loss of a log_softmax.
void normalize(nlohmann::json &nodes) {
  nodes[4]["target"] = "torch.ops.aten.log_softmax.int";
  nodes[4]["inputs"] = {
      nodes[4]["inputs"][0],
      {{"name", "dim"}, {"arg", {{"as_int", 1}}}, {"kind", 1}}};
  nodes[5]["target"] = "torch.ops.aten.nll_loss_nd.default";
}

/// A value of the batch size, or of two, is only told by its symbols.
TEST(TorchRemarks, OneClassAndPairsOfSamples) {
  auto remarks = remarksAfterGraph([](nlohmann::json &graph) {
    graph["tensor_values"]["linear_2"]["sizes"][1] = {{"as_int", 1}};
    normalize(graph["nodes"]);
  });
  ASSERT_FALSE(remarks.empty());
  EXPECT_EQ(remarks.back(), "node 'cross_entropy_loss': nll_loss_nd gets "
                            "scores [s6, 1] of one class: the loss is always 0 "
                            "and trains nothing");
  auto pairs = [](bool isColumn) {
    return remarksAfterGraph([&](nlohmann::json &graph) {
      nlohmann::json &values = graph["tensor_values"];
      nlohmann::json batch = values["linear_2"]["sizes"][0];
      std::string labels =
          graph["nodes"][5]["inputs"][1]["arg"]["as_tensor"]["name"];
      std::string result = graph["nodes"][5]["outputs"][0]["as_tensor"]["name"];
      values["linear_2"]["sizes"][1] =
          isColumn ? nlohmann::json({{"as_int", 1}}) : batch;
      values[labels]["sizes"] = nlohmann::json::array({batch});
      values[result]["sizes"] = nlohmann::json::array({batch, batch});
      graph["nodes"][5]["target"] = "torch.ops.aten.sub.Tensor";
    });
  };
  EXPECT_EQ(pairs(false), std::vector<std::string>());
  remarks = pairs(true);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_NE(
      remarks[0].find(
          "sub broadcasts 'linear_2' [s6, 1] and 'label' [s6] to [s6, s6]: "
          "this pairs elements of different samples"),
      std::string::npos)
      << remarks[0];
}

/// Makes the loss of kMlp `target`, which reads the result of `scores`.
std::vector<std::string> remarksOn(const char *target, const char *scores) {
  return remarksAfter([&](nlohmann::json &nodes) {
    nodes[4]["target"] = scores;
    if (std::string(scores) != "torch.ops.aten.linear.default")
      nodes[4]["inputs"] = {nodes[4]["inputs"][0]};
    nodes[5]["target"] = target;
  });
}

TEST(TorchRemarks, LossesOfProbabilities) {
  auto last = [](const char *target, const char *scores) {
    auto remarks = remarksOn(target, scores);
    return remarks.empty() ? "" : remarks.back();
  };
  const char *sigmoid = "torch.ops.aten.sigmoid.default",
             *linear = "torch.ops.aten.linear.default",
             *binary = "torch.ops.aten.binary_cross_entropy.default",
             *logits =
                 "torch.ops.aten.binary_cross_entropy_with_logits.default";
  EXPECT_EQ(last(logits, sigmoid),
            "node 'cross_entropy_loss': binary_cross_entropy_with_logits "
            "applies a sigmoid to the result of 'linear_2', which is a sigmoid "
            "already");
  EXPECT_EQ(last(logits, linear), "");
  EXPECT_NE(last(binary, "torch.ops.aten.silu.default")
                .find("gets the result of aten.silu.default"),
            std::string::npos);
  auto soft = remarksAfterGraph([&](nlohmann::json &graph) {
    nlohmann::json &nodes = graph["nodes"];
    graph["tensor_values"][nodes[5]["inputs"][1]["arg"]["as_tensor"]["name"]
                               .get<std::string>()]["dtype"] = 7;
    nodes[4]["target"] = sigmoid;
    nodes[4]["inputs"] = {nodes[4]["inputs"][0]};
  });
  ASSERT_FALSE(soft.empty());
  EXPECT_EQ(soft.back(),
            "node 'cross_entropy_loss': cross_entropy_loss applies a softmax "
            "to the result of 'linear_2', which is a sigmoid already");
  EXPECT_EQ(last(binary, linear),
            "node 'cross_entropy_loss': binary_cross_entropy expects "
            "probabilities, but gets the result of aten.linear.default; "
            "binary_cross_entropy_with_logits accepts such scores");
}

} // namespace
