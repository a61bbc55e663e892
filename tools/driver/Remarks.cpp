//===- Remarks.cpp - Remarks on options that may be a mistake -------------===//
#include "tools/driver/Remarks.h"

#include "cost-model/machine/Fp8GemmRates.h"
#include "ir/NodeName.h"
#include "passes/graph/Passes.h"
#include "passes/shard/LoweringSpec.h"
#include "passes/shard/StrategyGraph.h"
#include "runtime/plan/PlanFp8.h"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace dpc {

static std::map<std::string, std::string> pairsOf(const std::string &text) {
  std::map<std::string, std::string> pairs;
  for (llvm::StringRef word : llvm::split(text, ','))
    if (auto [key, value] = word.split('='); key.size() < word.size())
      pairs[key.str()] = value.str();
  return pairs;
}

std::string whyOneMicroBatch(mlir::func::FuncOp program) {
  if (hasBatchNorms(program))
    return "they change the results of batch norm; micro_batch=N in "
           "--strategy allows them";
  mlir::Operation *op = ProgramFacts(program).wholeBatchOp();
  if (op && llvm::isa<ConstantOp>(op) && !op->use_empty())
    return nodeOf(*op->user_begin()) +
           " reads a constant that has a row for each sample of a rank, which "
           "they would split";
  if (op)
    return "'" + op->getName().getStringRef().str() +
           "' reads the whole batch of a rank, which they would split";
  return "";
}

std::vector<std::string> remarksOn(const std::string &asked,
                                   const cost::Strategy &chosen,
                                   int64_t globalBatch,
                                   const cost::Software &software) {
  std::vector<std::string> remarks;
  auto pairs = pairsOf(asked);
  static const cost::Strategy neutral;
  // Returns why `needing` has no effect: the value, as "KEY=VALUE", of the key
  // on which `needing` depends.
  auto whyIdle = [&](const cost::KeyInfo &needing) {
    std::string why;
    cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
      if (key.name == needing.needs)
        why = std::string(key.name) + "=" + cost::printValue(field(chosen));
    });
    return why;
  };
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    auto found = pairs.find(std::string(key.name));
    if (found == pairs.end() ||
        found->second == cost::printValue(field(neutral)))
      return;
    std::string why;
    if (!hasEffect(key, chosen))
      why = whyIdle(key);
    else if (key.name == "zero" && chosen.dp * chosen.cp == 1)
      why = "dp=1, so no ranks share states";
    else if (key.isTriedFor && !key.isTriedFor(software))
      why = "the software profile " + software.name + " does not provide it";
    if (!why.empty())
      remarks.push_back(std::string(key.name) + "=" + found->second +
                        " has no effect: " + why);
  });
  int64_t share = (globalBatch + chosen.dp - 1) / chosen.dp;
  if (auto found = pairs.find("micro_batch");
      found != pairs.end() &&
      found->second != std::to_string(chosen.microBatch))
    remarks.push_back("micro_batch=" + found->second + " exceeds the " +
                      std::to_string(share) + " samples of a rank: " +
                      std::to_string(chosen.microBatch) + " is used");
  if (int64_t working = (globalBatch + share - 1) / share; working < chosen.dp)
    remarks.push_back(std::to_string(chosen.dp - working) + " of " +
                      std::to_string(chosen.dp) +
                      " data-parallel ranks get no sample of a batch of " +
                      std::to_string(globalBatch));
  return remarks;
}

std::string remarkOnTarget(const std::string &targetGpu,
                           const cost::Cluster &cluster) {
  if (targetGpu.empty())
    return "";
  constexpr int kFirstWithBf16 = 80;
  long target = std::strtol(targetGpu.c_str() + 3, nullptr, 10);
  for (const cost::NodeGroup &group : cluster.groups) {
    const cost::Device &device = group.device;
    auto lacks = [&](cost::DType type, long first) {
      return device.peak(type) == 0 && target >= first;
    };
    if (device.peak(cost::DType::F16) == 0 &&
        device.peak(cost::DType::BF16) == 0)
      return "--target-gpu=" + targetGpu +
             ": time and memory are predicted for " + device.name +
             ", which is no GPU; a cluster.json with GPUs gives predictions "
             "for "
             "GPUs";
    bool isOlder = lacks(cost::DType::BF16, kFirstWithBf16);
    if (isOlder || lacks(cost::DType::FP8, rt::kFirstWithFp8))
      return "--target-gpu=" + targetGpu + ": " + device.name +
             " cannot run such a plan: its device file has no peak of " +
             (isOlder ? "bf16, which sm_80" : "fp8, which sm_89") +
             " and later have";
  }
  return "";
}

// The cost model uses the same multiple for fp8 GEMMs.
static constexpr int64_t kStep = rt::kFp8Multiple;
static_assert(cost::takesFp8(kStep, kStep, kStep) &&
              !cost::takesFp8(kStep / 2, kStep, kStep) &&
              !cost::takesFp8(kStep, kStep / 2, kStep) &&
              !cost::takesFp8(kStep, kStep, kStep / 2));
static_assert(cost::fp8WorkspaceBytes(16, 48, 80) ==
              rt::fp8WorkspaceBytes(16, 48, 80));

std::string whyNoFp8(const CompileOptions &options,
                     const cost::Cluster &cluster) {
  if (options.precision != "fp8")
    return "";
  // "sm_90" or "sm_90a"
  if (options.targetGpu.size() > 3 &&
      std::strtol(options.targetGpu.c_str() + 3, nullptr, 10) <
          rt::kFirstWithFp8)
    return "--precision=fp8: " + options.targetGpu + " has no fp8 GEMMs; sm_" +
           std::to_string(rt::kFirstWithFp8) +
           " and later are accepted, and --precision=bf16 here";
  for (const cost::NodeGroup &group : cluster.groups) {
    const cost::Device &device = group.device;
    bool isGpu =
        device.peak(cost::DType::F16) > 0 || device.peak(cost::DType::BF16) > 0;
    if (isGpu && device.peak(cost::DType::FP8) == 0)
      return "--precision=fp8: device " + device.name +
             " has no fp8 GEMMs; --precision=bf16 is accepted here, and fp8 "
             "on devices with an fp8 peak, such as h100-sxm-80gb";
  }
  return "";
}

std::string remarkOnFp8(const CompileOptions &options, bool hasFp8) {
  if (options.precision != "fp8" || hasFp8)
    return "";
  return "--precision=fp8: all GEMMs of this plan are in bf16; fp8 needs GEMMs "
         "of a linear layer other than the last, whose sizes on a rank are "
         "multiples of 16";
}

std::string remarkOnNarrowCpu(const CompileOptions &options, bool hasBf16) {
  bool isNarrow = options.precision == "bf16" || options.precision == "fp16" ||
                  options.precision == "fp8";
  bool runsHere =
      options.cluster.starts_with("local:") && options.targetGpu.empty();
  if (!isNarrow || !runsHere || (hasBf16 && options.precision == "bf16"))
    return "";
  std::string instructions =
      options.precision == "bf16" ? "bf16" : options.precision + " GEMM";
  return "--precision=" + options.precision +
         " is slower than fp32 on this processor, which has no " +
         instructions +
         " instructions: GEMMs convert their operands to fp32; "
         "--precision=fp32 is faster, and takes more memory";
}

std::string remarkOnLossScale(const CompileOptions &options) {
  bool isOn = options.lossScaleInterval == 0;
  if (!isOn || options.precision == "fp16" || options.lossScale == 1)
    return "";
  char scale[32];
  std::snprintf(scale, sizeof scale, "%.9g", options.lossScale);
  return std::string("--loss-scale=") + scale +
         ": gradients of --precision=" + options.precision +
         " do not underflow, so that the scale changes nothing; 1 skips steps "
         "whose gradients are not finite as well";
}

std::vector<std::string> remarksOnRates(const CompileOptions &options) {
  // An update of AdamW is about as large as the rate. The rounding of fp32
  // loses it in weights of 0.01.
  constexpr double kLostRate = 1e-10;
  // Gradients of large models are smaller, so that the update is proportional
  // to them, as in SGD.
  constexpr double kLargeEps = 1e-3;
  constexpr double kMostDecay = 0.5;
  std::vector<std::string> remarks;
  auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return std::string(text);
  };
  const bool isSgd = options.train == "sgd";
  const double decay =
      options.lr * options.weightDecay.value_or(isSgd ? 0 : 0.01);
  if (decay > kMostDecay)
    remarks.push_back("--lr times --weight-decay is " + number(decay) +
                      ": each step multiplies the weights by " +
                      number(1 - decay));
  if (!isSgd && options.lr > 0 && options.lr < kLostRate)
    remarks.push_back("--lr=" + number(options.lr) +
                      ": updates of this size are lost in the rounding of "
                      "fp32 weights");
  if (!isSgd && options.eps >= kLargeEps)
    remarks.push_back("--eps=" + number(options.eps) +
                      " is larger than most gradients: AdamW then does not "
                      "normalize them");
  return remarks;
}

std::string remarkOnBetas(const CompileOptions &options) {
  if (options.train == "sgd" || options.beta1 <= options.beta2)
    return "";
  char betas[96];
  std::snprintf(betas, sizeof betas,
                "--beta1=%.9g is greater than --beta2=%.9g", options.beta1,
                options.beta2);
  return std::string(betas) +
         ": gradients are averaged over more steps than their squares; are the "
         "two swapped?";
}

/// Returns `text` without the names that follow "node ".
static std::string withoutNodes(llvm::StringRef text) {
  constexpr llvm::StringLiteral kNode = "node '";
  std::string rest;
  for (size_t at; (at = text.find(kNode)) != llvm::StringRef::npos;) {
    rest += text.take_front(at + kNode.size());
    text = text.drop_front(at + kNode.size());
    text = text.drop_front(std::min(text.find('\''), text.size()));
  }
  return rest + text.str();
}

std::vector<std::string> groupedRemarks(const std::vector<std::string> &remarks,
                                        size_t &notices) {
  std::vector<std::string> firsts;
  std::vector<size_t> counts;
  std::map<std::pair<bool, std::string>, size_t> groups;
  for (const auto &[index, text] : llvm::enumerate(remarks)) {
    auto [group, isNew] = groups.try_emplace(
        {index < notices, withoutNodes(text)}, firsts.size());
    if (isNew) {
      firsts.push_back(text);
      counts.push_back(0);
    }
    ++counts[group->second];
  }
  notices = llvm::count_if(groups,
                           [](const auto &group) { return group.first.first; });
  for (auto [text, count] : llvm::zip(firsts, counts))
    if (count > 1)
      text += " (and " + std::to_string(count - 1) + " more like it)";
  return firsts;
}

std::string refusedCompression(const LoweringSpec &spec, bool trains,
                               bool scalesLoss) {
  const std::string &gradients = spec.compressGradients;
  std::string why;
  if (!gradients.empty() && !trains)
    why = "inference has no gradients; it is accepted for training";
  else if (!gradients.empty() && spec.dp * spec.cp == 1)
    why = "with dp=1 and cp=1 no ranks reduce gradients; it is accepted with "
          "dp=N or cp=N in --strategy";
  else if (topkShare(gradients) && spec.zero > 0)
    why =
        "zero=" + std::to_string(spec.zero) +
        " scatters gradients, so that no rank has a whole one; it is accepted "
        "with zero=0, and int8 with any";
  else if (topkShare(gradients) && scalesLoss)
    why =
        "the residual would keep an overflow although the step is skipped; it "
        "is accepted with fp32 and bf16 without --loss-scale";
  if (!why.empty())
    return "--compress-gradients=" + gradients + ": " + why;
  if (!spec.compressWeights.empty() && spec.zero != 3)
    return "--compress-weights=" + spec.compressWeights +
           ": with zero=" + std::to_string(spec.zero) +
           " no weights are gathered; it is accepted with zero=3 in "
           "--strategy";
  return "";
}

} // namespace dpc
