//===- DatasetTest.cpp - samples, their order, and batches ----------------===//
#include "runtime/data/DatasetInputs.h"
#include "runtime/io/InputSource.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace dpc::rt {
namespace {

class Datasets : public test::ScratchFolder {
protected:
  /// Writes `count` samples of input x. All elements of sample i are i.
  void writeNumbered(int64_t count) const {
    HostTensor x = HostTensor::zeros(DType::F32, {count, 2});
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < 2; ++j)
        x.set(2 * i + j, static_cast<double>(i));
    ASSERT_TRUE(writeNpy(at("x.npy"), x).ok());
  }
  static Plan numberedPlan(int64_t batch) {
    Plan plan;
    plan.inputs = {{"x", 0, DType::F32, {batch, 2}, {}, 0}};
    return plan;
  }
  std::unique_ptr<InputSource> numbered(int64_t count, int64_t batch,
                                        const DataOptions &options = {}) const {
    writeNumbered(count);
    Plan plan = numberedPlan(batch);
    auto dataset = openDataset(plan, dir);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    auto source = DatasetInputs::open(plan, std::move(*dataset), options);
    EXPECT_TRUE(source.ok()) << source.status().message();
    return std::move(*source);
  }
  static std::vector<int64_t> take(InputSource &source, int64_t step,
                                   int64_t batch) {
    auto arrays = source.load(step);
    EXPECT_TRUE(arrays.ok()) << arrays.status().message();
    std::vector<int64_t> samples;
    samples.reserve(batch);
    for (int64_t i = 0; i < batch; ++i) {
      double first = loadAsDouble((*arrays)[0], DType::F32, 2 * i);
      EXPECT_EQ(loadAsDouble((*arrays)[0], DType::F32, 2 * i + 1), first);
      samples.push_back(static_cast<int64_t>(first));
    }
    return samples;
  }

  std::string errorOf(const Plan &plan, const std::string &path) const {
    return openDataset(plan, path).status().message();
  }
};

TEST(SampleOrder, EveryEpochIsAnotherPermutation) {
  SampleOrder order(100, 7), same(100, 7), other(100, 8);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch : {0, 1, 2, 0}) {
    std::vector<int64_t> drawn(100);
    for (int64_t i = 0; i < 100; ++i)
      drawn[i] = order.at(epoch, i);
    for (int64_t i = 99; i >= 0; --i)
      EXPECT_EQ(same.at(epoch, i), drawn[i]);
    EXPECT_EQ(std::set<int64_t>(drawn.begin(), drawn.end()).size(), 100u);
    orders.insert(drawn);
  }
  std::vector<int64_t> drawn(100);
  for (int64_t i = 0; i < 100; ++i)
    drawn[i] = other.at(0, i);
  orders.insert(drawn);
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_EQ(SampleOrder(100, std::nullopt).at(5, 42), 42);
}

TEST(SampleOrder, AllOrdersAreEquallyProbable) {
  SampleOrder order(4, 3);
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t epoch = 0; epoch < 24000; ++epoch)
    ++seen[{order.at(epoch, 0), order.at(epoch, 1), order.at(epoch, 2),
            order.at(epoch, 3)}];
  EXPECT_EQ(seen.size(), 24u);
  for (const auto &[drawn, count] : seen)
    EXPECT_NEAR(count, 1000, 150); // 5 standard deviations
}

TEST_F(Datasets, BatchesWrapIntoTheNextEpoch) {
  auto source = numbered(10, 4);
  EXPECT_EQ(source->steps(), 3);
  EXPECT_EQ(source->lastStepOf(2), 5);
  EXPECT_EQ(take(*source, 1, 4), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(take(*source, 2, 4), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(take(*source, 3, 4), (std::vector<int64_t>{8, 9, 0, 1}));
  // Step 4 is skipped.
  EXPECT_EQ(take(*source, 5, 4), (std::vector<int64_t>{6, 7, 8, 9}));
  EXPECT_EQ(take(*source, 1, 4), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(source->samplesIn(3), 4);
  EXPECT_EQ(source->positionAfter(3).epoch, 1);
  EXPECT_EQ(source->positionAfter(3).position, 2);
}

TEST_F(Datasets, AStepMayTakeSeveralEpochs) {
  auto source = numbered(3, 8);
  EXPECT_EQ(take(*source, 1, 8),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(take(*source, 2, 8),
            (std::vector<int64_t>{2, 0, 1, 2, 0, 1, 2, 0}));
}

TEST_F(Datasets, TheLastBatchIsDroppedOrPadded) {
  auto drops = numbered(10, 4, {.last = LastBatch::Drop});
  EXPECT_EQ(drops->steps(), 2);
  EXPECT_EQ(take(*drops, 3, 4), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(drops->positionAfter(2).epoch, 1);
  EXPECT_EQ(drops->lastStepOf(3), 6);
  auto pads = numbered(10, 4, {.last = LastBatch::Pad});
  EXPECT_EQ(pads->steps(), 3);
  EXPECT_EQ(take(*pads, 3, 4), (std::vector<int64_t>{8, 9, 9, 9}));
  EXPECT_EQ(pads->samplesIn(2), 4);
  EXPECT_EQ(pads->samplesIn(3), 2);
  EXPECT_EQ(take(*pads, 4, 4), (std::vector<int64_t>{0, 1, 2, 3}));

  Plan plan = numberedPlan(11);
  EXPECT_HAS(DatasetInputs::open(plan, std::move(*openDataset(plan, dir)),
                                 {.last = LastBatch::Drop})
                 .status()
                 .message(),
             "10 samples, a step takes 11");
}

TEST_F(Datasets, LabelsOfFillingSamplesAreIgnored) {
  writeNumbered(5);
  HostTensor label = HostTensor::zeros(DType::I32, {5});
  for (int i = 0; i < 5; ++i)
    label.set(i, 10 + i);
  ASSERT_TRUE(writeNpy(at("label.npy"), label).ok());
  Plan plan = numberedPlan(4);
  plan.inputs.push_back({"label", 1, DType::I32, {4}, {}, 100, -100});
  std::optional<IgnoredLabels> usual = usualLabels(plan);
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->input, "label");
  DataOptions options{.last = LastBatch::Mask, .ignored = *usual};
  auto source =
      DatasetInputs::open(plan, std::move(*openDataset(plan, dir)), options);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->steps(), 2);
  EXPECT_EQ((*source)->samplesIn(2), 1);
  EXPECT_EQ(take(**source, 2, 4), (std::vector<int64_t>{4, 4, 4, 4}));
  auto arrays = (*source)->load(2);
  ASSERT_TRUE(arrays.ok());
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(loadAsDouble((*arrays)[1], DType::I32, i), i == 0 ? 14 : -100);
  options.ignored.input = "x";
  EXPECT_EQ(
      DatasetInputs::open(plan, std::move(*openDataset(plan, dir)), options)
          .status()
          .message(),
      "the plan has no integer input 'x' with labels; its integer inputs are "
      "label");
  plan.inputs[1].ignored = -1;
  EXPECT_EQ(usualLabels(plan)->value, -1);
  options.ignored = {"label", -100};
  EXPECT_EQ(
      DatasetInputs::open(plan, std::move(*openDataset(plan, dir)), options)
          .status()
          .message(),
      "input 'label': the ignored label is -100, but the loss of the plan "
      "ignores -1; expected 0 to 99, or -1 (ignored)");
  plan.inputs[1].name = "target";
  ASSERT_TRUE(usualLabels(plan));
  EXPECT_EQ(usualLabels(plan)->input, "target");
  plan.inputs[1].ignored.reset();
  EXPECT_FALSE(usualLabels(plan));
}

TEST(UsualLabels, AnInputWhoseLabelTheLossIgnoresComesBeforeNames) {
  Plan plan;
  plan.inputs = {{"label", 0, DType::I64, {4}, {}, 10},
                 {"labels", 1, DType::I32, {4}, {}, 10},
                 {"target", 2, DType::I64, {4}, {}, 10},
                 {"mask", 3, DType::I8, {4}, {}, 10, -2}};
  auto usual = [&] {
    IgnoredLabels labels = usualLabels(plan).value_or(IgnoredLabels{"", 0});
    return labels.input + "=" + std::to_string(labels.value);
  };
  EXPECT_EQ(usual(), "label=-100") << "the first name";
  plan.inputs[2].ignored = -7;
  EXPECT_EQ(usual(), "target=-7") << "the only ignored label";
  plan.inputs[1].ignored = -1;
  EXPECT_EQ(usual(), "labels=-1") << "a name among several";
  plan.inputs[0].name = "first";
  plan.inputs[1].name = "second";
  EXPECT_EQ(usual(), "=0") << "several without a usual name";
  plan.inputs[0].name = "label";
  EXPECT_EQ(usual(), "label=-100") << "a name, if several are ignored";
}

/// A run that resumes does not compute losses to test the label.
TEST_F(Datasets, ALossThatIgnoresNoLabelIsNotMasked) {
  writeNumbered(4);
  ASSERT_TRUE(
      writeNpy(at("label.npy"), HostTensor::zeros(DType::I32, {4})).ok());
  Plan plan = numberedPlan(4);
  plan.inputs.push_back({"label", 1, DType::I32, {4}, {}, 10});
  auto errorFor = [&](int64_t value) {
    return DatasetInputs::open(
               plan, std::move(*openDataset(plan, dir)),
               {.last = LastBatch::Mask, .ignored = {"label", value}})
        .status()
        .message();
  };
  for (int64_t value : {-100, -1, 10})
    EXPECT_EQ(errorFor(value), "input 'label': the ignored label is " +
                                   std::to_string(value) +
                                   ", but the loss of the plan ignores no "
                                   "label; expected 0 to 9");
  for (int64_t value : {0, 9})
    EXPECT_EQ(errorFor(value), "") << "a valid class";
  plan.inputs[1].limit = 0;
  EXPECT_EQ(errorFor(-100), "") << "no index";
}

TEST_F(Datasets, ShuffledEpochsHaveEverySampleOnce) {
  auto source = numbered(10, 4, {.shuffle = 5});
  std::vector<int64_t> all;
  for (int64_t step = 1; step <= 5; ++step)
    for (int64_t sample : take(*source, step, 4))
      all.push_back(sample);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.begin() + 10).size(), 10u);
  EXPECT_EQ(std::set<int64_t>(all.begin() + 10, all.end()).size(), 10u);
  SampleOrder order(10, 5);
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_EQ(all[i], order.at(i / 10, i % 10));
}

TEST_F(Datasets, ARunResumesWithAnotherBatchSize) {
  for (LastBatch last : {LastBatch::Wrap, LastBatch::Drop}) {
    DataOptions options{.shuffle = 5, .last = last};
    auto before = numbered(20, 3, options);
    for (int64_t done : {0, 1, 4, 6, 9}) {
      DataPosition position = before->positionAfter(done);
      auto after = numbered(20, 4, options);
      ASSERT_TRUE(after->resumeAt(done + 1, position).ok());
      EXPECT_EQ(after->positionAfter(done).epoch, position.epoch);
      EXPECT_EQ(after->positionAfter(done).position, position.position);
      SampleOrder order(20, 5);
      std::vector<int64_t> taken = take(*after, done + 1, 4);
      for (int64_t i = 0; i < 4 && position.position + i < 20; ++i)
        EXPECT_EQ(taken[i], order.at(position.epoch, position.position + i));
      int64_t end = after->lastStepOf(3);
      EXPECT_LT(after->positionAfter(end - 1).epoch, 3);
      EXPECT_EQ(after->positionAfter(end).epoch, 3);
    }
  }
}

TEST_F(Datasets, AnotherOrderIsRefused) {
  auto shuffled = numbered(10, 4, {.shuffle = 5});
  DataPosition position = shuffled->positionAfter(1);
  auto plain = numbered(10, 4);
  EXPECT_HAS(plain->resumeAt(2, position).message(), "shuffled by seed 5");
  auto longer = numbered(11, 4, {.shuffle = 5});
  EXPECT_HAS(longer->resumeAt(2, position).message(), "now there are 11");
  EXPECT_TRUE(plain->resumeAt(2, {}).ok()); // the checkpoint has no position
  EXPECT_EQ(take(*plain, 2, 4), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(Datasets, SafetensorsHoldTheSame) {
  Plan plan;
  plan.inputs = {{"in/ids", 0, DType::I64, {2, 3}, {}, 10},
                 {"w", 0, DType::F32, {2}, {}, 0}};
  HostTensor ids = HostTensor::zeros(DType::I32, {5, 3});
  for (int i = 0; i < 15; ++i)
    ids.set(i, i % 10);
  HostTensor w = HostTensor::zeros(DType::F32, {5});
  w.set(3, 0.5);
  SafetensorsWriter writer;
  ASSERT_TRUE(writer
                  .start(at("d.safetensors"), {{"in/ids", DType::I32, {5, 3}},
                                               {"w", DType::F32, {5}}})
                  .ok());
  ASSERT_TRUE(writer.append(ids).ok() && writer.append(w).ok() &&
              writer.finish().ok());
  ASSERT_TRUE(writeNpy(at("in_ids.npy"), ids).ok());
  ASSERT_TRUE(writeNpy(at("w.npy"), w).ok());
  for (const std::string &path : {at("d.safetensors"), dir.string()}) {
    auto dataset = openDataset(plan, path);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    EXPECT_EQ((*dataset)->samples(), 5);
    int64_t row[3];
    float weight = 0;
    ASSERT_TRUE((*dataset)
                    ->read(3, {reinterpret_cast<std::byte *>(row),
                               reinterpret_cast<std::byte *>(&weight)})
                    .ok());
    EXPECT_EQ(row[0], 9);
    EXPECT_EQ(row[1], 0);
    EXPECT_EQ(weight, 0.5f);
  }
}

TEST_F(Datasets, BadDatasetsAreNamed) {
  writeNumbered(4);
  Plan plan = numberedPlan(2);
  plan.inputs[0].globalShape = {2, 3};
  EXPECT_EQ(errorOf(plan, dir), at("x.npy") + ": found f32[4, 2], expected "
                                              "f32[samples, 3]");
  EXPECT_HAS(errorOf(plan, at("x.npy")), "give the folder");
  plan = numberedPlan(2);
  plan.inputs.push_back({"y", 0, DType::F32, {2}, {}, 0});
  EXPECT_HAS(errorOf(plan, dir), "input 'y'");
  ASSERT_TRUE(writeNpy(at("y.npy"), HostTensor::zeros(DType::F32, {5})).ok());
  EXPECT_EQ(errorOf(plan, dir),
            at("y.npy") + ": holds 5 samples, the other inputs 4");
  plan.inputs[1].globalShape = {};
  EXPECT_HAS(errorOf(plan, dir), "y f32[]; use --batches");
  ASSERT_TRUE(
      writeNpy(at("x.npy"), HostTensor::zeros(DType::F32, {0, 2})).ok());
  EXPECT_HAS(errorOf(numberedPlan(2), dir), "found f32[0, 2]");
  write("d.safetensors", "no header");
  EXPECT_NE(errorOf(numberedPlan(2), at("d.safetensors")), "");
}

TEST_F(Datasets, ABadValueFailsOnlyItsStep) {
  Plan plan;
  plan.inputs = {{"x", 0, DType::I64, {2}, {}, 10, -100}};
  HostTensor x = HostTensor::zeros(DType::I64, {6});
  x.set(3, -1);
  x.set(0, -100); // an ignored label
  ASSERT_TRUE(writeNpy(at("x.npy"), x).ok());
  auto source =
      DatasetInputs::open(plan, std::move(*openDataset(plan, dir)), {});
  ASSERT_TRUE((*source)->load(1).ok());
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ((*source)->load(2).status().message(),
              at("x.npy") +
                  ": sample 3: element 0 of input 'x' is -1, expected 0 to 9, "
                  "or -100 (ignored)");
  EXPECT_TRUE((*source)->load(3).ok());
}

Plan tokenPlan() {
  Plan plan;
  plan.inputs = {{"tokens", 0, DType::I64, {2, 3}, {}, 100},
                 {"labels", 0, DType::I64, {2, 3}, {}, 100}};
  plan.inputs[0].use = InputUse::Ids;
  plan.inputs[1].use = InputUse::Labels;
  return plan;
}

TEST_F(Datasets, TokensAreShiftedIntoLabels) {
  std::string bytes;
  for (uint16_t t = 0; t < 14; ++t)
    bytes.append(reinterpret_cast<char *>(&t), 2);
  write("t.bin", bytes);
  auto dataset = openDataset(tokenPlan(), at("t.bin"));
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->samples(), 4); // the last tokens are only labels
  int64_t tokens[3], labels[3];
  std::vector<std::byte *> to = {reinterpret_cast<std::byte *>(tokens),
                                 reinterpret_cast<std::byte *>(labels)};
  ASSERT_TRUE((*dataset)->read(3, to).ok());
  EXPECT_EQ(tokens[0], 9);
  EXPECT_EQ(labels[2], 12);
  Plan unlabeled = tokenPlan();
  unlabeled.inputs.pop_back();
  write("u.bin", bytes.substr(0, 24));
  EXPECT_EQ((*openDataset(unlabeled, at("u.bin")))->samples(), 4);
  EXPECT_EQ((*openDataset(tokenPlan(), at("u.bin")))->samples(), 3);
  Plan small = tokenPlan();
  small.inputs[0].limit = 5;
  dataset = openDataset(small, at("t.bin"));
  EXPECT_TRUE((*dataset)->read(0, to).ok());
  EXPECT_HAS((*dataset)->read(1, to).message(),
             "token 5 of input 'tokens' is 5, expected 0 to 4");
  write("text.bin", std::string(40, 'a') + "\n" + std::string(40, 'b') + "\n");
  EXPECT_EQ(errorOf(tokenPlan(), at("text.bin")),
            at("text.bin") +
                ": is text, expected token ids (uint16 or uint32)");
  write("t.bin", bytes.substr(0, 6));
  EXPECT_HAS(errorOf(tokenPlan(), at("t.bin")), "has 3 tokens");
  EXPECT_HAS(errorOf(numberedPlan(8), at("t.bin")), "x f32[8, 2]");
}

TEST_F(Datasets, TheUseOfInputsSaysWhichHasTheLabels) {
  std::string bytes;
  for (uint16_t t = 0; t < 13; ++t)
    bytes.append(reinterpret_cast<char *>(&t), 2);
  write("t.bin", bytes);
  Plan plan = tokenPlan();
  // Returns the first elements of the last sample, and the mapping.
  auto read = [&](const std::string &names) {
    auto dataset = openDataset(plan, at("t.bin"));
    if (!dataset.ok())
      return dataset.status().message();
    EXPECT_EQ((*dataset)->samples(), 4);
    int64_t first[3], second[3];
    std::vector<std::byte *> to = {reinterpret_cast<std::byte *>(first),
                                   reinterpret_cast<std::byte *>(second)};
    EXPECT_TRUE((*dataset)->read(3, to).ok());
    EXPECT_EQ((*dataset)->mapping(), at("t.bin") + ": " + names);
    return std::to_string(first[0]) + ", " + std::to_string(second[0]);
  };
  EXPECT_EQ(read("tokens = tokens, labels = next tokens"), "9, 10");
  std::swap(plan.inputs[0], plan.inputs[1]);
  EXPECT_EQ(read("tokens = tokens, labels = next tokens"), "10, 9");
  plan.inputs[0].use = InputUse::ShiftedLabels;
  EXPECT_EQ(read("tokens = tokens, labels = the same tokens, which the loss "
                 "shifts"),
            "9, 9");
  plan.inputs[0].use = InputUse::Data; // an index of unknown use
  EXPECT_EQ(read("tokens = tokens, labels = next tokens"), "10, 9");
  plan.inputs[0].name = "kinds";
  EXPECT_HAS(read(""), "this plan has kinds i64[2, 3] (data), tokens i64[2, 3] "
                       "(ids)");
  for (InputUse use :
       {InputUse::Ids, InputUse::Unread, InputUse::IdsAndLabels}) {
    plan.inputs[0].use = use;
    EXPECT_HAS(read(""), "(" + std::string(nameOf(use)) + ")");
  }
}

TEST_F(Datasets, OneInputGetsTheTokens) {
  write("t.bin", std::string(12, '\1'));
  Plan plan = tokenPlan();
  plan.inputs.pop_back();
  for (InputUse use : {InputUse::Ids, InputUse::IdsAndLabels, InputUse::Data}) {
    plan.inputs[0].use = use;
    auto dataset = openDataset(plan, at("t.bin"));
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    EXPECT_EQ((*dataset)->mapping(), at("t.bin") + ": tokens = tokens");
  }
  plan.inputs[0].use = InputUse::Unread;
  EXPECT_HAS(errorOf(plan, at("t.bin")), "(unread)");
}

TEST_F(Datasets, TokenTypesAreNotGuessed) {
  std::string wide;
  for (uint32_t t = 0; t < 14; ++t)
    wide.append(reinterpret_cast<char *>(&t), 4);
  write("t.bin", wide);
  EXPECT_HAS(openDataset(tokenPlan(), at("t.bin")).status().message(),
             "look like uint32 tokens, but with a vocabulary of 100 they are "
             "read as uint16");
  std::string widest;
  for (uint64_t t = 0; t < 14; ++t)
    widest.append(reinterpret_cast<char *>(&t), 8);
  write("w.bin", widest);
  EXPECT_HAS(openDataset(tokenPlan(), at("w.bin")).status().message(),
             "look like int64 tokens");
  Plan large = tokenPlan();
  large.inputs[0].limit = large.inputs[1].limit = 100000;
  EXPECT_TRUE(openDataset(large, at("t.bin")).ok());
  EXPECT_HAS(openDataset(large, at("w.bin")).status().message(),
             "look like int64 tokens, but with a vocabulary of 100000 they are "
             "read as uint32");
  Plan masked = tokenPlan();
  masked.inputs[1] = {"attention_mask", 0, DType::I64, {2, 3}, {}, 0};
  EXPECT_HAS(openDataset(masked, at("t.bin")).status().message(),
             "attention_mask");
}

TEST_F(Datasets, TokensOfOneByteAreNotTwo) {
  auto error = [&](const std::string &bytes) {
    write("t.bin", bytes);
    auto dataset = openDataset(tokenPlan(), at("t.bin"));
    int64_t ids[6], labels[6];
    std::vector<std::byte *> to = {reinterpret_cast<std::byte *>(ids),
                                   reinterpret_cast<std::byte *>(labels)};
    return (*dataset)->read(0, to).message();
  };
  EXPECT_HAS(error(std::string(28, '\7')),
             "is 1799, expected 0 to 99; if the tokens are uint8, write them "
             "as uint16");
  std::string large = error(std::string(28, '\x77'));
  EXPECT_HAS(large, "is 30583");
  EXPECT_EQ(large.find("uint8"), std::string::npos);
}

TEST_F(Datasets, OtherFormatsAreNoTokens) {
  auto error = [&](const std::string &bytes) {
    write("t.bin", bytes + std::string(101, '\7'));
    return errorOf(tokenPlan(), at("t.bin"));
  };
  EXPECT_EQ(error("\x1f\x8b\x08"),
            at("t.bin") + ": is compressed by gzip, expected token ids");
  EXPECT_HAS(error("PAR1"), "is a Parquet file");
  EXPECT_HAS(error("\x93NUMPY"), "is a NumPy array");
  EXPECT_HAS(error("\xff\xfe"), "is text in UTF-16");
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "\u4e16\u00e9 ";
  write("t.bin", text);
  EXPECT_HAS(errorOf(tokenPlan(), at("t.bin")), "is text");
}

/// A token file of llm.c.
std::string llmC(int32_t magic, int32_t version, int32_t count,
                 const std::string &tokens) {
  std::string bytes(1024, '\0');
  for (int32_t i = 0; int32_t value : {magic, version, count})
    std::memcpy(bytes.data() + 4 * i++, &value, 4);
  return bytes + tokens;
}

TEST_F(Datasets, HeadersCountTheTokens) {
  auto error = [&](const std::string &bytes) {
    write("t.bin", bytes);
    auto dataset = openDataset(tokenPlan(), at("t.bin"));
    if (dataset.ok())
      EXPECT_EQ((*dataset)->samples(), 3);
    std::string why = dataset.status().message(), path = at("t.bin") + ": ";
    EXPECT_EQ(why.rfind(why.empty() ? "" : path, 0), 0u) << why;
    return why.empty() ? why : why.substr(path.size());
  };
  std::string narrow(20, '\1'), wide;
  for (int i = 0; i < 10; ++i)
    wide.append("\1\0\0", 4);
  EXPECT_EQ(error(llmC(20240520, 1, 10, narrow)), "");
  EXPECT_EQ(error(llmC(20240801, 7, 10, wide)), "");
  for (int32_t count : {-5, 9, 11, 999999})
    EXPECT_EQ(error(llmC(20240520, 1, count, narrow)),
              "its header counts " + std::to_string(count) +
                  " tokens, of uint16; the file has 1044 bytes, expected 1024 "
                  "and the bytes of the tokens");
  EXPECT_EQ(error(llmC(20240801, 7, 10, wide + "\1")),
            "its header counts 10 tokens, of uint32; the file has 1065 bytes, "
            "expected 1024 and the bytes of the tokens");
  EXPECT_EQ(error(llmC(20240520, 1, 1 << 30, "").substr(0, 600)),
            "its header counts 1073741824 tokens, of uint16; the file has 600 "
            "bytes, expected 1024 and the bytes of the tokens");
  EXPECT_EQ(error(llmC(20240520, 9, 10, narrow)),
            "its header has magic 20240520 and version 9, expected version 1");
  EXPECT_EQ(error(llmC(20240801, 1, 10, wide)),
            "its header has magic 20240801 and version 1, expected version 7");
  EXPECT_EQ(error(narrow), "");
  EXPECT_EQ(error(narrow + "\1"),
            "has 21 bytes, which is not a multiple of uint16: it is truncated");
}

/// With a mapping, reading after the end would end the process.
TEST_F(Datasets, ATruncatedFileIsNamed) {
  Plan plan = numberedPlan(2);
  writeNumbered(20);
  auto arrays = openDataset(plan, dir);
  auto batches = openNpyInputs(numberedPlan(20), dir, /*perStep=*/false);
  SafetensorsWriter writer;
  HostTensor x = HostTensor::zeros(DType::I32, {20, 2}); // is converted
  ASSERT_TRUE(
      writer.start(at("x.safetensors"), {{"x", DType::I32, {20, 2}}}).ok());
  ASSERT_TRUE(writer.append(x).ok() && writer.finish().ok());
  Plan integers;
  integers.inputs = {{"x", 0, DType::I64, {2, 2}, {}, 10}};
  auto named = openDataset(integers, at("x.safetensors"));
  write("t.bin", std::string(100, '\1'));
  auto tokens = openDataset(tokenPlan(), at("t.bin"));
  ASSERT_TRUE(arrays.ok() && named.ok() && tokens.ok() && batches.ok());
  EXPECT_TRUE((*batches)->load(1).ok());
  for (const char *name : {"x.npy", "x.safetensors", "t.bin"})
    std::filesystem::resize_file(at(name), 0);
  int64_t first[3], second[3];
  std::vector<std::byte *> to = {reinterpret_cast<std::byte *>(first),
                                 reinterpret_cast<std::byte *>(second)};
  auto expectCut = [&](const Status &status, const std::string &name) {
    EXPECT_EQ(status.message().rfind(at(name) + ": ends at byte ", 0), 0u)
        << status.message();
    EXPECT_HAS(status.message(), "truncated");
  };
  expectCut((*arrays)->read(3, to), "x.npy");
  expectCut((*named)->read(3, to), "x.safetensors");
  expectCut((*tokens)->read(3, to), "t.bin");
  expectCut((*batches)->load(2).status(), "x.npy");
}

} // namespace
} // namespace dpc::rt
