#include "tools/dpc-run/Options.h"

#include "runtime/comm/Communicator.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Launch.h"
#include "runtime/io/WeightFiles.h"
#include "runtime/kernels/Matmul.h"
#include "runtime/observe/Metrics.h"
#include "runtime/plan/Plan.h"
#include "tools/cli/CommandLine.h"

#include <algorithm>
#include <cctype>
#include <iostream>

namespace dpc {

static CLI::Validator size() {
  return words("SIZE", rt::parseSize, "a size such as 5GB, 200MiB or 1000");
}

static CLI::Validator label() {
  return words(
      "NAME=VALUE",
      [](const std::string &word) {
        size_t split = word.rfind('=');
        int64_t value = 0;
        return split != std::string::npos && split > 0 &&
               CLI::detail::lexical_cast(word.substr(split + 1), value);
      },
      "NAME=VALUE with an integer");
}

/// Refuses a word before a colon that looks like a kind, but is none.
static CLI::Validator metricsPlace() {
  return words(
      "[KIND:]FILE",
      [](const std::string &word) {
        const std::string kind = word.substr(0, word.find(':'));
        return kind == word || MetricsPlace(word).kind == kind ||
               !std::all_of(kind.begin(), kind.end(),
                            [](unsigned char c) { return std::isalpha(c); });
      },
      "FILE.jsonl, tensorboard:DIR or prometheus:FILE");
}

static void addSampleOptions(CLI::App &app, RunOptions &o, CLI::Option *data) {
  app.add_option("--epochs", o.epochs,
                 "number of passes over --data; with --steps, the run ends "
                 "with what comes first")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->needs(data);
  app.add_option_function<std::vector<uint64_t>>(
         "--shuffle",
         [&o](const std::vector<uint64_t> &seed) {
           o.shuffle = seed.empty() ? 0 : seed.front();
         },
         "take the samples of --data in a random order that differs in each "
         "epoch; equal SEEDs (default 0) give equal orders on any plan")
      ->type_name("SEED")
      ->check(wholeNumber())
      ->expected(0, 1)
      ->needs(data);
  app.add_option(
         "--last-batch", o.lastBatch,
         "what happens to samples at the end of an epoch that do not fill "
         "a step: wrap (default for training) adds the first samples of "
         "the next epoch, drop leaves them out, mask fills the step with "
         "samples whose labels the loss ignores, so that the gradient is "
         "the mean over the remaining samples")
      ->check(CLI::IsMember({"wrap", "drop", "mask"}))
      ->needs(data);
  app.add_option("--ignored-label", o.ignoredLabel,
                 "NAME=VALUE for --last-batch=mask and --eval-data: the input "
                 "of labels and the label that the loss ignores (default: "
                 "the only input with a label that the loss of the plan "
                 "ignores, or else labels or label, with that label or -100)")
      ->check(label())
      ->type_name("NAME=VALUE");
}

static void addEvaluationOptions(CLI::App &app, RunOptions &o) {
  auto *plan = app.add_option(
      "--eval-plan", o.evalPlan,
      "PLAN of the same model and number of ranks, made with dpc-opt --infer; "
      "computes the loss and the other outputs over --eval-data with the "
      "current values");
  auto *data =
      app.add_option("--eval-data", o.evalData,
                     "held-out samples, in the formats of --data; each "
                     "is evaluated once");
  app.add_option("--eval-every", o.evalEvery,
                 "N: evaluate after every N steps, and after the last one "
                 "(default: after the last one)")
      ->check(aboveZero())
      ->needs(plan);
  plan->type_name("DIR")->excludes("--elastic");
  data->type_name("PATH");
}

static void addDataOptions(CLI::App &app, RunOptions &o) {
  auto *batches = app.add_option(
      "--batches", o.batches,
      "DIR with one NAME.npy per model input, [steps, global batch, ...]; "
      "repeated when --steps exceeds their number");
  auto *data = app.add_option(
      "--data", o.data,
      "samples: DIR with one NAME.npy per model input, or FILE.safetensors "
      "with one NAME each, [samples, ...]; any other FILE holds token ids: raw "
      "uint16 (vocabularies up to 65536), raw uint32 (larger ones), or llm.c's "
      ".bin. Sample i has the L tokens from i * L on, where L is the length of "
      "the first input; a second input, the labels, has the L tokens from "
      "i * L + 1 on");
  auto *inputs =
      app.add_option("--inputs", o.inputs,
                     "DIR with one NAME.npy per model input, for one step");
  batches->type_name("DIR");
  data->type_name("PATH");
  inputs->type_name("DIR");
  batches->excludes(data)->excludes(inputs);
  data->excludes(inputs);
  app.add_option(
         "--steps", o.steps,
         "steps to run (default: all batches, one epoch of --data, 10 without "
         "either, 1 with --inputs)")
      ->check(aboveZero());
  addSampleOptions(app, o, data);
  app.add_option("--init", o.init,
                 "FILE.safetensors, or DIR as --export writes it: start from "
                 "these values; random:SEED or zeros: values for weights that "
                 "the model file lacks; with --resume, used only while there "
                 "is no checkpoint; the names and shapes of FILE must be "
                 "those of the model")
      ->type_name("INIT");
  app.add_flag("--init-partial", o.initPartial,
               "for --init=FILE: weights that FILE lacks keep the values of "
               "the plan, and tensors that the model lacks are ignored; the "
               "run prints both. For --resume: weights that the model lacks "
               "are ignored");
}

static void addRunOptions(CLI::App &app, RunOptions &o) {
  app.add_option("--comm", o.comm,
                 "local: ranks are threads of this process; mpi: ranks are the "
                 "processes of mpirun; tcp: ranks are the processes of "
                 "torchrun, and all data passes through rank 0; nccl: GPUs "
                 "(default: mpi under mpirun and srun --mpi=pmix, tcp under "
                 "torchrun, nccl with --device=cuda, else local)")
      ->check(CLI::IsMember({"local", "mpi", "tcp", "nccl"}));
  app.add_option("--device", o.device, "cpu or cuda (default cpu)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--gemm-cache", o.gemmCache,
                 "for --device=cuda: DIR that stores the fastest routine of "
                 "cuBLASLt for each GEMM, measured before the first step "
                 "(default ~/.cache/dpc); off: use cuBLASLt's own choice "
                 "without measuring")
      ->type_name("DIR|off");
  app.add_flag("--tf32", o.tf32,
               "for --device=cuda: fp32 GEMMs round their operands to TF32 "
               "(10 bits of mantissa), which is much faster, with errors of "
               "a thousandth");
  app.add_option("--threads", o.threads,
                 "threads per rank (default: cores / ranks on this machine)")
      ->check(aboveZero());
  app.add_option("--timeout-seconds", o.timeoutSeconds,
                 "how long a rank waits for other ranks (default 300)")
      ->check(aboveZero());
  app.add_flag("--no-overlap", o.noOverlap,
               "communicate and compute in turn, to measure the effect of "
               "overlap");
  app.add_option("--offload-dir", o.offloadDir,
                 "DIR for values that the plan keeps on disk "
                 "(offload_to=disk), in one unnamed file per rank (default: "
                 "the plan's folder)")
      ->type_name("DIR");
  app.add_flag("--poison", o.poison,
               "debugging: fill fresh memory and padding with NaN");
}

static void addOutputOptions(CLI::App &app, RunOptions &o) {
  app.add_option("--metrics", o.metrics,
                 "FILE.jsonl: step, loss, grad_norm, lr, step_seconds, "
                 "tokens_per_second, samples_per_second and the model's other "
                 "outputs of one value (of one value per sample: the mean), "
                 "one line per step; "
                 "tensorboard:DIR: the same as event files; prometheus:FILE: "
                 "the latest step for the textfile collector; may be given "
                 "several times")
      ->type_name("[KIND:]FILE")
      ->check(metricsPlace())
      ->allow_extra_args(false); // each option takes one value
  app.add_option("--save-params", o.saveParams,
                 "FILE.safetensors: all weights after the last step, or\n"
                 "after the current step on Ctrl-C: trained and frozen\n"
                 "parameters, and buffers")
      ->type_name("FILE");
  auto *folder = app.add_option(
      "--export", o.exportDir,
      "DIR: the same in the layout of Hugging Face: model.safetensors, or "
      "model-N-of-M.safetensors with model.safetensors.index.json");
  folder->type_name("DIR");
  app.add_option("--max-shard-size", o.maxShardSize,
                 "for --export: the largest size of a file, such as 5GB or "
                 "200MiB (default 5GB)")
      ->check(size())
      ->needs(folder);
  app.add_option("--outputs", o.outputs,
                 "DIR for one NAME.npy of each output: of all samples in "
                 "inference with --data, otherwise of the last step")
      ->type_name("DIR");
  app.add_option("--dump-ledger", o.ledgers,
                 "write the communication of each rank in a step, in order, "
                 "to DIR/rank-N.txt (default PLAN/ledger) instead of running; "
                 "the message of a hang names a line of these files")
      ->type_name("DIR")
      ->expected(0, 1);
  app.add_option("--flight-record", o.flightRecord,
                 "DIR in which each rank of this host records its current "
                 "instructions as text, which survives a killed rank (default "
                 "with --max-restarts: a temporary folder)")
      ->type_name("DIR");
  app.add_option("--trace", o.trace,
                 "FILE.json: Chrome trace of every instruction")
      ->type_name("FILE");
  app.add_flag("--profile", o.profile,
               "after the run, compare predicted and measured times per op "
               "and per collective, on the terminal, in PLAN/profile.json "
               "and in PLAN/report.html; plans of dpc-opt "
               "--emit=plan,report,trace contain predictions");
}

static void addGuardOptions(CLI::App &app, RunOptions &o) {
  app.add_option("--on-nan", o.onNan,
                 "what to do when a loss or gradient norm is not finite: stop "
                 "(default; no checkpoint of that step is written) or go-on")
      ->check(CLI::IsMember({"stop", "go-on"}));
  app.add_flag("--check-numbers", o.checkNumbers,
               "debugging: search for NaN in the results of all "
               "instructions, and name the first one in a step whose loss is "
               "not finite");
  app.add_option("--check-replicas", o.checkReplicas,
                 "N: compare, after every N steps, the copies of parameters "
                 "and optimizer state that several ranks hold")
      ->check(aboveZero());
  app.add_option("--slow-rank", o.slowRank,
                 "X: report stragglers: ranks that, over ten steps, compute "
                 "longer than X times the median of the ranks of their stage "
                 "(on CPUs)")
      ->check(CLI::Range(1.0, 1e9));
  app.add_option("--spike", o.spike,
                 "X: report when the loss or the gradient norm exceeds X "
                 "times its median of the last 50 steps")
      ->check(CLI::Range(1.0, 1e9));
}

static void addCheckpointOptions(CLI::App &app, RunOptions &o) {
  auto *folder = app.add_option(
      "--checkpoint", o.checkpoint,
      "DIR for checkpoints (DIR/step-N), written after the last step and on "
      "SIGTERM");
  folder->type_name("DIR");
  app.add_option("--checkpoint-every", o.checkpointEvery,
                 "N: also write checkpoints after every N steps")
      ->check(aboveZero())
      ->needs(folder);
  app.add_option("--checkpoint-keep", o.checkpointKeep,
                 "number of newest checkpoints to keep (default 2)")
      ->check(aboveZero())
      ->needs(folder);
  app.add_flag("--checkpoint-sync", o.checkpointSync,
               "write a checkpoint before the next step instead of in the "
               "background, which needs no second copy of the state")
      ->needs(folder);
  app.add_option_function<std::vector<std::string>>(
         "--resume",
         [&o](const std::vector<std::string> &words) {
           o.resume = words.empty() ? "" : words.front();
         },
         "resume from the newest checkpoint in --checkpoint's DIR, or start "
         "at step 1 if there is none; =DIR/step-N: resume from that one. The "
         "plan may be another one of the same model")
      ->type_name("DIR/step-N")
      ->expected(0, 1);
  app.add_flag("--new-data", o.newData,
               "for --resume: start at the first sample of the data, which "
               "may differ from the data of the checkpoint's run")
      ->needs("--resume");
}

static void addSupervisorOptions(CLI::App &app, RunOptions &o) {
  auto *restarts =
      app.add_option("--max-restarts", o.maxRestarts,
                     "K: restart from the newest checkpoint when the run dies "
                     "or hangs, at most K times")
          ->check(CLI::Range(int64_t(0), int64_t(1) << 30))
          ->needs("--checkpoint");
  app.add_option("--hang-seconds", o.hangSeconds,
                 "for --max-restarts: seconds without a finished step after "
                 "which a run counts as hanging (default 600)")
      ->check(aboveZero())
      ->needs(restarts);
  app.add_option("--launcher", o.launcher,
                 "for --max-restarts: the command that starts the ranks, such "
                 "as \"mpirun -np 4\"; {ranks} is replaced by their number")
      ->type_name("WORDS")
      ->needs(restarts);
  auto *elastic =
      app.add_option("--elastic", o.elastic,
                     "MIN:MAX for --max-restarts: continue with the remaining "
                     "ranks, using a new plan of dpc-opt, and with more ranks "
                     "when they return")
          ->type_name("MIN:MAX")
          ->needs(restarts);
  app.add_option("--elastic-wait", o.elasticWait,
                 "for --elastic: seconds until a lost rank is assumed to be "
                 "back (default 300)")
      ->check(aboveZero())
      ->needs(elastic);
  app.add_option("--ranks-file", o.ranksFile,
                 "for --elastic: FILE with the number of available ranks, "
                 "which another program updates; replaces the assumptions "
                 "about lost ranks")
      ->type_name("FILE")
      ->needs(elastic);
}

static void addMeasureOptions(CLI::App &app, RunOptions &o, CLI::Option *plan) {
  auto *links =
      app.add_option("--measure-links", o.measureLinks,
                     "FILE: measure all_reduce over all ranks, from 4 KiB to "
                     "64 MiB, and run no plan; dpc-opt --links=FILE reads it")
          ->type_name("FILE")
          ->excludes(plan);
  app.add_option("--measure-device", o.measureDevice,
                 "FILE, with --device=cuda: measure GEMMs, memory and "
                 "launches of this GPU for a minute, and run no plan; dpc-opt "
                 "--calibrate=DEVICE.json --device=FILE reads it")
      ->type_name("FILE")
      ->excludes(plan)
      ->excludes(links);
  app.add_option("--ranks", o.ranks,
                 "ranks to measure between on this machine (default 2)")
      ->check(CLI::Range(2, 1024))
      ->needs(links);
}

/// Options that print information instead of running a plan.
struct Questions {
  bool version = false;
  std::string completion;
};

static void addQuestions(CLI::App &app, Questions &questions) {
  app.add_flag("--version", questions.version,
               "print the versions of this program and its components");
  app.add_option("--completion", questions.completion,
                 "print a completion script for this shell")
      ->check(CLI::IsMember({"bash", "zsh"}));
}

/// dpc-opt --doctor parses this output.
static void printVersions() {
  auto orNone = [](const std::string &text) {
    return text.empty() ? "none" : text;
  };
  std::cout << "dpc-run " DPC_VERSION "\nplan format: " << rt::kPlanVersion
            << "\noneDNN: " << orNone(rt::gemmLibrary())
            << "\nMPI: " << orNone(rt::mpiLibrary())
            << "\nCUDA plugin: " << orNone(rt::cudaPluginFile()) << "\n";
}

static bool answer(const Questions &questions, const CLI::App &app) {
  if (questions.version)
    printVersions();
  else if (!questions.completion.empty())
    std::cout << completionScript(app, "dpc-run", questions.completion);
  else
    return false;
  return true;
}

/// Options that a plan fixes.
static const OtherOptions kCompilerOptions = {
    "dpc-opt, and the plan fixes it: compile again",
    {"--train",
     "--infer",
     "--lr",
     "--lr-schedule",
     "--beta1",
     "--beta2",
     "--eps",
     "--weight-decay",
     "--momentum",
     "--clip-grad-norm",
     "--balance-experts",
     "--precision",
     "--loss-scale",
     "--global-batch",
     "--micro-batch",
     "--bind",
     "--frozen",
     "--trainable",
     "--loss",
     "--loss-output",
     "--strategy",
     "--cluster",
     "--seed"}};

bool parseOptions(int argc, char **argv, RunOptions &o, int &exitCode) {
  CLI::App app("Runs a plan that dpc-opt wrote: trains, or infers.\n"
               "  dpc-run plan/ --batches=DIR --steps=20\n"
               "  mpirun -np 4 dpc-run plan/ --comm=mpi\n"
               "  DPC_JOB_TOKEN=$(openssl rand -hex 16) torchrun --no-python "
               "--nproc-per-node=4 dpc-run plan/",
               "dpc-run");
  auto *plan = app.add_option("PLAN,--plan", o.plan, "plan folder")
                   ->type_name("DIR")
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  addDataOptions(app, o);
  addRunOptions(app, o);
  addOutputOptions(app, o);
  addGuardOptions(app, o);
  addCheckpointOptions(app, o);
  addSupervisorOptions(app, o);
  addEvaluationOptions(app, o);
  addMeasureOptions(app, o, plan);
  Questions questions;
  addQuestions(app, questions);
  try {
    refuseEmptyValues(argc, argv);
    app.parse(argc, argv);
    exitCode = 0;
    if (answer(questions, app))
      return false;
    if (o.plan.empty() && o.measureLinks.empty() && o.measureDevice.empty())
      throw CLI::RequiredError("PLAN");
    if (!o.measureLinks.empty() && o.device != "cpu")
      throw CLI::ValidationError(
          "--measure-links measures ranks on CPUs; for GPUs, dpc-opt "
          "--links=FILE reads the output of nccl-tests, without --device=" +
          o.device);
    if (o.resume && o.resume->empty() && o.checkpoint.empty())
      throw CLI::RequiredError("--checkpoint=DIR, or --resume=DIR/step-N,");
    if (o.resume && !o.resume->empty() && !o.init.empty())
      throw CLI::ExcludesError("--resume=DIR/step-N", "--init");
    if (o.evalPlan.empty() != o.evalData.empty())
      throw CLI::RequiredError(
          o.evalPlan.empty()
              ? "with --eval-data: --eval-plan=PLAN, made from the "
                "same model with dpc-opt --infer,"
              : "with --eval-plan: --eval-data=PATH");
    if (app.count("--dump-ledger") > 0 && o.ledgers.empty())
      o.ledgers = o.plan + "/ledger";
    return true;
  } catch (const CLI::ParseError &error) {
    bool isHelp = error.get_exit_code() == 0;
    exitCode = isHelp ? 0 : 1;
    bool speaks = rt::detectLaunch().rank == 0;
    if (isHelp && speaks)
      app.exit(error);
    else if (speaks)
      std::cerr << "dpc-run: error: "
                << errorText(app, error, argc, argv, kCompilerOptions)
                << " (dpc-run --help lists the options)\n";
    return false;
  }
}

} // namespace dpc
