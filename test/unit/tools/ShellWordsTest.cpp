//===- ShellWordsTest.cpp - Words of scripts that do not run --------------===//
#include "codegen/export/ShellWords.h"

#include "codegen/export/Import.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::exports;

using Words = std::vector<std::string>;

static Words wordsOf(const std::string &script) {
  Words texts;
  for (const ShellWord &word : shellWords(script))
    texts.push_back(word.text);
  return texts;
}

TEST(ShellWords, LinesOfWords) {
  std::vector<ShellWord> words =
      shellWords("# none\nA=(--x 1\n  --y 2)\nrun \\\n  --z \"a\nb\" c");
  std::vector<int64_t> lines;
  for (const ShellWord &word : words)
    lines.push_back(word.line);
  EXPECT_EQ(lines, (std::vector<int64_t>{2, 2, 3, 3, 4, 5, 5, 6}));
}

TEST(ShellWords, QuotesCommentsAndLines) {
  EXPECT_EQ(wordsOf("run a\\\n  b # c\n'd e' \"f\"; g"),
            (Words{"run", "a", "b", "d e", "f", "g"}));
  EXPECT_EQ(wordsOf("A=(--x 1\n  --y=2)\nrun ${A[@]}"),
            (Words{"--x", "1", "--y=2", "run", "${A[@]}"}));
  EXPECT_EQ(wordsOf(""), Words{});
}

TEST(ShellWords, VariablesWithSeveralFlagsAreSplit) {
  const Words expected = {"run", "--a", "1", "--b", "two", "--c"};
  EXPECT_EQ(wordsOf("X=\"--a 1 --b two\"\nrun $X --c"), expected);
  EXPECT_EQ(wordsOf("X=\"\n  --a 1\n  --b two\n\"\nrun ${X} --c"), expected);
  EXPECT_EQ(wordsOf("X=\"--a 1 \\\n --b two\"\nrun \"$X\" --c"), expected);
  EXPECT_EQ(wordsOf("Y='--b two'; X=\"--a 1 $Y\"; run $X --c"), expected);
  EXPECT_EQ(wordsOf("X='--a 1'\nX+=' --b two'\nrun $X --c"), expected);
  EXPECT_EQ(wordsOf("run\nX=(--a 1)\nX+=(--b two\n--c)"), expected);
  // A value with spaces is one word if it contains no flags.
  EXPECT_EQ(wordsOf("D='0.5 a 0.5 b'; run --data $D"),
            (Words{"run", "--data", "0.5 a 0.5 b"}));
}

TEST(ShellWords, DefaultsMayHoldVariables) {
  EXPECT_EQ(wordsOf("B=2; run ${A:-$B} ${A:-${C:-3}} ${A:-${B}4}"),
            (Words{"run", "2", "3", "24"}));
  std::string deep;
  for (int i = 0; i < 9999; ++i)
    deep += "${A:-";
  EXPECT_EQ(wordsOf("run " + deep + "1" + std::string(9999, '}')).size(), 2U);
}

TEST(ShellWords, SumsOfWholeNumbers) {
  auto valueOf = [](const std::string &sum) {
    return wordsOf("A=8\nB=4\nrun $((" + sum + "))").back();
  };
  EXPECT_EQ(valueOf("A*B"), "32");
  EXPECT_EQ(valueOf(" $A * ( B + 1 ) - 2"), "38");
  EXPECT_EQ(valueOf("(A + B) / 5 % 3"), "2");
  EXPECT_EQ(valueOf("2*(A+(B))"), "24");
  // Other expressions are not evaluated.
  for (const char *sum : {"A*C", "A/0", "A<<1", "A+", "9223372036854775807+1"})
    EXPECT_EQ(valueOf(sum), "$((" + std::string(sum) + "))");
  EXPECT_EQ(wordsOf("A=(--n $((2*3)))").back(), "6");
  EXPECT_EQ(wordsOf("run $((1").size(), 2U);
  EXPECT_NE(wordsOf("run $((" + std::string(9999, '(')).back(), "");
}

TEST(ShellWords, MegatronsExamplesAreRead) {
  auto imported = readStrategy(R"(#!/bin/bash
GPUS_PER_NODE=8
NNODES=2
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
DP=$((WORLD_SIZE / 8))
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES"
MODEL_ARGS="
    --num-layers 24
    --hidden-size 1024
"
PARALLEL="--tensor-model-parallel-size 4 \
  --pipeline-model-parallel-size 2 --sequence-parallel \
  --num-layers-per-virtual-pipeline-stage 6"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py $MODEL_ARGS $PARALLEL \
    --micro-batch-size 2 --global-batch-size $((DP*32)) --bf16
)",
                               "run.sh", {16});
  ASSERT_TRUE(imported) << imported.message();
  EXPECT_EQ(cost::stringifyStrategy(imported->strategy),
            "dp=2,tp=4,pp=2,vpp=2,sp=true,schedule=interleaved,micro_batch=2");
  EXPECT_EQ(imported->globalBatch, 64);
  EXPECT_EQ(imported->precision, "bf16");
  EXPECT_TRUE(imported->ignored.empty());
  ASSERT_EQ(imported->sizes.size(), 2U);
  EXPECT_EQ(imported->sizes[0].value, 24);

  auto lacking = readStrategy("run --tensor-model-parallel-size 2 "
                              "--num-layers-per-virtual-pipeline-stage 5",
                              "run.sh", {16});
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.message().find("needs --num-layers, which is missing"),
            std::string::npos)
      << lacking.message();
}
