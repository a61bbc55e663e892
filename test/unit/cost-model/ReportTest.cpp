#include "cost-model/report/Report.h"
#include "test/unit/cost-model/ToySearch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Report, Formats) {
  EXPECT_EQ(formatBytes(812), "812 B");
  EXPECT_EQ(formatBytes(1536), "1.50 KiB");
  EXPECT_EQ(formatBytes(12.0 * (1 << 20)), "12.0 MiB");
  EXPECT_EQ(formatBytes(123.4 * (1 << 30)), "123 GiB");
  EXPECT_EQ(formatSeconds(1.234), "1.23 s");
  EXPECT_EQ(formatSeconds(0.00456), "4.56 ms");
  EXPECT_EQ(formatSeconds(7.89e-6), "7.89 us");
  EXPECT_EQ(formatSeconds(0), "0.00 s");
}

static SearchResult someResult() {
  SearchResult result;
  result.totals.globalBatch = 8;
  result.totals.tokensPerSample = 100;
  result.memoryLimitBytes = 80.0 * (1 << 30);
  result.considered = 5;
  result.pruned = 2;
  result.seconds = 0.5;
  result.bindingConstraint = "compute";
  Candidate winner;
  winner.strategy.dp = 4;
  winner.fits = true;
  winner.evaluation.stepSeconds = 2;
  winner.evaluation.flops = 4e9;
  winner.evaluation.memory[MemoryCategory::Optimizer] = 1000;
  winner.evaluation.bytesPerLevel = {77};
  Candidate large = winner;
  large.strategy.dp = 1;
  large.strategy.tp = 4;
  large.fits = false;
  large.why = "memory 123 GiB > 80.0 GiB";
  Candidate impossible;
  impossible.evaluation.rejected = impossible.why = "no kernel";
  result.candidates = {winner, large, impossible};
  result.baselines = {{"ddp", winner}, {"megatron-3d", impossible}};
  return result;
}

static Cluster someCluster() { return toyCluster(4); }

static std::string textOf(const SearchResult &result,
                          const ReportContext &context = {},
                          const TextForm &form = {}) {
  return reportToText(someCluster(), result, context, form);
}

static nlohmann::ordered_json jsonOf(const SearchResult &result,
                                     const ReportContext &context = {}) {
  return reportToJson(someCluster(), result, context);
}

TEST(Report, StagesOfAPipeline) {
  SearchResult result = someResult();
  auto stagesOf = [&] {
    return jsonOf(result)["chosen"]["predicted"].value(
        "stages", nlohmann::ordered_json());
  };
  EXPECT_TRUE(stagesOf().is_null());
  EXPECT_THAT(textOf(result), Not(HasSubstr("pipeline")));
  Evaluation &winner = result.candidates[0].evaluation;
  winner.bubbleFraction = 0.125;
  winner.stages = {{0.001, 0.002, 0, 0.5, 1024, ""},
                   {0.001, 0.001, 0.002, 0, 2048, ""}};
  nlohmann::ordered_json stages = stagesOf();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[1]["weight_seconds"], 0.002);
  EXPECT_EQ(stages[0]["idle_seconds"], 0.5);
  EXPECT_EQ(stages[1]["memory_bytes"], 2048);
  std::string text = textOf(result, {}, TextForm{200});
  EXPECT_THAT(text,
              HasSubstr("pipeline: 2 stages idle 12.5 %; a micro-batch takes "
                        "1.00 ms forward, 2.00 ms to 3.00 ms backward; memory "
                        "1.00 KiB to 2.00 KiB\n"));
}

TEST(Report, JsonHasAllKeys) {
  ReportContext context{"model.onnx", {"w"}, {"mask"}, {"a remark"}, {}};
  nlohmann::ordered_json report = jsonOf(someResult(), context);
  for (const char *key :
       {"version", "model", "cluster", "chosen", "candidates", "baselines",
        "search", "parameters", "remarks", "verification", "step"})
    EXPECT_TRUE(report.contains(key)) << key;
  const auto &predicted = report["chosen"]["predicted"];
  for (const char *key :
       {"step_seconds", "tokens_per_second", "mfu", "memory_bytes",
        "bytes_per_level", "bubble_fraction", "exposed_communication_seconds"})
    EXPECT_TRUE(predicted.contains(key)) << key;
  EXPECT_EQ(predicted["tokens_per_second"], 400);
  EXPECT_DOUBLE_EQ(predicted["mfu"].get<double>(), 0.5);
  EXPECT_EQ(predicted["memory_bytes"]["peak"], 1000);
  EXPECT_EQ(predicted["memory_bytes"]["optimizer"], 1000);
  EXPECT_EQ(predicted["bytes_per_level"]["wire"], 77);
  EXPECT_EQ(report["chosen"]["strategy"]["dp"], 4);
  EXPECT_EQ(report["chosen"]["binding_constraint"], "compute");
  EXPECT_FALSE(report["chosen"].contains("binding_detail"));
  EXPECT_EQ(report["candidates"][1]["rejected"], "memory 123 GiB > 80.0 GiB");
  EXPECT_EQ(report["candidates"][2]["rejected"], "no kernel");
  EXPECT_FALSE(report["candidates"][2].contains("predicted"));
  EXPECT_EQ(report["baselines"][0]["name"], "ddp");
  EXPECT_EQ(report["baselines"][0]["step_seconds"], 2);
  EXPECT_EQ(report["baselines"][1]["rejected"], "no kernel");
  EXPECT_EQ(report["search"]["considered"], 5);
}

TEST(Report, TextShowsWinnerReasonsAndFitsTheTerminal) {
  ReportContext context{"model.onnx", {}, {}, {"a remark"}, {}};
  std::string text = textOf(someResult(), context, TextForm{90});
  EXPECT_THAT(
      text, HasSubstr("chosen: dp=4,tp=1, 2.00 s a step, 400 tokens/s, MFU "));
  EXPECT_THAT(text, HasSubstr("rejected: memory 123 GiB > 80.0 GiB"));
  EXPECT_THAT(text, HasSubstr("baselines"));
  EXPECT_THAT(text, HasSubstr("remark: a remark"));
  EXPECT_THAT(text, HasSubstr("5 considered, 2 pruned"));
}

TEST(Report, BeginsWithTheSoftwareAndShowsTheHeadroom) {
  SearchResult result = someResult();
  result.headroom = 0.2; // the limit of 80 GiB is without it
  ReportContext context{"model.onnx", {}, {}, {}, {}};
  context.software = "times and memory are those of Megatron-LM";
  std::string text = textOf(result, context, TextForm{200});
  EXPECT_THAT(text,
              StartsWith("times and memory are those of Megatron-LM\nmodel"));
  EXPECT_THAT(text, HasSubstr("1000 B of 100 GiB (20 % headroom kept), "));
  auto report = reportToJson(someCluster(), result, context);
  EXPECT_EQ(report["software"], context.software);
  EXPECT_EQ(report["cluster"]["headroom"], 0.2);
}

TEST(Report, SaysWhichOutputIsTrained) {
  ReportContext context{"model.onnx", {}, {}, {}, {}};
  EXPECT_THAT(textOf(someResult(), context, TextForm{200}),
              Not(HasSubstr("trains")));
  EXPECT_FALSE(jsonOf(someResult(), context).contains("loss_output"));
  context.loss = "total";
  EXPECT_THAT(textOf(someResult(), context, TextForm{200}),
              HasSubstr(", trains the output 'total'\n"));
  EXPECT_EQ(jsonOf(someResult(), context)["loss_output"], "total");
}

static std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

TEST(Report, NamesThePlanThatNeedsMoreMemory) {
  SearchResult result = someResult();
  result.bindingConstraint = "memory";
  result.bindingDetail = "a plan of 1.50 s a step needs 95.0 GiB";
  EXPECT_THAT(
      textOf(result),
      HasSubstr("bound by memory: a plan of 1.50 s a step needs 95.0 GiB"));
  EXPECT_EQ(jsonOf(result)["chosen"]["binding_detail"], result.bindingDetail);
}

TEST(Report, ListsMemoryAndTraffic) {
  SearchResult result = someResult();
  result.candidates[0].evaluation.memory[MemoryCategory::Activations] = 2048;
  std::string text = textOf(result);
  EXPECT_THAT(text, HasSubstr("\nmemory of the fullest rank: optimizer 1000 B, "
                              "activations 2.00 KiB\n"
                              "a rank sends in a step: 77 B over wire\n"));
}

TEST(Report, ManyCandidatesFitAScreen) {
  SearchResult result = someResult();
  for (int64_t i = 2; i < 30; ++i) {
    Candidate more = result.candidates[0];
    more.strategy.dp = 1000 + i;
    more.strategy.tp = 64;
    more.strategy.pp = 16;
    more.strategy.schedule = ScheduleKind::Interleaved;
    more.strategy.recompute = Recompute::Selective;
    more.strategy.microBatch = 16;
    more.why = "1.20 s slower: 1.00 s more communication";
    result.candidates.push_back(more);
    result.changes.push_back({"zero 1 -> 3", 2, 1000, true});
    result.pareto.add({more.strategy, double(i), 1e6 / double(i), {}});
  }
  ReportContext context{"model.onnx", {}, {}, {}, {}};
  for (int i = 0; i < 20; ++i)
    context.remarks.push_back("number " + std::to_string(i) +
                              " of remarks that take more than the hundred "
                              "columns which a terminal has, or so it seems");
  std::vector<std::string> lines = linesOf(textOf(result, context));
  EXPECT_LE(lines.size(), reportLines);
  EXPECT_EQ(std::ranges::count_if(
                lines, [](auto &line) { return line.starts_with("  * "); }),
            1);
  EXPECT_GT(lines.size(), reportLines - 4);
  for (const std::string &line : lines)
    EXPECT_LE(line.size(), 100U) << line;
  std::string text = textOf(result, context);
  // A remark may say that the model is wrong, so lists do not take its lines.
  EXPECT_THAT(text, HasSubstr("remark: number 1 of"));
  for (const char *words :
       {" more: report.html", " more changes: report.html",
        " more remarks: report.html", "remark: number 0 of", "dp=1002,tp=64",
        "time against memory (Pareto front, 28 strategies, some of them):"})
    EXPECT_THAT(text, HasSubstr(words)) << words << "\n" << text;
}

TEST(Report, ChangesHaveTheirGains) {
  SearchResult result = someResult();
  result.changes = {{"dp=4", 3, 2000, true},
                    {"sp false -> true", 2, 1000, true},
                    {"placement auto -> auto", 2.001, 1000, true}};
  std::string text = textOf(result);
  EXPECT_THAT(text,
              HasSubstr("sp false -> true: 1.00 s faster, 1000 B less\n"));
  EXPECT_THAT(text, HasSubstr("placement auto -> auto: no gain, no loss\n"));
}

TEST(Report, EqualBaselinesReferToEachOther) {
  SearchResult result = someResult();
  Candidate slower = result.candidates[0];
  slower.strategy.zero = 1;
  slower.why = "1.00 s slower";
  result.baselines = {{"zero1", slower}, {"megatron-3d", slower}};
  std::string text = textOf(result);
  EXPECT_THAT(text, HasSubstr("dp=4,tp=1,zero=1  1.00 s slower\n"));
  EXPECT_THAT(text, HasSubstr("dp=4,tp=1,zero=1  as zero1\n"));
}

TEST(Report, BaselinesThatDoNotFitHaveOneLine) {
  SearchResult result = someResult();
  Candidate large = result.candidates[1];
  large.evaluation.stepSeconds = 1; // Faster than the winner, but too large.
  Candidate larger = large;
  larger.why = "memory 456 GiB > 80.0 GiB";
  result.baselines = {{"single", large}, {"ddp", larger}, {"zero1", large}};
  std::vector<std::string> lines =
      linesOf(textOf(result, {"m", {}, {}, {}, {}}));
  auto at = std::ranges::find(lines, "  baselines");
  ASSERT_GE(lines.end() - at, 4);
  EXPECT_THAT(at[1], StartsWith("  single "));
  EXPECT_THAT(at[1], HasSubstr(" - "));
  EXPECT_THAT(at[1], HasSubstr("rejected: memory 123 GiB > 80.0 GiB"));
  EXPECT_THAT(at[2], HasSubstr("rejected: memory 456 GiB > 80.0 GiB"));
  EXPECT_THAT(at[3], HasSubstr("as single"));
  for (int i : {1, 2, 3})
    EXPECT_THAT(at[i], Not(HasSubstr("1.00 s")));
}

TEST(Report, RunnersUpComeBeforeChanges) {
  SearchResult result = someResult();
  for (int i = 0; i < 9; ++i) {
    result.candidates.push_back(result.candidates[0]);
    result.candidates.back().why = "1.00 s slower";
    result.changes.push_back({"zero 1 -> 3", 2, 1000, true});
  }
  Candidate wordy = result.candidates[0];
  for (int i = 0; i < 9; ++i) {
    wordy.strategy.microBatch = 10 + i;
    wordy.why = std::string(150, char('a' + i));
    result.baselines.push_back({"b" + std::to_string(i), wordy});
  }
  result.candidates.erase(result.candidates.begin() + 1);
  std::string text = textOf(result);
  EXPECT_THAT(text, HasSubstr("1.00 s slower"));
  EXPECT_THAT(text, HasSubstr(" more: report.html"));
}

TEST(Report, LongTextsFitAScreen) {
  SearchResult result = someResult();
  Candidate wordy = result.candidates[0];
  wordy.why = std::string(150, 'w');
  result.candidates.resize(1);
  ReportContext context;
  for (int i = 0; i < 12; ++i) {
    wordy.strategy.microBatch = 10 + i;
    result.candidates.push_back(wordy);
    result.baselines.push_back({"b" + std::to_string(i), wordy});
    result.changes.push_back({"zero 1 -> 3", 2, 1000, true});
    WhatIf whatIf;
    whatIf.change = "more";
    whatIf.why = std::string(120, 'y');
    context.whatIfs.push_back(whatIf);
    context.remarks.push_back(std::string(120, 'r'));
  }
  std::string text = textOf(result, context);
  EXPECT_LE(linesOf(text).size(), reportLines) << text;
  for (const char *words : {"chosen: ", "baselines", "considered", "verif"})
    EXPECT_THAT(text, HasSubstr(words)) << words << '\n' << text;
}

TEST(Report, ImagesAreCountedInSamples) {
  SearchResult result = someResult();
  auto unit = [&] { return jsonOf(result)["step"]["unit"]; };
  EXPECT_EQ(unit(), "tokens");
  result.totals.tokensPerSample = 1;
  EXPECT_EQ(unit(), "samples");
  std::string text = textOf(result);
  EXPECT_THAT(text, HasSubstr(", 4 samples/s, MFU"));
}

TEST(Report, AnswersWhatIf) {
  SearchResult result = someResult();
  ReportContext context;
  WhatIf faster = answerOf("one more node", result, 6);
  faster.strategy.tp = 2;
  faster.stepSeconds = 1;
  faster.tokensPerSecond = 500; // The winner has 400.
  WhatIf unknown;
  unknown.change = "twice the memory";
  unknown.why = "nothing";
  context.whatIfs = {faster, unknown, answerOf("half", result, 4)};
  std::string text = textOf(result, context);
  EXPECT_THAT(text,
              HasSubstr("  what if\n    one more node: 1.00 s a step, +25.0 "
                        "% tokens/s, 1000 B, tp 1 -> 2; 2 devices idle\n"
                        "    twice the memory: nothing\n"
                        "    half: 2.00 s a step, +0.0 % tokens/s, 1000 B, "
                        "same strategy\n"));
  auto json = jsonOf(result, context)["what_if"];
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[0]["tokens_per_second"], 500);
  EXPECT_EQ(json[1]["why"], "nothing");
}

TEST(Report, DescribesABetterPlan) {
  SearchResult asked = someResult(), free = someResult();
  free.considered = 70;
  int64_t devices = free.candidates[0].strategy.ranks();
  auto text = [&] {
    return betterPlanText(
        betterPlan(asked, free, Objective::Throughput, devices));
  };
  EXPECT_EQ(text(), "nothing better was found among 70 strategies");
  Evaluation &best = free.candidates[0].evaluation;
  best.stepSeconds = 1.5; // The present plan takes 2 s.
  EXPECT_EQ(
      text(),
      "better: --strategy=" + stringifyStrategy(free.candidates[0].strategy) +
          ", 1.50 s a step (25.0 % less than 2.00 s), 1000 B "
          "(0.0 % less), bound by " +
          free.bindingConstraint + "; the best among 70 strategies");
  devices += 1;
  EXPECT_THAT(text(),
              HasSubstr(",ranks=" + std::to_string(devices - 1) + ", 1.50 s"));
  ReportContext context;
  context.better = betterPlan(asked, free, Objective::Throughput, devices);
  auto json = jsonOf(asked, context)["better"];
  EXPECT_EQ(json["step_seconds"], 1.5);
  EXPECT_EQ(json["saved_seconds"], 0.5);
  EXPECT_THAT(textOf(asked, context), HasSubstr("better: --strategy="));
  asked.candidates[0].fits = false;
  EXPECT_THAT(text(), StartsWith("what fits: --strategy="));
  free.candidates[0].fits = false;
  EXPECT_EQ(text(), "nothing that fits was found among 70 strategies");
}

TEST(Report, DescribesTheVerification) {
  Verification verification;
  verification.why = "too odd";
  EXPECT_EQ(verificationText(verification),
            "not verified against one device: too odd");
  verification.scope = Verification::Scope::full;
  verification.ranks = 4;
  verification.outputs = 6;
  verification.tensors = 20;
  verification.outputError = 2e-7;
  verification.toleranceShare = 0.25;
  verification.seconds = 1.5;
  EXPECT_EQ(verificationText(verification),
            "verified: 4 ranks compute what one device computes: 6 outputs "
            "(error 2e-07) and 20 tensors of 2 steps, at most 25 % of the "
            "tolerance, in 1.50 s");
  verification.scope = Verification::Scope::shrunk;
  verification.strategy.dp = 2;
  verification.strategy.tp = 2;
  verification.globalBatch = 4;
  verification.layers = {{12, 96, 2}};
  verification.sizes = {{512, {8}}, {1024, {8, 64}}};
  std::string text = verificationText(verification);
  EXPECT_THAT(
      text, StartsWith("verified in shrunk form (repeats of layers 96 -> 2, "
                       "sizes 512 -> 8, 1024 -> 8|64, batch 4): 4 ranks under "
                       "dp=2,tp=2 compute what one device computes: "));
  text = verificationText(verification, /*isBrief=*/true);
  EXPECT_THAT(text,
              StartsWith("verified in shrunk form (repeats of layers 96 -> 2, "
                         "2 sizes, batch 4): 4 ranks under dp=2,tp=2 "));
  ReportContext context;
  context.verification = verification;
  nlohmann::ordered_json json = jsonOf(someResult(), context)["verification"];
  EXPECT_EQ(json["scope"], "shrunk");
  EXPECT_EQ(json["shrunk"]["layers"][0]["after"], 2);
  EXPECT_EQ(json["shrunk"]["sizes"][1]["after"], (std::vector<int>{8, 64}));
}
