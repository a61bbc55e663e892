//===- ReadMegatron.cpp - A strategy from flags of Megatron-LM ------------===//
//
// Reads a command line, or a script that has one (ShellWords.h).
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Import.h"
#include "codegen/export/ShellWords.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace dpc::exports {

namespace {

using Words = std::vector<std::string>;

/// Words of a script, with variables filled in.
class Script {
public:
  explicit Script(const std::string &text) : words(shellWords(text)) {}
  /// Whether its command runs a program of this name, or the like.
  bool runs(const std::string &part) const {
    return std::any_of(words.begin(), words.end(), [&](const auto &word) {
      return word.ends_with(".py") && word.find(part) != std::string::npos;
    });
  }
  /// What follows each flag, up to the next one.
  std::map<std::string, Words> flags() const;

private:
  Words words;
};

/// Turns flags into a strategy.
class Reader {
public:
  Reader(const Script &script, int64_t devices)
      : flags(script.flags()), devices(devices),
        hasTwoStacks(script.runs("t5")) {}
  Expected<Imported> run();

private:
  std::map<std::string, Words> flags;
  int64_t devices;
  bool hasTwoStacks; ///< Of layers: an encoder's and a decoder's.
  Imported result;
  std::set<std::string> used;

  bool has(const std::string &flag);
  /// Of a flag that was given; "" without one.
  std::string word(const std::string &flag);
  Expected<int64_t> number(const std::string &flag, int64_t missing);
  Status refuseOthers();
  Status readRanks();
  Status readDegrees();
  Status readStages();
  Status readExperts();
  Status readData();
  Status readRecompute();
  Status readBatch();
  void readSizes();
  void readVocabulary();
  void readRest();
};

} // namespace

static Error wrong(const std::string &what) {
  return Error{"Megatron-LM's flags: " + what};
}

std::map<std::string, Words> Script::flags() const {
  std::map<std::string, Words> found;
  std::string last;
  for (const std::string &word : words) {
    if (word.rfind("--", 0) != 0) {
      if (!last.empty())
        found[last].push_back(word);
      continue;
    }
    size_t equal = word.find('=');
    last = word.substr(2, equal == std::string::npos ? equal : equal - 2);
    std::replace(last.begin(), last.end(), '_', '-');
    found[last].clear();
    if (equal != std::string::npos)
      found[last].push_back(word.substr(equal + 1));
  }
  return found;
}

bool Reader::has(const std::string &flag) {
  used.insert(flag);
  return flags.count(flag) > 0;
}

std::string Reader::word(const std::string &flag) {
  return has(flag) && !flags[flag].empty() ? flags[flag].front() : "";
}

Expected<int64_t> Reader::number(const std::string &flag, int64_t missing) {
  if (!has(flag))
    return missing;
  std::string text = word(flag);
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    return wrong("--" + flag + " '" + text + "' is no whole number >= 1");
  return value;
}

/// What splits work in ways that --strategy has no keys for, or says it
/// elsewhere.
Status Reader::refuseOthers() {
  for (const char *flag :
       {"hierarchical-context-parallel-sizes", "hybrid-context-parallel",
        "tensor-parallel-num-weight-shards",
        "expert-tensor-parallel-num-weight-shards",
        "fine-grained-activation-offloading", "cpu-offloading-num-layers",
        "encoder-tensor-model-parallel-size",
        "encoder-pipeline-model-parallel-size", "rampup-batch-size", "yaml-cfg",
        "hybrid-layer-pattern"})
    if (has(flag))
      return wrong(std::string("--") + flag +
                   " has no key of --strategy; expected a command without it");
  return Status();
}

Status Reader::readRanks() {
  auto nodes = number("nnodes", 0), each = number("nproc-per-node", 0);
  if (!nodes || !each)
    return Error{(nodes ? each : nodes).message()};
  if (*each == 0)
    return Status();
  int64_t ranks = std::max<int64_t>(1, *nodes) * *each;
  if (ranks > devices)
    return wrong("torchrun starts " + std::to_string(ranks) +
                 " processes; expected at most the " + std::to_string(devices) +
                 " devices of the cluster");
  devices = ranks;
  return Status();
}

Status Reader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  auto tp = number("tensor-model-parallel-size", 1);
  auto pp = number("pipeline-model-parallel-size", 1);
  auto cp = number("context-parallel-size", 1);
  for (const auto *degree : {&tp, &pp, &cp})
    if (!*degree)
      return Error{degree->message()};
  strategy.tp = *tp;
  strategy.pp = *pp;
  strategy.cp = *cp;
  std::string kind = word("cp-comm-type");
  if (kind == "a2a+p2p" ||
      (has("cp-comm-type") && flags["cp-comm-type"].size() > 1))
    return wrong("--cp-comm-type " + kind +
                 " mixes two kinds; expected p2p, a2a or allgather");
  if (strategy.cp > 1)
    strategy.cpKind =
        kind == "a2a" ? cost::CpKind::Ulysses : cost::CpKind::Ring;
  strategy.sp = has("sequence-parallel") && strategy.tp.ranks > 1;
  int64_t model = strategy.tp.ranks * strategy.pp * strategy.cp;
  if (devices % model != 0)
    return wrong("tp=" + std::to_string(*tp) + ",pp=" + std::to_string(*pp) +
                 ",cp=" + std::to_string(*cp) + " do not divide " +
                 std::to_string(devices) + " ranks");
  strategy.dp = devices / model;
  if (has("use-tp-pp-dp-mapping"))
    strategy.placement = {{"tp", "cp", "pp", "dp"}, {}};
  return Status();
}

Status Reader::readStages() {
  cost::Strategy &strategy = result.strategy;
  auto chunks = number("num-virtual-stages-per-pipeline-rank", 1);
  auto each = number("num-layers-per-virtual-pipeline-stage", 0);
  auto layers = number("num-layers", 0);
  for (const auto *value : {&chunks, &each, &layers})
    if (!*value)
      return Error{value->message()};
  strategy.vpp = *chunks;
  if (*each > 0) {
    if (*layers == 0)
      return wrong("--num-layers-per-virtual-pipeline-stage " +
                   std::to_string(*each) +
                   " needs --num-layers, which is not "
                   "there");
    if (*layers % (*each * strategy.pp) != 0)
      return wrong("--num-layers-per-virtual-pipeline-stage " +
                   std::to_string(*each) + " with --num-layers " +
                   std::to_string(*layers) +
                   " and pp=" + std::to_string(strategy.pp) +
                   " leaves layers over; expected a divisor");
    strategy.vpp = *layers / (*each * strategy.pp);
  }
  if (std::string layout = word("pipeline-model-parallel-layout");
      !layout.empty()) {
    int64_t stages = 1 + std::count(layout.begin(), layout.end(), '|');
    if (layout.find('(') != std::string::npos || stages % strategy.pp != 0)
      return wrong("--pipeline-model-parallel-layout " + layout +
                   "; expected a stage for every chunk of pp=" +
                   std::to_string(strategy.pp) + ", written out");
    strategy.vpp = stages / strategy.pp;
  }
  if (strategy.pp == 1)
    strategy.vpp = 1;
  strategy.schedule = strategy.vpp > 1 ? cost::ScheduleKind::Interleaved
                                       : cost::ScheduleKind::OneFOneB;
  return Status();
}

Status Reader::readExperts() {
  cost::Strategy &strategy = result.strategy;
  auto ep = number("expert-model-parallel-size", 1);
  auto tensor = number("expert-tensor-parallel-size", strategy.tp.ranks);
  if (!ep || !tensor)
    return Error{(ep ? tensor : ep).message()};
  strategy.ep = *ep;
  if (*ep == 1 || strategy.tp.ranks == 1)
    return Status();
  int64_t expected = strategy.dp % *ep == 0 ? strategy.tp.ranks : 1;
  if (*tensor != expected)
    return wrong("--expert-tensor-parallel-size " + std::to_string(*tensor) +
                 " with --expert-model-parallel-size " + std::to_string(*ep) +
                 "; expected " + std::to_string(expected) +
                 ": --strategy splits experts over tp where ep divides dp");
  return Status();
}

Status Reader::readData() {
  cost::Strategy &strategy = result.strategy;
  bool isDistributed = has("use-distributed-optimizer");
  bool isMegatron = has("use-megatron-fsdp") || has("use-custom-fsdp");
  bool isTorch = has("use-torch-fsdp2");
  std::string kind = word("data-parallel-sharding-strategy");
  strategy.zero = isDistributed ? 1 : 0;
  if (isMegatron) {
    const std::map<std::string, int64_t> stages = {{"no_shard", 0},
                                                   {"optim", 1},
                                                   {"optim_grads", 2},
                                                   {"optim_grads_params", 3}};
    auto stage = stages.find(kind.empty() ? "optim_grads_params" : kind);
    if (stage == stages.end())
      return wrong("--data-parallel-sharding-strategy " + kind +
                   "; expected no_shard, optim, optim_grads or "
                   "optim_grads_params");
    strategy.zero = stage->second;
  } else if (isTorch) {
    strategy.zero = has("torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
  }
  if (word("outer-dp-sharding-strategy") == "optim")
    return wrong("--outer-dp-sharding-strategy optim has no key of --strategy; "
                 "expected no_shard");
  auto copies = number("num-distributed-optimizer-instances", 1);
  if (!copies)
    return Error{copies.message()};
  if (strategy.zero > 0 && *copies > 1 && strategy.dp % *copies == 0)
    strategy.hybridShard = strategy.dp / *copies;
  if (has("optimizer-cpu-offload")) {
    strategy.offload = cost::Offload::Optimizer;
    std::string part = word("optimizer-offload-fraction");
    if (!part.empty() && part != "1" && part != "1.0")
      return wrong("--optimizer-offload-fraction " + part +
                   "; expected 1: all of it");
  }
  return Status();
}

Status Reader::readRecompute() {
  std::string kind = word("recompute-granularity");
  if (kind.empty() && has("recompute-activations"))
    kind = "selective";
  if (!kind.empty() && kind != "full" && kind != "selective")
    return wrong("--recompute-granularity " + kind +
                 "; expected full or selective");
  if (!kind.empty())
    result.strategy.recompute = *symbolize<cost::Recompute>(kind);
  if (word("recompute-method") == "block")
    return wrong("--recompute-method block recomputes some layers only; "
                 "expected uniform");
  has("recompute-num-layers");
  return Status();
}

Status Reader::readBatch() {
  auto micro = number("micro-batch-size", 0);
  auto all = number("global-batch-size", 0);
  if (!micro || !all)
    return Error{(micro ? all : micro).message()};
  result.strategy.microBatch = *micro;
  result.globalBatch = *all;
  return Status();
}

/// What is said of the model. What is no number, a variable that the script has
/// from elsewhere, says nothing.
void Reader::readSizes() {
  struct Flag {
    const char *name;
    int64_t ModelShape::*size;
    bool isOfTokens = false;
  };
  const Flag all[] = {{"num-layers", &ModelShape::layers},
                      {"hidden-size", &ModelShape::hidden},
                      {"num-attention-heads", &ModelShape::heads},
                      {"kv-channels", &ModelShape::headSize},
                      {"num-query-groups", &ModelShape::kvHeads},
                      {"ffn-hidden-size", &ModelShape::feedForward},
                      {"num-experts", &ModelShape::experts},
                      {"seq-length", &ModelShape::sequence, true},
                      {"encoder-seq-length", &ModelShape::sequence, true}};
  // Of experts the inner size is --moe-ffn-hidden-size, if that is given.
  bool hasExperts = flags.count("num-experts") > 0;
  for (const Flag &flag : all) {
    bool isLeftOut =
        (hasTwoStacks && flag.size == &ModelShape::layers) ||
        (hasExperts && flag.size == &ModelShape::feedForward) ||
        (flag.size == &ModelShape::kvHeads && !has("group-query-attention"));
    auto value = number(flag.name, 0);
    if (!isLeftOut && value && *value > 0)
      result.sizes.push_back(
          {std::string("--") + flag.name, *value, flag.size, flag.isOfTokens});
  }
  readVocabulary();
}

/// Megatron-LM pads it so that its tensor-parallel ranks have equal parts.
void Reader::readVocabulary() {
  constexpr int64_t kDivisor = 128; // Its default.
  auto divisor = number("make-vocab-size-divisible-by", kDivisor);
  int64_t multiple = (divisor ? *divisor : kDivisor) * result.strategy.tp.ranks;
  for (const char *flag : {"padded-vocab-size", "vocab-size"})
    if (auto value = number(flag, 0); value && *value > 0)
      result.sizes.push_back(
          {std::string("--") + flag, *value, &ModelShape::vocabulary,
           /*isOfTokens=*/true,
           /*most=*/(*value + multiple - 1) / multiple * multiple});
}

void Reader::readRest() {
  for (const char *precision : {"bf16", "fp16"})
    if (has(precision))
      result.precision = precision;
  auto format = flags.find("fp8-format");
  if (format != flags.end() &&
      format->second == std::vector<std::string>{"hybrid"}) {
    result.precision = "fp8";
    used.insert({"fp8-format", "fp8-recipe"});
    // dpc scales each tensor by what it holds; Megatron-LM's default does not.
    std::string recipe = has("fp8-recipe") ? word("fp8-recipe") : "delayed";
    if (recipe != "tensorwise")
      result.ignored.push_back("--fp8-recipe " + recipe);
  }
  result.usesSgd = word("optimizer") == "sgd";
  for (const auto &[flag, values] : flags)
    if (!used.count(flag))
      result.ignored.push_back("--" + flag);
}

Expected<Imported> Reader::run() {
  for (auto step :
       {&Reader::refuseOthers, &Reader::readRanks, &Reader::readDegrees,
        &Reader::readStages, &Reader::readExperts, &Reader::readData,
        &Reader::readRecompute, &Reader::readBatch})
    if (Status status = (this->*step)(); !status)
      return Error{status.message()};
  readSizes();
  readRest();
  return std::move(result);
}

Expected<Imported> readMegatron(const std::string &text, int64_t devices) {
  Script script(text);
  std::map<std::string, Words> flags = script.flags();
  bool isMegatron = std::any_of(flags.begin(), flags.end(), [](auto &flag) {
    return flag.first.find("parallel-size") != std::string::npos ||
           flag.first == "micro-batch-size";
  });
  if (!isMegatron)
    return wrong("none of them is there (--tensor-model-parallel-size, "
                 "--micro-batch-size, ...)");
  return Reader(script, devices).run();
}

Expected<Imported> readStrategy(const std::string &text, int64_t devices) {
  size_t first = text.find_first_not_of(" \t\r\n");
  bool isJson = first != std::string::npos && text[first] == '{';
  return isJson ? readDeepSpeed(text, devices) : readMegatron(text, devices);
}

} // namespace dpc::exports
