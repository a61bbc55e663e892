//===- Options.cpp - the command line of dpc-opt --------------------------===//
#include "tools/dpc-opt/Options.h"

#include "codegen/export/Targets.h"
#include "cost-model/strategy/Strategy.h"
#include "passes/shard/LoweringSpec.h"
#include "runtime/plan/PlanCommand.h"
#include "tools/cli/CommandLine.h"
#include "tools/dpc-opt/Doctor.h"
#include "tools/dpc-opt/JobOptions.h"
#include "tools/dpc-opt/SearchOptions.h"
#include "tools/dpc-opt/StalePlan.h"
#include "tools/driver/Exports.h"
#include "tools/driver/Inputs.h"

#include <cmath>
#include <filesystem>
#include <iostream>

namespace dpc {

namespace {

using Strings = std::vector<std::string>;

/// Options whose words CLI11 cannot convert.
struct RawOptions {
  Strings bind, clusters, frozen, trainable, emit, lrSchedule, lossScale;
  std::vector<double> prices;
};

/// Returns a validator for numbers of samples. The search tries each divisor of
/// the batch, which would take forever without the upper limit.
CLI::Validator samples() {
  constexpr int64_t kMost = 1'000'000'000;
  return numbers<int64_t>(
      "N", [](int64_t n) { return n >= 1 && n <= kMost; },
      "a number from 1 to " + std::to_string(kMost));
}

/// Accepts finite numbers from 0 (above 0 if `isOpen`) to less than `below`.
CLI::Validator finite(bool isOpen, double below = INFINITY) {
  std::string range = isOpen ? "above 0" : "of at least 0";
  if (below < INFINITY)
    range += " and below " + std::to_string(static_cast<int>(below));
  return numbers<double>(
      "NUMBER",
      [=](double value) {
        return value < below && (isOpen ? value > 0 : value >= 0);
      },
      "a finite number " + range);
}

void addModelOptions(CLI::App &app, CompileOptions &o, RawOptions &raw) {
  app.option_defaults()->group("Model");
  app.add_option("MODEL", o.model,
                 "Model to compile (.onnx, .pt2, StableHLO or dpc .mlir)");
  app.add_option("--bind", raw.bind,
                 "Sizes of symbolic dimensions or values of integer inputs: "
                 "NAME=N,...")
      ->delimiter(',');
  app.add_option("--global-batch", o.globalBatch,
                 "Samples per step over all ranks")
      ->check(samples());
  app.add_option("--frozen", raw.frozen,
                 "Weights that are not trained: NAME|GLOB,...")
      ->delimiter(',');
  app.add_option("--trainable", raw.trainable,
                 "Weights trained although they look like tables or masks")
      ->delimiter(',');
  app.add_option("--seed", o.seed, "Seed of dropout in training (0)");
  app.add_option("--loss", o.loss,
                 "Append a loss: cross_entropy[:output] or mse[:output]");
  app.add_option("--loss-output", o.lossOutput,
                 "The scalar output to train (the one called 'loss', or else "
                 "the only one)")
      ->type_name("NAME");
  app.add_option("--init", o.init,
                 "Values for weights the file lacks: random:SEED, zeros, a "
                 ".safetensors file or a folder of them with its index");
  app.add_flag("--init-partial", o.initPartial,
               "For --init=FILE: accept names that only the file or only the "
               "model has, and print them")
      ->needs("--init");
}

void addTrainOptions(CLI::App &app, CompileOptions &o, RawOptions &raw) {
  app.option_defaults()->group("Training (PyTorch's meaning)");
  app.add_option("--train", o.train, "Optimizer: adamw or sgd")
      ->check(CLI::IsMember({"adamw", "sgd"}));
  app.add_flag("--infer", o.infer,
               "Compile the forward pass only, as after .eval(): without "
               "dropout, and with running statistics in batch norms");
  app.add_option("--lr", o.lr, "Learning rate")
      ->check(finite(false))
      ->capture_default_str();
  app.add_option("--lr-schedule", raw.lrSchedule,
                 "constant|cosine|linear[,warmup=N,total=N,min=RATE]: N steps, "
                 "RATE at the end. The rate of step t of the warmup is "
                 "lr * (t - 1) / N, so step 1 has rate 0, as in Hugging Face's "
                 "get_linear_schedule_with_warmup")
      ->delimiter(',');
  app.add_option("--beta1", o.beta1, "AdamW")
      ->check(finite(false, 1))
      ->capture_default_str();
  app.add_option("--beta2", o.beta2, "AdamW")
      ->check(finite(false, 1))
      ->capture_default_str();
  app.add_option("--eps", o.eps, "AdamW")
      ->check(finite(true))
      ->capture_default_str();
  app.add_option("--weight-decay", o.weightDecay,
                 "On all parameters (0.01 for adamw, 0 for sgd)")
      ->check(finite(false));
  app.add_option("--momentum", o.momentum, "SGD")
      ->check(finite(false, 1))
      ->capture_default_str();
  app.add_option("--clip-grad-norm", o.clipGradNorm,
                 "Largest norm of all gradients together (0 = no clipping)")
      ->check(finite(false))
      ->capture_default_str();
  app.add_option("--balance-experts", o.balanceExperts,
                 "After each step, change the router biases of experts with "
                 "fewer or more tokens than the mean by this (DeepSeek-V3: "
                 "0.001; 0: they stay)")
      ->check(finite(false))
      ->capture_default_str();
  app.add_option(
         "--precision", o.precision,
         "Compute type: fp32, bf16, fp16, or fp8: bf16 with fp8 GEMMs in "
         "all linear layers but the last (master weights stay fp32). "
         "Default: bf16 for training on GPUs of sm_80 and later, else fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8"}));
  app.add_option(
         "--loss-scale", raw.lossScale,
         "Loss scale; steps whose gradients are not finite are skipped. "
         "With fp16 dynamic[,init=N,interval=N] (65536, doubled after "
         "2000 good steps, halved on overflow) or a fixed N, otherwise "
         "a fixed N")
      ->delimiter(',');
}

CLI::Validator compression() {
  return words(
      "int8|topk:SHARE",
      [](const std::string &word) { return word == "int8" || topkShare(word); },
      "int8 or topk:SHARE with 0 < SHARE <= 1");
}

void addPlanOptions(CLI::App &app, CompileOptions &o, RawOptions &raw) {
  app.option_defaults()->group("Strategy");
  app.add_option("--cluster", raw.clusters,
                 "cluster.json, or local:N for N ranks on this machine; the "
                 "report compares several, and the plan is for the first")
      ->delimiter(',');
  app.add_option(
         "--strategy", o.strategy,
         "auto, or fixed keys KEY=VALUE,... of the table below; @FILE: "
         "the strategy of a configuration of DeepSpeed, Accelerate, "
         "torchtitan, Colossal-AI, Galvatron, MaxText or Calculon, or "
         "of a script with Megatron-LM's flags; @FILE,KEY=VALUE,...: with "
         "other values for these keys")
      ->capture_default_str();
  app.add_option("--micro-batch", o.microBatch,
                 "Samples per micro-batch on one data-parallel rank")
      ->check(samples());
  app.add_option("--bucket-mb", o.bucketMb,
                 "Reduce gradients in buckets of at most this many MiB")
      ->check(aboveZero())
      ->capture_default_str();
  app.add_option("--compress-gradients", o.compressGradients,
                 "Approximate: sends gradients as int8 with a scale per 256 "
                 "elements, or (topk:SHARE) only the largest SHARE of them, "
                 "and the others in later steps")
      ->check(compression());
  app.add_option("--compress-weights", o.compressWeights,
                 "Approximate: zero=3 gathers weights as int8")
      ->check(CLI::IsMember({"int8"}));
}

Strings emitNames() {
  Strings names = {"plan", "report", "mlir", "onnx", "trace"};
  for (const exports::Target &target : exports::targets())
    names.emplace_back(target.name);
  names.emplace_back("chakra");
  return names;
}

void addOutputOptions(CLI::App &app, CompileOptions &o, RawOptions &raw) {
  app.option_defaults()->group("Output");
  app.add_option("-o,--output", o.output, "Plan folder (MODEL.plan)");
  Strings emits = emitNames();
  app.add_option(
         "--emit", raw.emit,
         "What to write (plan,report): " + CLI::detail::join(emits, ",") +
             "; those after trace are files for other programs")
      ->delimiter(',')
      ->check(CLI::IsMember(emits));
  app.add_option("--report", o.report,
                 "What to print: text, or json (report.json)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_flag("--what-if", o.whatIf,
               "For the report, search again with one more node, twice the "
               "memory, half the bandwidth between nodes, and twice the "
               "sequence length");
  app.add_option(
         "--verify", o.verify,
         "Compare the ranks with one device before writing: on; shrunk "
         "(with fewer layers, smaller sizes and degrees); auto (shrunk if "
         "the model is large); or off")
      ->check(CLI::IsMember({"auto", "on", "shrunk", "off"}))
      ->capture_default_str();
  app.add_option("--target-cpu", o.targetCpu,
                 "CPU for which kernels are compiled: native, x86-64-v3, ...")
      ->capture_default_str();
  app.add_option("--target-gpu", o.targetGpu,
                 "GPU for which kernels are compiled (default: CPUs)")
      ->check(CLI::IsMember({"sm_80", "sm_90"}));
  app.add_option("--attention", o.attention,
                 "fused: one instruction (cuDNN on GPUs, loops on CPUs); "
                 "expanded: GEMMs and kernels; auto: fused on GPUs if cuDNN "
                 "supports it")
      ->check(CLI::IsMember({"auto", "fused", "expanded"}))
      ->capture_default_str();
  app.add_option(
      "--explain", o.explain,
      "Instead of writing: print how this parameter, optimizer state, "
      "input or operator (or the one with this part of a name) is "
      "split, and the costs of other ways");
  app.add_option("--diff", o.diff,
                 "Instead of compiling: print the differences between two plan "
                 "or report folders")
      ->expected(2)
      ->type_name("A B");
  app.add_option("--dump-ir-dir", o.dumpIrDir,
                 "Write the IR after every phase into this folder");
}

std::pair<std::string, int64_t> parseBinding(const std::string &word,
                                             const char *option,
                                             bool isPositive = true) {
  size_t equal = word.find('=');
  int64_t value = 0;
  if (equal != std::string::npos && equal > 0 &&
      CLI::detail::lexical_cast(word.substr(equal + 1), value) &&
      (value > 0 || !isPositive))
    return {word.substr(0, equal), value};
  throw CLI::ValidationError(std::string(option) + "=" + word +
                             ": expected NAME=N with a " +
                             (isPositive ? "positive" : "whole") + " number");
}

/// Refuses options that only a training step has. --trainable is accepted,
/// because it also decides which values of the file are constants.
void refuseOptionsOfTraining(const CLI::App &app) {
  for (const char *name :
       {"--lr", "--lr-schedule", "--beta1", "--beta2", "--eps",
        "--weight-decay", "--momentum", "--clip-grad-norm", "--loss-scale",
        "--balance-experts", "--frozen", "--seed", "--bucket-mb"})
    if (app.count(name) > 0)
      throw CLI::ValidationError(std::string(name) +
                                 ": is for training, and --infer compiles the "
                                 "forward pass only");
}

void refuseOptionsOfOthers(const CLI::App &app, const CompileOptions &o) {
  if (o.infer)
    refuseOptionsOfTraining(app);
  bool isSgd = o.train == "sgd";
  for (const char *name : {"--momentum", "--beta1", "--beta2", "--eps"}) {
    bool isOfSgd = std::string(name) == "--momentum";
    if (app.count(name) > 0 && isOfSgd != isSgd)
      throw CLI::ValidationError(
          std::string(name) + ": --train=" + (isSgd ? "sgd" : "adamw") +
          " has no such option; it is accepted with --train=" +
          (isSgd ? "adamw" : "sgd"));
  }
}

void finishLrSchedule(CompileOptions &o, const Strings &words) {
  std::string ofDecay; // the first key that only a rate with an end has
  for (const std::string &word : words) {
    if (ofDecay.empty() &&
        (word.starts_with("total=") || word.starts_with("min=")))
      ofDecay = word;
    if (word == "constant" || word == "cosine" || word == "linear") {
      o.lrSchedule = word;
      continue;
    }
    if (word.rfind("min=", 0) == 0) {
      if (!CLI::detail::lexical_cast(word.substr(4), o.minLr) ||
          !(o.minLr >= 0 && o.minLr <= o.lr))
        throw CLI::ValidationError("--lr-schedule: " + word +
                                   " is not a rate from 0 to --lr");
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    if (name != "warmup" && name != "total")
      throw CLI::ValidationError(
          "--lr-schedule: '" + name +
          "' is unknown; constant|cosine|linear, warmup=N, total=N and "
          "min=RATE are known");
    auto [key, value] = parseBinding(word, "--lr-schedule");
    (key == "warmup" ? o.warmup : o.totalSteps) = value;
  }
  if (o.lrSchedule == "constant" && !ofDecay.empty())
    throw CLI::ValidationError(
        "--lr-schedule=constant: " + ofDecay +
        " has no effect on a rate that does not end; cosine and linear accept "
        "it, constant only warmup=N");
  if (o.lrSchedule != "constant" && o.totalSteps <= o.warmup)
    throw CLI::ValidationError(
        "--lr-schedule=" + o.lrSchedule + ": " +
        (o.totalSteps > 0 ? "total=" + std::to_string(o.totalSteps)
                          : std::string("total=N is missing; it")) +
        " must exceed warmup=" + std::to_string(o.warmup) +
        "; state the steps of the whole schedule, as in --lr-schedule=" +
        o.lrSchedule + ",total=1000");
}

void finishLossScale(CompileOptions &o, const Strings &words) {
  if (words.empty())
    return;
  auto parse = [](const std::string &word, double &value) {
    return CLI::detail::lexical_cast(word, value) && value >= 1 &&
           value <= 0x1p127;
  };
  bool isDynamic = words.front() == "dynamic";
  if (isDynamic && o.precision != "fp16")
    throw CLI::ValidationError(
        "--loss-scale=dynamic: gradients of --precision=" + o.precision +
        " need no dynamic scale; --loss-scale=1 skips steps whose "
        "gradients are not finite");
  bool good =
      isDynamic || (words.size() == 1 && parse(words.front(), o.lossScale));
  if (!isDynamic)
    o.lossScaleInterval = 0;
  for (size_t i = 1; good && i < words.size(); ++i) {
    double value = 0;
    std::string key = words[i].substr(0, words[i].find('=') + 1);
    good = parse(words[i].substr(key.size()), value) &&
           (key == "init=" || key == "interval=");
    if (key == "init=")
      o.lossScale = value;
    if (key == "interval=" && value < 0x1p24)
      o.lossScaleInterval = static_cast<int64_t>(value);
  }
  if (!good)
    throw CLI::ValidationError(
        "--loss-scale=" + CLI::detail::join(words, ",") +
        ": expected a number of at least 1, or dynamic[,init=N,interval=N] "
        "with such numbers");
}

/// --for adds the configuration of its target, and by default writes no plan.
void finishEmit(CompileOptions &o, const Strings &words) {
  bool plansForOthers = o.plansFor != "dpc";
  if (!words.empty())
    o.emit = {words.begin(), words.end()};
  else if (plansForOthers)
    o.emit.clear();
  if (plansForOthers)
    o.emit.insert(o.plansFor);
}

void finish(CompileOptions &o, const RawOptions &raw) {
  finishClusters(o, raw.clusters, raw.prices);
  if (!o.links.empty() && (o.calibrate.empty() || o.cluster.empty() ||
                           o.cluster.starts_with("local:")))
    throw CLI::ValidationError(
        "--links needs --cluster=cluster.json, whose levels were measured, and "
        "--calibrate=FILE, the file to write with the measured levels");
  bool isOfGpu = !o.calibrated.empty() && o.calibrated != "cpu";
  if (!o.calibrated.empty() && o.calibrate.empty())
    throw CLI::ValidationError("--device=" + o.calibrated +
                               " is for --calibrate=FILE; --target-gpu=sm_NN "
                               "compiles for GPUs, and dpc-run's --device runs "
                               "on them");
  if (isOfGpu && (!o.model.empty() || !o.links.empty() || !o.cluster.empty()))
    throw CLI::ValidationError(
        "--calibrate=" + o.calibrate + " --device=" + o.calibrated +
        " writes a device file and no plan: name the file as the device of a "
        "group in a cluster.json, and compile with it");
  if (!o.device.empty() && !o.cluster.starts_with("local:"))
    throw CLI::ValidationError("--device-file=" + o.device +
                               " is for --cluster=local:N; name it as "
                               "the device of a group in a cluster.json");
  if (o.model.empty() && o.calibrate.empty() && o.diff.empty())
    throw CLI::ValidationError(
        "MODEL is missing: name an .onnx, .pt2 or .mlir file");
  for (const std::string &word : raw.bind) {
    auto [it, isNew] = o.bind.insert(parseBinding(word, "--bind", false));
    if (!isNew)
      throw CLI::ValidationError("--bind=" + word + ": '" + it->first +
                                 "' is bound twice");
  }
  if (o.seed < 0 || o.seed >> 32)
    throw CLI::ValidationError("--seed=" + std::to_string(o.seed) +
                               ": accepted: 0 to 4294967295");
  o.frozen = raw.frozen;
  o.trainable = raw.trainable;
  finishEmit(o, raw.emit);
  if (o.emit.count("onnx") && !o.model.ends_with(".onnx"))
    throw CLI::ValidationError("--emit=onnx annotates an .onnx model: '" +
                               o.model + "' is not an .onnx file");
  if (!writesReport(o) && (o.whatIf || o.report == "json"))
    throw CLI::ValidationError(
        std::string(o.whatIf ? "--what-if" : "--report=json") +
        " is for the report; it is accepted with plan, report or an export in "
        "--emit");
  finishJob(o);
  finishLrSchedule(o, raw.lrSchedule);
  if (!o.lossOutput.empty() && !o.loss.empty())
    throw CLI::ValidationError("--loss-output and --loss exclude each other: "
                               "--loss appends the output that is trained");
  if (o.infer && !o.train.empty())
    throw CLI::ValidationError("--infer and --train exclude each other");
  finishLossScale(o, raw.lossScale);
  if (o.output.empty())
    o.output =
        std::filesystem::path(o.model).replace_extension(".plan").string();
}

bool namesFile(const std::string &option, const std::string &value) {
  bool isRule =
      value == "zeros" || value == "random" || value.starts_with("random:");
  return option == "init" && !isRule;
}

/// Returns whether --strategy=@FILE (the first three options) or --calibrate
/// may set the option. command.json then has the final value.
bool isResolved(const std::string &option) {
  return option == "global-batch" || option == "precision" ||
         option == "train" || option == "device-file";
}

/// Words that affect a step (runtime/plan/PlanCommand.h); absolute paths.
Strings stepWords(const CLI::App &app) {
  Strings words;
  for (const CLI::Option *option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty())
      continue;
    std::string name = option->get_lnames().front();
    if (!rt::isStepOption(name) || isResolved(name))
      continue;
    bool isFlag = option->get_expected_max() == 0;
    if (isFlag && !option->as<bool>()) // --infer=false
      continue;
    std::string value = CLI::detail::join(option->results(), ",");
    if (namesFile(name, value))
      value = absoluteFile(value);
    words.push_back("--" + name + (isFlag ? "" : "=" + value));
  }
  return words;
}

/// Options that print information instead of compiling.
struct Questions {
  bool version = false, doctor = false;
  std::string completion;
};

void addQuestions(CLI::App &app, Questions &questions) {
  app.option_defaults()->group("About this program");
  app.add_flag("--version", questions.version,
               "Print the versions of this program and its components");
  app.add_flag(
      "--doctor", questions.doctor,
      "Print which components exist, and for what the others are needed");
  app.add_option("--completion", questions.completion,
                 "Print a completion script for this shell")
      ->check(CLI::IsMember({"bash", "zsh"}));
}

bool answer(const Questions &questions, const CLI::App &app, int &exitCode) {
  exitCode = 0;
  if (questions.version)
    std::cout << versionText();
  else if (questions.doctor)
    exitCode = runDoctor();
  else if (!questions.completion.empty())
    std::cout << completionScript(app, "dpc-opt", questions.completion);
  else
    return false;
  return true;
}

} // namespace

std::optional<CompileOptions> parseOptions(int argc, char **argv,
                                           int &exitCode) {
  CompileOptions options;
  RawOptions raw;
  CLI::App app("Compiles a model for a cluster: searches for a strategy, "
               "explains it, and writes a plan that dpc-run executes.",
               "dpc-opt");
  app.footer("Keys of --strategy, and ranks=N for fewer than all devices:\n" +
             cost::describeKeys() +
             "\nExamples:\n"
             "  dpc-opt gpt2.onnx --cluster=local:4 --global-batch=8 -o plan\n"
             "  dpc-opt gpt3.onnx --cluster=cluster.json --global-batch=1536 "
             "--emit=report\n\n"
             "Given dpc .mlir and pass flags, dpc-opt is an mlir-opt for the "
             "dialect: see dpc-opt --help-passes.");
  addModelOptions(app, options, raw);
  addTrainOptions(app, options, raw);
  addPlanOptions(app, options, raw);
  addSearchOptions(app, options);
  addJobOptions(app, options, raw.prices);
  addOutputOptions(app, options, raw);
  Questions questions;
  addQuestions(app, questions);
  try {
    refuseEmptyValues(argc, argv);
    app.parse(argc, argv);
    if (answer(questions, app, exitCode))
      return std::nullopt;
    options.givesPrecision = app.count("--precision") > 0;
    finish(options, raw);
    refuseOptionsOfOthers(app, options);
    if (app.count("--clip-grad-norm") > 0 && options.clipGradNorm == 0)
      options.notes.push_back("--clip-grad-norm=0 clips no gradients");
    options.words = stepWords(app);
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    exitCode = 0;
    return std::nullopt;
  } catch (const CLI::Error &error) {
    exitCode = fail("dpc-opt", errorText(app, error, argc, argv) +
                                   setPlanOfWordsAside(argc, argv));
    return std::nullopt;
  }
  return options;
}

} // namespace dpc
