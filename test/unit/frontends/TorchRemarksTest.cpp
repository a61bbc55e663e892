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

/// Returns the remarks on kMlp after `change` to the nodes of its program.
std::vector<std::string>
remarksAfter(llvm::function_ref<void(nlohmann::json &)> change) {
  return import(altered(kMlp, kModel,
                        [&](const std::string &text) {
                          auto json = nlohmann::json::parse(text);
                          change(json["graph_module"]["graph"]["nodes"]);
                          return json.dump();
                        }))
      .remarks;
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
  });
  ASSERT_EQ(softmax.size(), 2u);
  EXPECT_EQ(softmax[0],
            "2 weights of the model are not used: l3.bias, l3.weight");
  EXPECT_EQ(softmax[1],
            "node 'cross_entropy_loss': cross_entropy_loss applies a softmax "
            "to the result of 'relu_1', which is a softmax already");
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

} // namespace
