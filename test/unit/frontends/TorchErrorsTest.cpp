//===- TorchErrorsTest.cpp - Rejected .pt2 files --------------------------===//
//
// Every case makes one change to a valid file.
//
//===----------------------------------------------------------------------===//
#include "test/unit/frontends/TorchFile.h"

#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

#include <nlohmann/json.hpp>
#include <regex>

using namespace dpc;
using namespace dpc::torchtest;
using namespace mlir;

namespace {

/// Replaces the first `from` in a record of kMlp by `to`.
std::string replaced(const std::string &suffix, const std::string &from,
                     const std::string &to) {
  return altered(kMlp, suffix, [&](std::string text) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  });
}

void expectRefused(const std::string &bytes,
                   const std::vector<std::string> &parts) {
  std::string error = import(bytes).error;
  for (const std::string &part : parts)
    EXPECT_NE(error.find(part), std::string::npos)
        << "'" << part << "' is not in: " << error;
}

} // namespace

TEST(TorchFile, WeightsStayWhereTheyAre) {
  std::string bytes = contents(kMlp);
  Outcome outcome = import(bytes);
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  ASSERT_EQ(forward.getNumArguments(), 8u);
  auto name = forward.getArgAttrOfType<StringAttr>(0, attr::kName);
  EXPECT_EQ(name.getValue(), "l1.weight");
  auto source = forward.getArgAttrOfType<DictionaryAttr>(0, attr::kSource);
  ASSERT_TRUE(source);
  auto offset = source.getAs<IntegerAttr>("offset").getInt();
  EXPECT_EQ(source.getAs<IntegerAttr>("bytes").getInt(), 48 * 64 * 4);
  // The ONNX export contains the same bytes.
  float first = 0;
  std::memcpy(&first, bytes.data() + offset, sizeof first);
  EXPECT_NE(contents(DPC_FIXTURES "/models/mlp/model.onnx")
                .find(std::string(bytes.data() + offset, 64)),
            std::string::npos)
      << first;
  EXPECT_TRUE(forward.getResultAttr(0, attr::kLoss));
  EXPECT_EQ(forward.getArgAttrOfType<IntegerAttr>(6, attr::kBatchDim).getInt(),
            0);
}

TEST(TorchFile, TiedWeightsAreOneParameterByItsFirstName) {
  Outcome outcome =
      import(contents(DPC_FIXTURES "/models/gpt2-tiny/model.pt2"));
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  int tables = 0;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, attr::kName);
    EXPECT_NE(name.getValue(), "body.head.weight");
    bool isTable = name.getValue() == "body.wte.weight";
    tables += isTable;
    auto aliases = forward.getArgAttrOfType<ArrayAttr>(i, attr::kAliases);
    ASSERT_EQ(aliases != nullptr, isTable) << name.getValue().str();
    if (isTable) {
      ASSERT_EQ(aliases.size(), 1u);
      EXPECT_EQ(cast<StringAttr>(aliases[0]).getValue(), "body.head.weight");
    }
    EXPECT_FALSE(forward.getArgAttr(i, attr::kSource)) << name.getValue().str();
  }
  EXPECT_EQ(tables, 1);
}

TEST(TorchFile, EveryNameOfATiedWeightFreezesIt) {
  std::string model = contents(DPC_FIXTURES "/models/gpt2-tiny/model.pt2");
  auto isFrozen = [&](const std::string &frozen, const std::string &trainable) {
    ImportOptions options;
    options.frozen = {frozen};
    if (!trainable.empty())
      options.trainable = {trainable};
    Outcome outcome = import(model, options);
    EXPECT_EQ(outcome.error, "");
    if (!trainable.empty()) {
      EXPECT_EQ(outcome.remarks.size(), 1U);
      EXPECT_NE(outcome.remarks[0].find("1 weight: body.wte.weight"),
                std::string::npos)
          << outcome.remarks[0];
    }
    auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
    for (unsigned i = 0; i < forward.getNumArguments(); ++i)
      if (forward.getArgAttrOfType<StringAttr>(i, attr::kName) ==
          "body.wte.weight")
        return forward.getArgAttr(i, attr::kFrozen) != nullptr;
    ADD_FAILURE() << "no body.wte.weight";
    return false;
  };
  for (const char *name :
       {"body.wte.weight", "body.head.weight", "body.wte.*", "*.head.*"}) {
    EXPECT_TRUE(isFrozen(name, "")) << name;
    for (const char *other : {"body.wte.weight", "body.head.weight"})
      EXPECT_FALSE(isFrozen(name, other)) << name << " " << other;
  }
  EXPECT_FALSE(isFrozen("body.wpe.*", ""));
}

/// Under FakeTensorMode, torch writes one empty record for all tensors. They
/// are not tied.
TEST(TorchFile, OneEmptyRecordTiesNothing) {
  Outcome outcome =
      import(altered(DPC_FIXTURES "/models/llama-tiny/model.pt2", kTable,
                     [](std::string text) {
                       return std::regex_replace(
                           text, std::regex("weight_[0-9]+"), "weight_0");
                     }));
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  std::vector<std::string> names;
  names.reserve(forward.getNumArguments());
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    names.push_back(forward.getArgAttrOfType<StringAttr>(i, attr::kName).str());
  EXPECT_TRUE(llvm::is_contained(names, "body.emb.weight"));
  EXPECT_TRUE(llvm::is_contained(names, "body.head.weight"));
}

/// A state_dict also has the counters of batch norms, which training ignores.
TEST(TorchFile, UnreadWeightsAreNamed) {
  Outcome outcome =
      import(contents(DPC_FIXTURES "/models/resnet-tiny/model.pt2"));
  ASSERT_EQ(outcome.error, "");
  auto unread =
      outcome.module.get()->getAttrOfType<ArrayAttr>(attr::kUnreadWeights);
  ASSERT_TRUE(unread);
  int counters = 0;
  for (auto name : unread.getAsRange<StringAttr>())
    counters += name.getValue().ends_with("num_batches_tracked");
  EXPECT_EQ(counters, 20);
}

TEST(TorchFile, RunningStatisticsAreUpdated) {
  Outcome outcome =
      import(contents(DPC_FIXTURES "/models/resnet-tiny/model.pt2"));
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  int updates = 0;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    updates += forward.getResultAttr(i, attr::kTies) != nullptr;
  EXPECT_EQ(updates, 40); // mean and variance of 20 layers
}

/// A changed integer is a buffer with a next value, and never a constant.
TEST(TorchFile, ChangedIntegersAreUpdated) {
  Outcome outcome = import(contents(DPC_FIXTURES "/torch/changes.pt2"));
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  std::vector<std::string> updated;
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto tied = forward.getResultAttrOfType<IntegerAttr>(i, attr::kTies);
    if (!tied)
      continue;
    auto argument = static_cast<unsigned>(tied.getInt());
    EXPECT_EQ(forward.getResultTypes()[i],
              forward.getArgumentTypes()[argument]);
    EXPECT_EQ(dpc::roleOf(forward.getArgument(argument)), role::kBuffer);
    updated.push_back(
        forward.getArgAttrOfType<StringAttr>(argument, attr::kName).str());
  }
  llvm::sort(updated);
  EXPECT_EQ(updated,
            (std::vector<std::string>{"mask", "mean", "norm.running_mean",
                                      "norm.running_var", "odd", "powers",
                                      "seen", "slow", "steps", "unsaved"}));
}

TEST(TorchFile, SymbolsAreBoundByPlaceToo) {
  ImportOptions options;
  options.bind["x.0"] = 5;
  Outcome outcome = import(contents(kMlp), options);
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  EXPECT_EQ(cast<RankedTensorType>(forward.getArgumentTypes()[7]).getDimSize(0),
            5);
  options.globalBatch = 6;
  EXPECT_NE(import(contents(kMlp), options).error.find("contradicts"),
            std::string::npos);
}

TEST(TorchFile, FrozenParametersAreBuffers) {
  ImportOptions options;
  options.globalBatch = 8;
  options.frozen = {"l1.*"};
  Outcome outcome = import(contents(kMlp), options);
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  EXPECT_EQ(forward.getArgAttrOfType<StringAttr>(0, attr::kName).getValue(),
            "l2.weight");
  options.frozen = {"nothing"};
  EXPECT_NE(import(contents(kMlp), options).error.find("no weight of m.pt2"),
            std::string::npos);
}

TEST(TorchErrors, BuffersAreNotTrained) {
  const std::string model = contents(DPC_FIXTURES "/torch/changes.pt2");
  ImportOptions options;
  options.globalBatch = 8;
  options.frozen = {"first.*", "norm.running_mean"};
  std::string error = import(model, options).error;
  EXPECT_NE(error.find("--frozen=norm.running_mean: matches only buffers of "
                       "m.pt2, which are never trained"),
            std::string::npos)
      << error;
  options.frozen = {"norm.*"};
  EXPECT_EQ(import(model, options).error, "");
  // --trainable takes precedence over --frozen, which is therefore no advice.
  options.trainable = {"norm.running_mean"};
  error = import(model, options).error;
  EXPECT_NE(error.find("or leave this buffer out of --trainable"),
            std::string::npos)
      << error;
}

TEST(TorchErrors, OtherFiles) {
  expectRefused("", {"m.pt2: not a .pt2 file"});
  expectRefused("not a zip", {"m.pt2: not a .pt2 file"});
  expectRefused(contents(kMlp).substr(0, 20000), {"not a .pt2 file"});
  expectRefused(replaced(kModel, "{", "["), {"models/model.json", "not JSON"});
}

TEST(TorchErrors, SchemaVersion) {
  expectRefused(replaced(kModel, "\"major\": 8", "\"major\": 9"),
                {"major version 9", "accepted: 8"});
  expectRefused(replaced("byteorder", "little", "big"),
                {"byte order is 'big'", "accepted: little"});
}

TEST(TorchErrors, Damage) {
  expectRefused(replaced(kModel, "\"nodes\"", "\"n\""), {"nodes is missing"});
  expectRefused(replaced(kTable, "\"as_int\": 64", "\"as_int\": 640"),
                {"weight 'l1.weight'"});
  expectRefused(replaced(kTable, "\"as_int\": 64", "\"as_int\": -1"),
                {"impossible dimensions"});
  expectRefused(replaced(kTable, "weight_0", "weight_9"),
                {"weight_9", "missing from the archive"});
  expectRefused(
      altered(kMlp, "weight_0", [](std::string s) { return s.substr(4); }),
      {"weight 'l1.weight' ends at byte 12288", "holds 12284"});
}

TEST(TorchErrors, CompressedWeight) {
  expectRefused(
      altered(
          kMlp, "weight_0", [](std::string s) { return s; }, ZIP_CM_DEFLATE),
      {"weight 'l1.weight'", "compressed", "must be stored"});
}

TEST(TorchErrors, Nodes) {
  expectRefused(replaced(kModel, "torch.ops.aten.relu.default",
                         "torch.ops.aten.stft.default"),
                {"node 1 'relu'", "aten.stft.default", "not supported"});
  expectRefused(replaced(kModel, "torch.ops.aten.relu.default",
                         "torch.ops.aten.nonzero.default"),
                {"node 1 'relu'", "depends on data", "torch.where"});
  expectRefused(
      replaced(kModel, "\"name\": \"bias\"", "\"name\": \"extra\""),
      {"node 0 'linear'", "'extra' is not known", "input, weight, bias"});
  expectRefused(replaced(kModel, "\"name\": \"input\"", "\"name\": \"bias\""),
                {"node 0 'linear'", "'input' is missing"});
  expectRefused(replaced(kModel,
                         "\"target\": \"torch.ops.aten.linear.default\"",
                         "\"target\": \"torch.ops.aten.matmul.default\""),
                {"node 0 'linear'", "aten.matmul.default"});
}

/// The advice to decompose an operator is given only where it helps.
TEST(TorchErrors, DecompositionIsAdvisedWhereItHelps) {
  auto refusalOf = [](const std::string &op) {
    return import(replaced(kModel, "torch.ops.aten.relu.default",
                           "torch.ops.aten." + op + ".default"))
        .error;
  };
  for (const char *op :
       {"logit", "nan_to_num", "nansum", "rot90", "std_mean"}) {
    std::string error = refusalOf(op);
    EXPECT_NE(error.find("get_decompositions([aten." + std::string(op)),
              std::string::npos)
        << error;
  }
  for (const char *op : {"gru", "lstm", "rnn_relu", "rnn_tanh"})
    EXPECT_NE(refusalOf(op).find("run it on padded sequences"),
              std::string::npos);
  for (const char *op : {"cummax", "kthvalue"}) {
    std::string error = refusalOf(op);
    EXPECT_NE(error.find("node 1 'relu'"), std::string::npos) << error;
    EXPECT_NE(error.find("compute it with other operators"), std::string::npos)
        << error;
    EXPECT_EQ(error.find("decompositions"), std::string::npos) << error;
  }
}

TEST(TorchErrors, AllUnknownOperatorsAreNamedAtOnce) {
  const std::regex linear("aten\\.linear\\."), relu("aten\\.relu\\.");
  std::string bytes = altered(kMlp, kModel, [&](const std::string &text) {
    return std::regex_replace(std::regex_replace(text, linear, "aten.bend."),
                              relu, "aten.twist.");
  });
  // Each operator is named once, although several nodes use it.
  expectRefused(bytes, {"m.pt2: 2 operators are not supported: "
                        "aten.bend.default (3 nodes, first node 0 'linear')",
                        "; aten.twist.default (2 nodes, first node 1 'relu'"});
}

/// A node's line is the innermost one that is not PyTorch's.
TEST(TorchErrors, UnknownOperatorsAreNamedWithTheirLines) {
  const std::regex target("\"torch.ops.aten.relu.default\""),
      metadata("\"metadata\": \\{[^{}]*\\}");
  std::string trace =
      R"("metadata": {"stack_trace": "File \"/a/model.py\", line 7, in loss\n)"
      R"(  y = f(x)\n  File \"/b/site-packages/torch/f.py\", line 9, in f\n"})";
  std::string bytes = altered(kMlp, kModel, [&](const std::string &text) {
    return std::regex_replace(std::regex_replace(text, metadata, trace), target,
                              "\"torch.ops.aten.twist.default\"");
  });
  expectRefused(bytes, {"node 1 'relu' at model.py:7 in loss): compute it"});
}

/// The program writes to a reshape, which may be a copy, and returns its base.
TEST(TorchErrors, WriteToAPossibleCopy) {
  ImportOptions options;
  options.globalBatch = 3;
  std::string error =
      import(contents(DPC_FIXTURES "/torch/either.pt2"), options).error;
  for (const char *part : {"aten.add_.Tensor: writes to 'reshape'",
                           "is a copy of it", "run_decompositions"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

/// A write to a detached tensor is refused if gradients flow to its base.
/// A write to a detached input is accepted, because inputs have no gradient.
TEST(TorchErrors, WriteThroughDetachWhereALossFollows) {
  ImportOptions options;
  options.globalBatch = 3;
  for (bool appendsLoss : {false, true}) {
    options.appendsLoss = appendsLoss;
    EXPECT_EQ(import(contents(DPC_FIXTURES "/torch/writes.pt2"), options).error,
              "");
  }
  std::string error =
      import(contents(DPC_FIXTURES "/torch/detached.pt2"), options).error;
  EXPECT_NE(error.find("writes to a result of detach"), std::string::npos)
      << error;
}

/// PyTorch would keep the gradient of the value before the write.
TEST(TorchErrors, WriteWithoutGradientsToATensorWithOne) {
  ImportOptions options;
  options.globalBatch = 3;
  for (const char *file :
       {DPC_FIXTURES "/torch/ungraded.pt2", DPC_FIXTURES "/torch/nested.pt2"}) {
    std::string error = import(contents(file), options).error;
    EXPECT_NE(error.find("under torch.no_grad(), to a tensor with gradients"),
              std::string::npos)
        << file << ": " << error;
  }
}

TEST(TorchErrors, TypesOfAutocast) {
  ImportOptions options;
  options.globalBatch = 3;
  std::string error =
      import(contents(DPC_FIXTURES "/torch/autocast.pt2"), options).error;
  EXPECT_NE(
      error.find("the result is [3, 1] f32, but the file states BFLOAT16; "
                 "was the model exported with autocast?"),
      std::string::npos)
      << error;
}

/// A block without gradients may read sizes of its surroundings.
TEST(TorchFile, SizesEnterABlockWithoutGradients) {
  ImportOptions options;
  options.globalBatch = 3;
  Outcome outcome = import(contents(DPC_FIXTURES "/torch/sized.pt2"), options);
  ASSERT_EQ(outcome.error, "");
  int stops = 0;
  outcome.module->walk(
      [&](ConvertOp op) { stops += op->hasAttr(attr::kStopGradient); });
  EXPECT_EQ(stops, 1);
}

/// Gradients cannot be enabled again inside a graph without gradients.
TEST(TorchErrors, GradientsOnInsideNoGrad) {
  ImportOptions options;
  options.globalBatch = 3;
  std::string bytes =
      altered(DPC_FIXTURES "/torch/nested.pt2", kModel, [](std::string text) {
        std::string from = "wrap_with_autocast",
                    to = "wrap_with_set_grad_enabled";
        size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos);
        return text.replace(at, from.size(), to);
      });
  EXPECT_NE(import(bytes, options)
                .error.find("turns gradients on inside a "
                            "graph that runs without them"),
            std::string::npos);
}

TEST(TorchErrors, UnboundSymbol) {
  ImportOptions options;
  options.bind["nothing"] = 3;
  EXPECT_NE(import(contents(kMlp), options)
                .error.find("has no symbolic dimension 'nothing'"),
            std::string::npos);
}

/// Returns kMlp with the outputs `names` in containers that `outSpec`
/// describes. "cross_entropy_loss" and "twice" are scalars, "linear_2" is none.
std::string returning(const std::vector<std::string> &names,
                      const nlohmann::json &outSpec) {
  return altered(kMlp, kModel, [&](const std::string &text) {
    nlohmann::json model = nlohmann::json::parse(text);
    nlohmann::json &module = model["graph_module"];
    auto tensor = [](const std::string &name) {
      return nlohmann::json{{"as_tensor", {{"name", name}}}};
    };
    nlohmann::json &graph = module["graph"], node = graph["nodes"].back();
    nlohmann::json loss = tensor("cross_entropy_loss");
    node["target"] = "torch.ops.aten.add.Tensor";
    node["name"] = "twice";
    node["inputs"][0]["arg"] = loss;
    node["inputs"][1] = {{"name", "other"}, {"arg", loss}, {"kind", 1}};
    node["outputs"][0] = tensor("twice");
    graph["nodes"].push_back(node);
    graph["tensor_values"]["twice"] =
        graph["tensor_values"]["cross_entropy_loss"];
    graph["outputs"] = nlohmann::json::array();
    nlohmann::json &specs = module["signature"]["output_specs"];
    specs = nlohmann::json::array();
    for (const std::string &name : names) {
      graph["outputs"].push_back(tensor(name));
      specs.push_back({{"user_output", {{"arg", tensor(name)}}}});
    }
    module["module_call_graph"][0]["signature"]["out_spec"] =
        nlohmann::json::array({1, outSpec}).dump();
    return model.dump();
  });
}

/// Returns a container in torch's form, which has the context as JSON in a
/// text. Without arguments, returns a leaf.
nlohmann::json container(const nlohmann::json &type = nullptr,
                         const nlohmann::json &context = nullptr,
                         const std::vector<nlohmann::json> &children = {}) {
  return {{"type", type},
          {"context",
           type.is_null() ? nlohmann::json() : nlohmann::json(context.dump())},
          {"children_spec", children}};
}

/// Returns the names of the outputs; "*" follows the one that is trained.
std::string outputsOf(const std::string &bytes,
                      const ImportOptions &options = {}) {
  Outcome outcome = import(bytes, options);
  if (!outcome.error.empty())
    return outcome.error;
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  std::string names;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    names += (i ? " " : "") +
             forward.getResultAttrOfType<StringAttr>(i, attr::kName).str() +
             (forward.getResultAttr(i, attr::kLoss) ? "*" : "");
  return names;
}

TEST(TorchFile, OutputsHaveTheirKeysAsNames) {
  const std::vector<std::string> two = {"cross_entropy_loss", "twice"};
  const std::vector<nlohmann::json> leaves = {container(), container()};
  EXPECT_EQ(outputsOf(returning(
                two, container("builtins.dict", {"ce", "loss"}, leaves))),
            "ce loss*");
  // ModelOutput has a list of keys, as dicts have; dataclasses and named tuples
  // have more.
  EXPECT_EQ(
      outputsOf(returning(
          two, container("m.Output",
                         {"m.Output", {"loss", "z"}, nlohmann::json::array()},
                         leaves))),
      "loss* z");
  EXPECT_EQ(outputsOf(returning(
                two, container("collections.namedtuple",
                               {{"class_name", "m.T"}, {"fields", {"a", "b"}}},
                               leaves))),
            "a b");
  nlohmann::json inner = container("builtins.list", nullptr, {container()});
  EXPECT_EQ(outputsOf(returning(two, container("builtins.dict", {"loss", "aux"},
                                               {container(), inner}))),
            "loss* aux.0");
  nlohmann::json nested =
      container("builtins.dict", nlohmann::json::array({"b"}), {container()});
  EXPECT_EQ(outputsOf(returning(two, container("builtins.dict", {"a.b", "a"},
                                               {container(), nested}))),
            "a.b a.b_");
}

TEST(TorchFile, OutputsWithoutKeysHaveTheNamesOfTheirNodes) {
  const std::vector<std::string> two = {"linear_2", "twice"};
  const std::vector<nlohmann::json> leaves = {container(), container()};
  EXPECT_EQ(
      outputsOf(returning(two, container("builtins.tuple", nullptr, leaves))),
      "linear_2 twice*");
  // The tree has another number of leaves, or is no tree.
  EXPECT_EQ(outputsOf(returning(two, container())), "linear_2 twice*");
  EXPECT_EQ(outputsOf(returning(two, 7)), "linear_2 twice*");
  EXPECT_EQ(
      outputsOf(returning(two, container("builtins.dict", {{"a", 1}}, leaves))),
      "linear_2 twice*");
  EXPECT_EQ(outputsOf(returning({"twice", "twice"}, 7)), "twice twice_");
}

TEST(TorchFile, AnOptionChoosesTheTrainedOutput) {
  std::string bytes = returning(
      {"cross_entropy_loss", "twice"},
      container("builtins.dict", {"ce", "loss"}, {container(), container()}));
  ImportOptions options;
  options.lossOutput = "ce";
  EXPECT_EQ(outputsOf(bytes, options), "ce* loss");
  options.lossOutput = "twice";
  EXPECT_EQ(outputsOf(bytes, options),
            "m.pt2: --loss-output=twice: no output has this name; accepted: "
            "'ce', 'loss'");
}

/// Damaged bytes lead to a module or one message, not to a crash.
TEST(TorchErrors, AnyByteMayBeWrong) {
  std::string good = contents(DPC_FIXTURES "/torch/labels.pt2");
  unsigned state = 1;
  for (int n = 0; n < 300; ++n) {
    std::string bad = good;
    for (int k = 0; k < 1 + n % 4; ++k) {
      state = state * 1664525u + 1013904223u;
      bad[(state >> 8) % bad.size()] = static_cast<char>(state >> 3);
    }
    import(bad);
  }
  // Damage the program alone; a damaged archive mostly fails a checksum.
  for (int n = 0; n < 300; ++n)
    import(altered(DPC_FIXTURES "/torch/labels.pt2", kModel,
                   [&](std::string text) {
                     state = state * 1664525u + 1013904223u;
                     size_t at = (state >> 8) % text.size();
                     text[at] = "0123456789abcnse\"{}[],-"[(state >> 4) % 23];
                     return text;
                   }));
}
