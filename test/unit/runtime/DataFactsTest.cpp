//===- DataFactsTest.cpp - one pass over the data before the first step ---===//
#include "runtime/data/DatasetInputs.h"
#include "runtime/facts/HeldOut.h"
#include "runtime/facts/LabelTexts.h"
#include "runtime/io/Npy.h"
#include "runtime/job/DataCheck.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

class Facts : public test::ScratchFolder {
protected:
  /// Samples of two numbers and a label of 0 to 4, or -100.
  static Plan planOf(int64_t batch) {
    Plan plan;
    plan.inputs = {{"x", 0, DType::F32, {batch, 2}, {}, 0},
                   {"label", 0, DType::I64, {batch}, {}, 5, -100}};
    plan.trains = true;
    return plan;
  }
  void writeArrays(const std::vector<double> &labels) const {
    auto count = static_cast<int64_t>(labels.size());
    HostTensor x = HostTensor::zeros(DType::F32, {count, 2});
    HostTensor label = HostTensor::zeros(DType::I64, {count});
    for (int64_t i = 0; i < count; ++i) {
      x.set(2 * i, static_cast<double>(i));
      x.set(2 * i + 1, -static_cast<double>(i));
      label.set(i, labels[i]);
    }
    ASSERT_TRUE(writeNpy(at("x.npy"), x).ok());
    ASSERT_TRUE(writeNpy(at("label.npy"), label).ok());
  }
  std::unique_ptr<InputSource> open(int64_t batch,
                                    const DataOptions &options = {}) const {
    Plan plan = planOf(batch);
    auto source =
        DatasetInputs::open(plan, std::move(*openDataset(plan, dir)), options);
    EXPECT_TRUE(source.ok()) << source.status().message();
    return std::move(*source);
  }
};

/// Rows of one f32 input.
Expected<DataFacts> scan(const std::vector<float> &rows,
                         const ScanLimits &limits = {}) {
  Port port{"x", 0, DType::F32, {1}, {}, 0};
  return scanRows(
      {port}, {1}, "sample", static_cast<int64_t>(rows.size()),
      [&](int64_t first, int64_t count, const std::vector<std::byte *> &to) {
        for (int64_t i = 0; i < count; ++i)
          storeFromDouble(to[0], DType::F32, i, rows[first + i]);
        return Status::success();
      },
      limits);
}

TEST_F(Facts, EveryInputIsDescribed) {
  writeArrays({0, 4, -100, 3, -100, -100, 2, 1});
  auto source = open(2);
  auto facts = source->scan();
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_TRUE(facts->check(false).ok());
  EXPECT_EQ(facts->texts(),
            (std::vector<std::string>{
                "input 'x': -7 to 7, mean 0",
                "input 'label': 0 to 4, 37.5 % ignored (-100)"}));
}

TEST_F(Facts, TargetsAreProbabilities) {
  ArrayFacts facts{{"y", 0, DType::F32, {2}, {}, 0}};
  facts.port.use = InputUse::Probabilities;
  std::vector<float> right = {0, 1}, wrong = {0, 2};
  facts.add(0, right.data(), 2);
  EXPECT_EQ(facts.text(), "input 'y': 0 to 1, mean 0.5");
  facts.add(1, wrong.data(), 2);
  EXPECT_EQ(facts.text(),
            "input 'y': 0 to 2, mean 0.75; it holds the targets of a binary "
            "cross entropy, which are expected from 0 to 1");
}

TEST(ArrayFacts, NumbersThatAreNormalizedTwiceAreSaid) {
  auto textOf = [](const std::vector<float> &values, double shift,
                   double scale) {
    ArrayFacts facts{{"x", 0, DType::F32, {2}, {}, 0}};
    facts.port.dependence.shift = shift;
    facts.port.dependence.scale = scale;
    facts.add(0, values.data(), 2);
    return facts.text();
  };
  EXPECT_EQ(textOf({0, 255}, 127, 1 / 64.), "input 'x': 0 to 255, mean 127.5");
  EXPECT_EQ(textOf({-1, 1}, 127, 1 / 64.),
            "input 'x': -1 to 1, mean 0; the model first computes (x - 127) / "
            "64, after which the numbers are -1.984 +- 0.01562: are they "
            "normalized or scaled already?");
}

TEST(ArrayFacts, TargetsOfZeroAreSaidWhereTheLossIgnoresThem) {
  ArrayFacts facts{{"y", 0, DType::F32, {2}, {}, 0}};
  std::vector<float> some = {0, 1}, others = {0, -1};
  facts.add(0, some.data(), 2);
  EXPECT_EQ(facts.text(), "input 'y': 0 to 1, mean 0.5");
  facts.port.dependence.ignoresZero = true;
  EXPECT_EQ(facts.text(),
            "input 'y': 0 to 1, mean 0.5; the loss is a constant where it is "
            "0, 50 % of it: does the loss expect -1 and 1?");
  facts.add(1, others.data(), 2);
  EXPECT_EQ(facts.text(), "input 'y': -1 to 1, mean 0");
}

TEST(ArrayFacts, IntegersThatBecomeEqualAsNumbersAreSaid) {
  Port port{"t", 0, DType::I64, {4}, {}, 0};
  auto textsOf = [&](int64_t first) {
    return scanRows({port}, {1}, "sample", 64,
                    [&](int64_t row, int64_t count,
                        const std::vector<std::byte *> &to) {
                      for (int64_t i = 0; i < count; ++i)
                        storeFromDouble(to[0], DType::I64, i,
                                        double(first + row + i));
                      return Status::success();
                    })
        ->texts();
  };
  EXPECT_EQ(textsOf(1'700'000'000).size(), 1U);
  port.dependence.convertedTo = DType::F32;
  EXPECT_EQ(textsOf(1000).size(), 1U);
  EXPECT_EQ(textsOf(1'700'000'000)[1],
            "input 't': 64 values of element 0 of a sample (1700000000 to "
            "1700000063) become 1 in f32, in which the plan computes from it");
}

TEST(ArrayFacts, TheIgnoredLabelOfAnUnsignedFileIsSaid) {
  ArrayFacts facts{{"y", 0, DType::I64, {1}, {}, 200, -100}};
  facts.port.use = InputUse::Labels;
  std::vector<int64_t> labels = {156, 3, 156, 4, 5};
  facts.add(0, labels.data(), 5);
  EXPECT_EQ(facts.wrappedText(DType::U8),
            "input 'y': 40 % are 156, as which a file of u8 holds -100, the "
            "label that the loss ignores: it counts them");
  EXPECT_EQ(facts.wrappedText(DType::I64), "");
  EXPECT_EQ(facts.wrappedText(DType::U16), "");
  // A class that is as frequent as others.
  facts.add(1, labels.data() + 1, 1);
  EXPECT_EQ(facts.wrappedText(DType::U8), "");
}

TEST(ArrayFacts, NumbersBeyondFp16AreSaid) {
  ArrayFacts facts{{"x", 0, DType::F32, {2}, {}, 0}};
  std::vector<float> small = {-65504, 65504}, large = {-70000, 66000};
  facts.add(0, small.data(), 2);
  EXPECT_EQ(facts.overflowText(), "");
  facts.add(1, large.data(), 2);
  EXPECT_EQ(facts.overflowText(),
            "input 'x' holds -70000; the plan computes from it in fp16, whose "
            "largest number is 65504");
  facts.max = 0; // a mask
  EXPECT_EQ(facts.overflowText(), "");
}

TEST_F(Facts, RowsWithoutLabelsAreCounted) {
  Port port{"label", 0, DType::I64, {2}, {}, 5, -100};
  auto read = [](int64_t first, int64_t count,
                 const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < count; ++i) {
      storeFromDouble(to[0], DType::I64, 2 * i, -100);
      storeFromDouble(to[0], DType::I64, 2 * i + 1, (first + i) % 2 ? -100 : 3);
    }
    return Status::success();
  };
  EXPECT_EQ(scanRows({port}, {2}, "step", 4, read)->texts(),
            (std::vector<std::string>{
                "input 'label': every value is 3, 75 % ignored (-100)",
                "input 'label': all labels of 2 of 4 steps are ignored, "
                "first step 2"}));
}

TEST_F(Facts, AnIndexOutOfRangeIsRefusedInAnySample) {
  writeArrays({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(open(2)->scan().status().message(),
            at("label.npy") + ": sample 5: element 0 of input 'label' is 5, "
                              "expected 0 to 4, or -100 (ignored)");
}

TEST_F(Facts, LabelsThatAreAllIgnoredAreRefused) {
  writeArrays({-100, -100});
  EXPECT_HAS(open(2)->scan()->check(true).message(),
             "all labels of input 'label' are -100, which the loss ignores");
}

TEST_F(Facts, AStepWithoutLabelsIsFound) {
  writeArrays({0, -100, -100, -100, 1, -100, 2});
  auto source = open(2); // samples 2 and 3 are step 2
  auto facts = source->scan();
  EXPECT_EQ(source->ignoredStep(*facts, 1, 10), 2);
  EXPECT_EQ(source->ignoredStep(*facts, 1, 1), 0);
  // The second epoch begins in step 4, so that its samples 1 and 2 are step 5.
  EXPECT_EQ(source->ignoredStep(*facts, 3, 10), 5);
  EXPECT_EQ(open(4)->ignoredStep(*facts, 1, 10), 0);
}

TEST(DataFacts, NanAndInfinityAreNamed) {
  auto facts = scan({1, NAN, INFINITY});
  EXPECT_HAS(facts->check(false).message(),
             "input 'x' holds nan in sample 1, element 0, expected finite "
             "numbers");
  EXPECT_TRUE(facts->check(true).ok());
  EXPECT_EQ(facts->texts()[1], "input 'x' holds nan in sample 1, element 0");
  // A model may add a mask of -inf before a softmax.
  facts = scan({0, -INFINITY, 0, 0});
  EXPECT_TRUE(facts->check(false).ok());
  EXPECT_EQ(facts->texts().front(), "input 'x': every value is 0, 25 % -inf");
}

TEST(DataFacts, LargeDataIsReadEvenly) {
  std::vector<float> rows(1000);
  rows.back() = 7;
  auto facts = scan(rows, {40}); // ten rows of four bytes
  EXPECT_EQ(facts->seen, 10);
  EXPECT_EQ(facts->inputs[0].max, 7);
  EXPECT_HAS(facts->texts().back(), "those of 10 of 1000 samples");
  EXPECT_EQ(scan(rows, {4000})->seen, 1000);
}

TEST(DataFacts, DataThatIsSlowToReadIsReadInPart) {
  ScanLimits limits{40};
  limits.seconds = 0;
  auto facts = scan(std::vector<float>(1000), limits);
  EXPECT_EQ(facts->seen, 1);
  EXPECT_HAS(facts->texts().back(),
             "those of 1 of 1000 samples, which are slow to read");
}

TEST(DataFacts, EqualInputsAreSaid) {
  std::vector<Port> ports = {{"a", 0, DType::I64, {1}, {}, 0},
                             {"b", 0, DType::I64, {1}, {}, 0},
                             {"c", 0, DType::I64, {1}, {}, 0}};
  auto read = [&](int64_t first, int64_t count,
                  const std::vector<std::byte *> &to) {
    for (int64_t row = first; row < first + count; ++row)
      for (size_t i = 0; i < 3; ++i)
        storeFromDouble(to[i], DType::I64, row - first,
                        static_cast<double>(i == 2 && row == 3 ? 9 : row));
    return Status::success();
  };
  EXPECT_EQ(scanRows(ports, {1, 1, 1}, "step", 4, read)->texts().back(),
            "inputs 'a' and 'b' hold equal values");
  ports[1].use = InputUse::ShiftedLabels;
  EXPECT_TRUE(scanRows(ports, {1, 1, 1}, "step", 4, read)->equal.empty());
}

TEST_F(Facts, EpochsAreThoseOfTheData) {
  writeArrays({0, 1, 2, 3, 4, 0, 1, 2});
  RunOptions options;
  options.data = dir;
  options.steps = 9;
  auto first = [&](const std::string &last, const DataPosition &position) {
    options.lastBatch = last;
    auto source =
        open(2, {.last = last == "drop" ? LastBatch::Drop : LastBatch::Wrap});
    EXPECT_TRUE(source->resumeAt(5, position).ok());
    return amountTexts(options, planOf(2), *source, *source->scan(), 4).front();
  };
  for (const char *last : {"wrap", "drop"}) {
    // New data begins with its first sample.
    EXPECT_EQ(first(last, {}), "8 samples, 4 steps an epoch, 1.25 epochs, in "
                               "the order of the file");
    EXPECT_HAS(first(last, {1, 2, 8, "as they lie", "", ""}), ", 2.5 epochs, ");
  }
}

TEST_F(Facts, SamplesThatNoEpochReadsAreSaid) {
  writeArrays({0, 1, 2, 3, 4, 0, 1});
  RunOptions options;
  options.data = dir;
  options.lastBatch = "drop";
  auto last = [&](int64_t steps, int64_t batch = 2) {
    options.steps = steps;
    auto source = open(batch, {.last = LastBatch::Drop});
    return amountTexts(options, planOf(batch), *source, *source->scan(), 0)
        .back();
  };
  EXPECT_EQ(last(6), "--last-batch=drop: no epoch trains the last of 7 "
                     "samples; --shuffle drops others in each epoch");
  EXPECT_HAS(last(2, 4), "trains the last 3 of 7 samples");
  EXPECT_HAS(last(3), "in the order of the file"); // one epoch
  EXPECT_HAS(last(7, 7), "in the order of the file");
  options.shuffle = 1;
  EXPECT_EQ(last(6).find("--last-batch"), std::string::npos);
}

TEST_F(Facts, AnIgnoredLabelThatNoStepNeedsIsSaid) {
  RunOptions options;
  options.data = dir;
  options.lastBatch = "mask";
  for (const char *given : {"label=-100", ""})
    for (int64_t samples : {8, 7}) {
      writeArrays(std::vector<double>(samples, 1));
      auto source =
          open(2, {.last = LastBatch::Mask, .ignored = {"label", -100}});
      options.ignoredLabel = given;
      bool isSaid =
          amountTexts(options, planOf(2), *source, *source->scan(), 0).back() ==
          "--ignored-label=label=-100 has no effect: "
          "the samples fill all steps";
      EXPECT_EQ(isSaid, *given && samples == 8);
    }
}

TEST_F(Facts, HeldOutSamplesThatAreTrainedAreCounted) {
  auto scanOf = [&](const std::vector<double> &labels) {
    writeArrays(labels);
    return std::move(*open(2)->scan());
  };
  DataFacts training = scanOf({0, 1, 2, 3});
  EXPECT_EQ(commonText(training, "--data", scanOf({0, 1, 2, 3})),
            "4 of 4 samples of --eval-data are also in --data");
  EXPECT_EQ(commonText(training, "--data", scanOf({0, 0, 0, 0, 0, 0})),
            "1 of 6 samples of --eval-data is also in --data");
  EXPECT_EQ(commonText(training, "--data", scanOf({4, 4})), "");
  DataFacts &part = training;
  part.seen = 3;
  EXPECT_EQ(commonText(part, "--data", scanOf({0, 1, 2, 3})),
            "at least 4 of 4 samples of --eval-data are also in --data");
}

/// Samples of two floats and a class.
class Samples : public ::testing::Test {
protected:
  Samples() {
    ports = {{"x", 0, DType::F32, {4, 2}, {}, 0},
             {"y", 0, DType::I64, {4}, {}, 10}};
    ports[1].use = InputUse::Labels;
    for (Port &port : ports)
      port.batchDim = 0;
  }
  /// `value(input, sample, element)` is an element. There are 20 samples, in
  /// steps of four if the unit is "step".
  template <typename Value>
  DataFacts facts(Value value, const std::string &unit = "sample") {
    const int64_t perRow = unit == "step" ? 4 : 1;
    auto read = [&](int64_t first, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t i = 0; i < count * perRow; ++i)
        for (int64_t input : {0, 1})
          for (int64_t k = 0; k < 2 - input; ++k)
            storeFromDouble(to[input], ports[input].dtype, i * (2 - input) + k,
                            value(input, first * perRow + i, k));
      return Status::success();
    };
    return std::move(
        *scanRows(ports, {2 * perRow, perRow}, unit, 20 / perRow, read));
  }
  static std::vector<std::string> remarks(const DataFacts &facts) {
    std::vector<std::string> texts = facts.texts();
    return {texts.begin() + 2, texts.end()};
  }

  std::vector<Port> ports;
};

static double plain(int64_t input, int64_t sample, int64_t k) {
  return static_cast<double>(input == 1 ? sample % 3 : 7 * sample + k);
}

TEST_F(Samples, RepeatedOnesAreCounted) {
  for (const char *unit : {"sample", "step"}) {
    EXPECT_TRUE(remarks(facts(plain, unit)).empty());
    auto repeated = [](int64_t input, int64_t sample, int64_t k) {
      return plain(input, sample > 17 ? sample - 3 : sample, k);
    };
    EXPECT_EQ(
        remarks(facts(repeated, unit)),
        std::vector<std::string>{"2 of 20 samples repeat another sample"});
    EXPECT_EQ(
        commonText(facts(plain, "step"), "--batches=b", facts(repeated, unit)),
        "20 of 20 samples of --eval-data are also in --batches=b");
  }
  ports[1].batchDim = -1; // not clear what a sample is
  EXPECT_EQ(commonText(facts(plain, "step"), "--batches=b", facts(plain)), "");
}

TEST_F(Samples, OtherLabelsOfOneSampleAreCounted) {
  auto contrary = [](int64_t input, int64_t sample, int64_t k) {
    return plain(input, input == 0 && sample == 19 ? 0 : sample, k);
  };
  EXPECT_EQ(remarks(facts(contrary)),
            std::vector<std::string>{
                "2 of 20 samples equal another sample with other labels"});
}

TEST_F(Samples, ElementsOfOneValueAreCounted) {
  auto dead = [](int64_t input, int64_t sample, int64_t k) {
    return input == 0 && k == 1 ? 3 : plain(input, sample, k);
  };
  EXPECT_EQ(remarks(facts(dead)),
            std::vector<std::string>{"input 'x': 1 of 2 elements of a sample "
                                     "has one value in all samples"});
  ports[0].dependence.weighsLoss = true;
  EXPECT_EQ(remarks(facts(dead)), std::vector<std::string>());
}

/// Returns the remarks on 400 samples of two inputs.
static std::vector<std::string>
remarksOn(const std::vector<Port> &ports,
          const std::function<double(size_t, int64_t, int64_t)> &value) {
  std::vector<int64_t> perRow;
  perRow.reserve(ports.size());
  for (const Port &port : ports)
    perRow.push_back(numElements(port.globalShape) / port.globalShape[0]);
  auto read = [&](int64_t first, int64_t count,
                  const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < count; ++i)
      for (size_t input = 0; input < ports.size(); ++input)
        for (int64_t k = 0; k < perRow[input]; ++k)
          storeFromDouble(to[input], ports[input].dtype, i * perRow[input] + k,
                          value(input, first + i, k));
    return Status::success();
  };
  std::vector<std::string> texts =
      scanRows(ports, perRow, "sample", 400, read)->texts();
  return {texts.begin() + int64_t(ports.size()), texts.end()};
}

TEST(DataFacts, AMaskOfTextsMayBeginWithOnes) {
  std::vector<Port> ports = {{"mask", 0, DType::F32, {4, 10}, {}, 0}};
  auto flags = [](size_t, int64_t sample, int64_t k) {
    return k < 3 + sample * 7919 % 8 ? 1.0 : 0.0;
  };
  auto isOfElements = [](const std::string &text) {
    return text.ends_with("one value in all samples");
  };
  EXPECT_EQ(std::ranges::count_if(remarksOn(ports, flags), isOfElements), 0);
  // Flags in another order are features.
  auto features = [](size_t, int64_t sample, int64_t k) {
    return k == 4 ? 0.0 : double((sample * 7919 >> k) % 2);
  };
  EXPECT_EQ(std::ranges::count_if(remarksOn(ports, features), isOfElements), 1);
}

TEST(DataFacts, ThePaddingOfIdsIsNoClass) {
  std::vector<Port> ports = {{"history", 0, DType::I64, {4, 8}, {}, 20},
                             {"next", 0, DType::I64, {4}, {}, 20}};
  ports[0].use = InputUse::Ids;
  ports[1].use = InputUse::Labels;
  auto items = [](size_t input, int64_t sample, int64_t k) {
    const bool isPadding = input == 0 && k >= 3 + sample % 6;
    return isPadding ? 0.0
                     : double(1 + (sample * 7 + sample / 19 + k * k) % 19);
  };
  auto isSaid = [&](const auto &values) {
    const std::vector<std::string> texts = remarksOn(ports, values);
    return std::ranges::count(
        texts, "input 'next': no label is 0, but each of 1 to 19 occurs; the "
               "loss counts its 20 classes from 0");
  };
  EXPECT_EQ(isSaid(items), 0);
  // Ids of another vocabulary, and an id 0 that is no padding.
  ports[0].limit = 30;
  EXPECT_EQ(isSaid(items), 1);
  ports[0].limit = 20;
  EXPECT_EQ(isSaid([&](size_t input, int64_t sample, int64_t k) {
              return items(1, sample, k) - (input == 0 ? 1 : 0);
            }),
            1);
}

TEST_F(Samples, AnElementThatEqualsTheLabelIsSaid) {
  auto leaking = [](int64_t input, int64_t sample, int64_t k) {
    return plain(input == 0 && k == 1 ? 1 : input, sample, k);
  };
  EXPECT_EQ(remarks(facts(leaking)),
            std::vector<std::string>{"input 'x': element 1 of a sample equals "
                                     "the label of 'y' in all 20 samples"});
  EXPECT_TRUE(remarks(facts([&](int64_t input, int64_t sample, int64_t k) {
                return input == 0 && sample == 19 ? 5.5
                                                  : leaking(input, sample, k);
              })).empty());
}

TEST_F(Samples, AnElementThatIsALineOverTheLabelIsSaid) {
  auto line = [](int64_t input, int64_t sample, int64_t k) {
    return input == 0 && k == 1 ? 0.3 - 1.7 * static_cast<double>(sample % 3)
                                : plain(input, sample, k);
  };
  EXPECT_EQ(remarks(facts(line)),
            std::vector<std::string>{
                "input 'x': element 1 of a sample gives the label of 'y' away: "
                "it is 0.3 + -1.7 * label in all 20 samples"});
  // A curve over the label, one other sample, two classes in few samples.
  EXPECT_TRUE(remarks(facts([&](int64_t input, int64_t sample, int64_t k) {
                double value = line(input, sample, k);
                return input == 0 && k == 1 ? value * value : value;
              })).empty());
  EXPECT_TRUE(remarks(facts([&](int64_t input, int64_t sample, int64_t k) {
                return line(input, input == 0 && sample == 19 ? 0 : sample, k);
              })).size() < 2);
  auto two = [](int64_t input, int64_t sample, int64_t k) {
    auto label = static_cast<double>(sample % 2);
    return input == 1 ? label : k == 1 ? 5 - label : plain(input, sample, k);
  };
  ports[1].limit = 2;
  EXPECT_TRUE(remarks(facts(two)).empty());
}

TEST_F(Samples, LabelsCountedFromOneAreSaid) {
  auto counted = [&](int64_t labels, int64_t first) {
    ports[1].limit = labels;
    ports[1].globalShape = {4};
    DataFacts found = facts([=](int64_t input, int64_t sample, int64_t k) {
      return input == 1 ? static_cast<double>(first + sample % (labels - first))
                        : plain(input, sample, k);
    });
    for (int i = 0; i < 4; ++i)
      for (int64_t label = first; label < labels; ++label)
        for (int k = 0; k < 2; ++k)
          found.inputs[1].add(0, &label, 1);
    std::vector<std::string> texts = labelTexts(found.inputs[1]);
    return texts.empty() ? "" : texts.front();
  };
  EXPECT_EQ(counted(4, 1), "input 'y': no label is 0, but each of 1 to 3 "
                           "occurs; the loss counts its 4 classes from 0");
  EXPECT_EQ(counted(4, 0), "");
  EXPECT_EQ(counted(4, 2),
            "input 'y': 2 of 4 classes of the loss do not occur: 0, 1");
  EXPECT_EQ(counted(2, 1), ""); // every value is 1
  EXPECT_EQ(counted(30, 1),     // few labels of each class
            "input 'y': 1 of 30 classes of the loss does not occur: 0");
}

TEST_F(Samples, ValuesThatBecomeEqualInANarrowTypeAreSaid) {
  auto text = [&](double first, double step, DType type) {
    DataFacts found = facts([=](int64_t input, int64_t sample, int64_t k) {
      return input == 0 && k == 1 ? first + step * static_cast<double>(sample)
                                  : static_cast<double>(sample % 3);
    });
    return found.values[0].text("x", type);
  };
  EXPECT_EQ(text(10000, 5, DType::BF16),
            "input 'x': 20 values of element 1 of a sample (10000 to 10095) "
            "become 3 in bf16, in which the plan computes from it");
  EXPECT_EQ(text(10000, 8, DType::F16), "");
  EXPECT_EQ(text(1, 0.05, DType::BF16), "");
  EXPECT_EQ(text(-0.5, 0.01, DType::BF16), "");
  EXPECT_EQ(text(10000, 0, DType::BF16), ""); // one value
}

TEST_F(Samples, SortedLabelsAreSaid) {
  auto sorted = [](int64_t input, int64_t sample, int64_t k) {
    const int64_t sorted = sample / 7;
    return input == 1 ? static_cast<double>(sorted) : plain(input, sample, k);
  };
  for (const char *unit : {"sample", "step"}) {
    EXPECT_EQ(facts(sorted, unit).orderTexts(),
              std::vector<std::string>{
                  "the samples are sorted by input 'y' (3 values): most steps "
                  "see only a few of them"});
    EXPECT_TRUE(facts(plain, unit).orderTexts().empty());
  }
}

TEST_F(Samples, AFrequentLabelIsSaid) {
  auto frequent = [](int64_t input, int64_t sample, int64_t k) {
    return input == 1 && sample % 4 > 0 ? 5 : plain(input, sample, k);
  };
  EXPECT_EQ(facts(frequent).inputs[1].text(), "input 'y': 0 to 5, 75 % are 5");
}

TEST(RateTexts, AScheduleThatDoesNotFitTheRunIsSaid) {
  Plan plan;
  plan.scalars = {{"lr", 0}};
  auto texts = [&](LrSchedule schedule, int64_t steps) {
    plan.lrSchedule = schedule;
    std::vector<std::string> all = rateTexts(plan, steps);
    EXPECT_LE(all.size(), 1u);
    return all.empty() ? "" : all.front();
  };
  EXPECT_EQ(texts({LrKind::Constant, 0.1}, 10), "");
  EXPECT_EQ(texts({LrKind::Constant, 0}, 10),
            "the learning rate is 0 in all steps");
  LrSchedule linear{LrKind::Linear, 0.1, 2, 10, 0};
  EXPECT_EQ(texts(linear, 10), "");
  EXPECT_EQ(texts(linear, 12), "the learning rate is 0 from step 11 on");
  EXPECT_EQ(texts(linear, 2),
            "the run ends within the warmup of 2 steps: its last learning rate "
            "is 0.05 of 0.1");
  EXPECT_EQ(texts(linear, 5),
            "the run ends at step 5 of a schedule of 10 steps: its last "
            "learning rate is 0.075");
  plan.scalars.clear();
  EXPECT_EQ(texts(linear, 12), "");
}

} // namespace
} // namespace dpc::rt
