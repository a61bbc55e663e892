//===- DataProfileTest.cpp - data unlike that of training -----------------===//
#include "runtime/data/DatasetInputs.h"
#include "runtime/facts/ProfileDifferences.h"
#include "runtime/io/Npy.h"
#include "runtime/job/DataCheck.h"
#include "test/unit/runtime/Expect.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

namespace dpc::rt {
namespace {

/// Draws samples of one input. value(random, k) is element k of a sample.
template <typename Value>
DataProfile profileOf(const Port &port, Value value, int64_t samples,
                      unsigned seed = 1) {
  int64_t elements = 1;
  for (size_t i = 1; i < port.globalShape.size(); ++i)
    elements *= port.globalShape[i];
  std::mt19937_64 random(seed);
  auto read = [&](int64_t, int64_t count, const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < count * elements; ++i)
      storeFromDouble(to[0], port.dtype, i,
                      static_cast<double>(value(random, i % elements)));
    return Status::success();
  };
  return scanRows({port}, {elements}, "sample", samples, read)
      ->profile("--data=t");
}

double drawNormal(std::mt19937_64 &random) {
  return std::normal_distribution<double>()(random);
}

/// Returns the only difference, or "".
std::string differenceOf(const DataProfile &here, const DataProfile &training) {
  std::vector<std::string> texts = differences(here, training, "in t");
  EXPECT_LE(texts.size(), 1u);
  return texts.empty() ? "" : texts.front();
}

Port numbers(std::vector<int64_t> shape) {
  return {"x", 0, DType::F32, std::move(shape), {}, 0};
}

Port indexes(std::vector<int64_t> shape, int64_t limit, InputUse use) {
  Port port{"ids", 0, DType::I64, std::move(shape), {}, limit};
  port.use = use;
  return port;
}

TEST(DataProfile, EqualDistributionsDoNotDiffer) {
  auto image = [](auto &random, int64_t k) {
    return 0.1 * std::floor(double(k) / 16) + drawNormal(random);
  };
  auto features = [](auto &random, int64_t k) {
    return std::exp(drawNormal(random) * double(k));
  };
  for (unsigned seed : {2u, 3u, 4u})
    for (int64_t samples : {1, 3, 12, 64, 500}) {
      Port port = numbers({8, 3, 4, 4});
      EXPECT_EQ(differenceOf(profileOf(port, image, samples, seed),
                             profileOf(port, image, 400)),
                "");
      port = numbers({8, 6});
      EXPECT_EQ(differenceOf(profileOf(port, features, samples, seed),
                             profileOf(port, features, 400)),
                "");
    }
}

TEST(DataProfile, AnotherScaleIsSaid) {
  Port port = numbers({8, 3, 4, 4});
  auto scaled = [&](double scale, double offset) {
    return profileOf(
        port,
        [&](auto &random, int64_t) {
          return scale * drawNormal(random) + offset;
        },
        100);
  };
  DataProfile training = scaled(1, 0);
  EXPECT_HAS(differenceOf(scaled(60, 120), training),
             "input 'x': a sample has the mean 118.9 (mostly ");
  EXPECT_HAS(differenceOf(scaled(60, 0), training), "input 'x' is -");
  EXPECT_EQ(differenceOf(scaled(1.2, 0.05), training), "");
}

TEST(DataProfile, OneColumnOfAnotherUnitIsSaid) {
  Port port = numbers({8, 5});
  auto columns = [&](double unit) {
    return profileOf(
        port,
        [&](auto &random, int64_t k) {
          return (k == 3 ? unit : 1) * (2 + drawNormal(random));
        },
        200);
  };
  EXPECT_HAS(differenceOf(columns(1000), columns(1)),
             "input 'x': 1 of 5 positions along dimension 1 has other numbers "
             "than in t: at position 3, 1964 (mostly 593.3 to 3237) instead of "
             "1.964 (mostly ");
}

TEST(DataProfile, OtherOrdersAreSaid) {
  // The mean of element k is order(k).
  auto image = [](const Port &port, auto order, unsigned seed) {
    return profileOf(
        port,
        [&](auto &random, int64_t k) {
          return 0.5 * double(order(k)) + drawNormal(random);
        },
        400, seed);
  };
  Port port = numbers({8, 3, 8, 8}), columns = numbers({8, 6});
  auto channels = [](int64_t k) { return k / 64; };
  EXPECT_HAS(differenceOf(image(
                              port, [](int64_t k) { return 2 - k / 64; }, 2),
                          image(port, channels, 1)),
             "input 'x' resembles the reverse of that in t along dimension 1");
  auto rows = [](int64_t k) { return k / 8 % 8; };
  EXPECT_HAS(differenceOf(image(
                              port, [](int64_t k) { return k % 8; }, 2),
                          image(port, rows, 1)),
             "input 'x': its dimension 2 resembles dimension 3 in t: are they "
             "swapped?");
  EXPECT_EQ(differenceOf(
                image(
                    columns,
                    [](int64_t k) { return k == 1   ? 4
                                           : k == 4 ? 1
                                                    : k; }, 2),
                image(
                    columns, [](int64_t k) { return k; }, 1)),
            "input 'x': positions along dimension 1 are in another order than "
            "in t: 1 resembles 4, 4 resembles 1");
}

TEST(DataProfile, CodesOfMissingNumbersAreSaid) {
  Port port = numbers({8, 5});
  auto withCode = [&](double code) {
    return profileOf(
        port,
        [&](auto &random, int64_t) {
          return random() % 50 == 0 ? code : drawNormal(random);
        },
        200);
  };
  EXPECT_HAS(differenceOf(withCode(-999), withCode(0)),
             "input 'x' is -999 to ");
}

TEST(DataProfile, OtherVocabulariesAreSaid) {
  Port port = indexes({8, 32}, 5000, InputUse::Ids);
  // Zipf's distribution of words, numbered by `number`.
  auto text = [&](auto number, int64_t samples, unsigned seed) {
    return profileOf(
        port,
        [&](auto &random, int64_t) {
          const double draw = std::generate_canonical<double, 53>(random);
          return number(static_cast<int64_t>(std::pow(2000, draw)));
        },
        samples, seed);
  };
  // Neighbours are not equally frequent.
  auto own = [](int64_t word) { return word * 7919 % 4999; };
  DataProfile training = text(own, 300, 1);
  for (int64_t samples : {1, 4, 300})
    EXPECT_EQ(differenceOf(text(own, samples, 2), training), "");
  EXPECT_HAS(differenceOf(
                 text([](int64_t word) { return (word + 2500) * 7919 % 4999; },
                      300, 2),
                 training),
             " here: is it the same vocabulary?");
  EXPECT_EQ(
      differenceOf(text([&](int64_t word) { return own(word) + 1; }, 300, 2),
                   training),
      "input 'ids': the indexes seem to be those in t plus 1");
}

TEST(DataProfile, NewClassesAreSaid) {
  Port port = indexes({8}, 10, InputUse::Labels);
  auto classes = [&](int64_t count) {
    return profileOf(
        port, [&](auto &random, int64_t) { return random() % count; }, 200);
  };
  EXPECT_HAS(differenceOf(classes(8), classes(7)),
             " of the labels in input 'ids' are 7, a class that no sample in t "
             "has");
  EXPECT_EQ(differenceOf(classes(7), classes(8)), "");
  // Other classes of many are no shift, and keep their own numbers.
  port.limit = 40;
  port.first = 1;
  auto from = [&](int64_t first, int64_t count) {
    return profileOf(
        port, [&](auto &random, int64_t) { return first + random() % count; },
        400);
  };
  EXPECT_HAS(differenceOf(from(5, 20), from(1, 20)),
             " of the labels in input 'ids' are 21, 22, 23, 24, a class");
  // Counters of large labels are shared.
  port.limit = 5000;
  EXPECT_EQ(differenceOf(from(2000, 20), from(1, 20)), "");
}

TEST(DataProfile, OtherBeginsAndPaddingsAreSaid) {
  Port port = indexes({8, 16}, 100, InputUse::Ids);
  // Pads with 0 up to a drawn length.
  auto padded = [&](bool isEnd, bool hasBegin) {
    int64_t length = 0;
    return profileOf(
        port,
        [&, length](auto &random, int64_t k) mutable {
          if (k == 0)
            length = 6 + static_cast<int64_t>(random() % 8);
          if (k == 0 && hasBegin)
            return int64_t(1);
          bool isPadding = isEnd ? k >= length : k < 16 - length;
          return isPadding ? 0 : 2 + static_cast<int64_t>(random() % 50);
        },
        100);
  };
  EXPECT_EQ(differenceOf(padded(false, false), padded(true, false)),
            "input 'ids': the padding is probably 0 first, but in t 0 at the "
            "end");
  EXPECT_EQ(differenceOf(padded(true, false), padded(true, true)),
            "input 'ids': samples begin with different ids, but in t with 1");
}

TEST(DataProfile, TextIsReadBack) {
  Port port = indexes({8, 16}, 100, InputUse::Ids);
  for (const DataProfile &profile :
       {profileOf(
            numbers({8, 3, 4, 4}),
            [](auto &random, int64_t) { return drawNormal(random); }, 20),
        profileOf(
            port, [](auto &, int64_t k) { return k; }, 20),
        DataProfile()}) {
    Expected<DataProfile> read = DataProfile::parse(profile.text(), "f");
    ASSERT_TRUE(read) << read.status().message();
    EXPECT_EQ(read->text(), profile.text());
    EXPECT_EQ(differences(profile, *read, "in t").size(), 0u);
  }
}

TEST(DataProfile, OtherTextsAreRefused) {
  for (const char *text :
       {"[", "{}", R"({"source": "", "inputs": [{}]})",
        R"({"source": "", "inputs": [{"name": "x", "shape": [2], "samples": 1,
            "min": 0, "max": 1, "parts": {"5": []}}]})",
        R"({"source": "", "inputs": [{"name": "x", "shape": [2], "samples": 1,
            "min": 0, "max": 1, "parts": {"0": [[1, 2]]}}]})",
        R"({"source": "", "inputs": [{"name": "x", "shape": [2], "samples": 1,
            "min": 0, "max": 1, "shares": [[1]]}]})"}) {
    Expected<DataProfile> read = DataProfile::parse(text, "f");
    ASSERT_FALSE(read) << text;
    EXPECT_HAS(read.status().message(), "f:");
  }
}

/// Draws samples of two inputs: numbers around those of their class, and
/// labels. Class k of the data is that with the number order[k].
DataProfile classesOf(const std::vector<int64_t> &order, unsigned seed,
                      double distance = 2) {
  Port x = numbers({8, 6}), y = indexes({8}, 3, InputUse::Labels);
  std::mt19937_64 random(seed);
  auto read = [&](int64_t, int64_t count, const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < count; ++i) {
      const auto label = static_cast<int64_t>(random() % order.size());
      storeFromDouble(to[1], y.dtype, i, static_cast<double>(label));
      for (int64_t k = 0; k < 6; ++k)
        storeFromDouble(to[0], x.dtype, 6 * i + k,
                        (k == order[label] ? distance : 0) +
                            drawNormal(random));
    }
    return Status::success();
  };
  return scanRows({x, y}, {6, 1}, "sample", 300, read)->profile("--data=t");
}

TEST(DataProfile, ClassesInAnotherOrderAreSaid) {
  DataProfile training = classesOf({0, 1, 2}, 1);
  EXPECT_EQ(differenceOf(classesOf({2, 1, 0}, 2), training),
            "the classes of input 'ids' seem to be in another order than in t: "
            "0 is like 2, 2 is like 0");
  EXPECT_EQ(differenceOf(classesOf({1, 2, 0}, 2), training),
            "the classes of input 'ids' seem to be in another order than in t: "
            "0 is like 1, 1 is like 2, 2 is like 0");
  for (unsigned seed : {2u, 3u, 4u}) {
    EXPECT_EQ(differenceOf(classesOf({0, 1, 2}, seed), training), "");
    EXPECT_EQ(
        differenceOf(classesOf({2, 1, 0}, seed, 0), classesOf({0, 1, 2}, 1, 0)),
        "");
  }
  Expected<DataProfile> read = DataProfile::parse(training.text(), "f");
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(read->text(), training.text());
}

/// Draws a user and an item for each of `samples` samples: all users alike, but
/// item(k) is frequent for a small k.
template <typename Item>
DataProfile ratingsOf(Item item, int64_t samples, bool areSwapped = false,
                      int64_t users = 100) {
  std::vector<Port> ports(2, indexes({8}, 100, InputUse::Ids));
  ports[0].name = areSwapped ? "item" : "user";
  ports[1].name = areSwapped ? "user" : "item";
  std::mt19937_64 random(samples);
  auto read = [&](int64_t, int64_t count, const std::vector<std::byte *> &to) {
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::fabs(drawNormal(random) * drawNormal(random));
      const int64_t k = std::min<int64_t>(int64_t(12 * size), 99);
      storeFromDouble(to[0], DType::I64, i, double(random() % users));
      storeFromDouble(to[1], DType::I64, i, double(item(k)));
    }
    return Status::success();
  };
  return scanRows(ports, {1, 1}, "sample", samples, read)->profile("--data=t");
}

TEST(DataProfile, IdsOfAnotherTableAreSaid) {
  auto item = [](int64_t k) { return k * 37 % 100; };
  const DataProfile training = ratingsOf(item, 2000);
  EXPECT_EQ(differenceOf(ratingsOf(item, 320), training), "");
  for (bool isFirst : {true, false}) {
    DataProfile swapped = ratingsOf(item, 320, true);
    if (isFirst)
      std::swap(swapped.inputs[0], swapped.inputs[1]);
    EXPECT_EQ(differenceOf(swapped, training),
              concat("inputs '", isFirst ? "user" : "item", "' and '",
                     isFirst ? "item" : "user",
                     "' resemble each other in t: are they swapped?"));
  }
  // The items are numbered in another order, or from 1.
  EXPECT_HAS(
      differenceOf(ratingsOf([](int64_t k) { return k * 61 % 100; }, 320),
                   training),
      "input 'item': the ids that are half of all in t are only ");
  EXPECT_HAS(differenceOf(
                 ratingsOf([&](int64_t k) { return (item(k) + 1) % 100; }, 320),
                 training),
             "input 'item': the indexes seem to be those in t plus 1");
  // Later, some items are frequent that were not; few users; few items.
  auto later = [&](int64_t k) {
    return k % 3 == 1 ? item(k + 30) % 100 : item(k);
  };
  EXPECT_EQ(differenceOf(ratingsOf(later, 320), training), "");
  EXPECT_EQ(differenceOf(ratingsOf(item, 320, false, 10), training), "");
  EXPECT_EQ(
      differenceOf(ratingsOf([&](int64_t k) { return item(60 + k % 9); }, 320),
                   training),
      "");
}

TEST(DataProfile, FrequentNumbersFarFromAllOthersAreSaid) {
  auto textOf = [](auto value, InputUse use = InputUse::Data) {
    Port port = numbers({8, 5});
    port.use = use;
    std::mt19937_64 random(5);
    auto read = [&](int64_t, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t i = 0; i < 5 * count; ++i)
        storeFromDouble(to[0], port.dtype, i, value(random));
      return Status::success();
    };
    return scanRows({port}, {5}, "sample", 200, read)->inputs.front().text();
  };
  auto code = [](auto &random) {
    return random() % 20 == 0 ? -999 : drawNormal(random);
  };
  EXPECT_HAS(textOf(code), " % are -999, and all others are from -");
  EXPECT_HAS(textOf(code), ": does it mark missing values?");
  for (auto value :
       {+[](std::mt19937_64 &random) { return drawNormal(random); },
        +[](std::mt19937_64 &random) { // most numbers are zero
          return random() % 20 == 0 ? drawNormal(random) : 0;
        },
        +[](std::mt19937_64 &random) { // one-hot
          return double(random() % 20 == 0);
        }})
    EXPECT_EQ(textOf(value).find("missing"), std::string::npos);
}

TEST(DataProfile, TargetsThatNoScoreReachesAreSaid) {
  Port port = numbers({8});
  port.dependence.isTarget = true;
  port.dependence.lowest = 0;
  auto textOf = [&] {
    std::mt19937_64 random(5);
    auto read = [&](int64_t, int64_t count,
                    const std::vector<std::byte *> &to) {
      for (int64_t i = 0; i < count; ++i)
        storeFromDouble(to[0], port.dtype, i, 1 + drawNormal(random));
      return Status::success();
    };
    return scanRows({port}, {1}, "sample", 200, read)->inputs.front().text();
  };
  EXPECT_HAS(textOf(),
             " % are targets that the model cannot reach: its last op "
             "gives numbers from 0 on");
  port.dependence.highest = 1;
  EXPECT_HAS(textOf(), " gives numbers from 0 to 1");
  port.dependence.lowest = -100;
  port.dependence.highest = 100;
  EXPECT_EQ(textOf().find("reach"), std::string::npos);
}

/// Samples of one number that is one of `values`, which begin with `first`.
SampleFacts samplesOf(int64_t first, int64_t values, int64_t samples) {
  SampleFacts facts({numbers({8, 1})}, {1}, false);
  std::mt19937_64 random(first + samples);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t value = first + (values == samples ? i : random() % values);
    const auto number = static_cast<float>(value);
    facts.add({reinterpret_cast<const std::byte *>(&number)}, true);
  }
  facts.finish();
  return facts;
}

TEST(DataProfile, ASketchTellsTheShareOfCommonSamples) {
  const SampleSketch training = samplesOf(0, 8000, 8000).sketch(8000);
  DataProfile profile = classesOf({0, 1, 2}, 1);
  profile.samples = training;
  Expected<DataProfile> read = DataProfile::parse(profile.text(), "f");
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_NEAR(samplesOf(0, 800, 800).shareIn(*read->samples).value_or(0), 1,
              0.01);
  EXPECT_NEAR(samplesOf(7600, 800, 800).shareIn(training).value_or(0), 0.5,
              0.15);
  EXPECT_FALSE(samplesOf(8000, 800, 800).shareIn(training));
  // Few hashes tell nothing.
  EXPECT_FALSE(samplesOf(0, 8, 8).shareIn(training));
  // Samples of few values are equal by chance.
  EXPECT_FALSE(
      samplesOf(0, 1000, 400).shareIn(samplesOf(0, 1000, 2000).sketch(2000)));
}

class ProfileFiles : public test::ScratchFolder {};

TEST_F(ProfileFiles, EvaluationIsComparedWithTraining) {
  Plan plan;
  plan.inputs = {{"x", 0, DType::F32, {2, 3}, {}, 0}};
  auto open = [&](const std::string &name, double scale) {
    HostTensor x = HostTensor::zeros(DType::F32, {64, 3});
    for (int64_t i = 0; i < x.elements(); ++i)
      x.set(i, scale * (2 + std::sin(double(i * i % 1009))));
    std::filesystem::create_directory(at(name));
    EXPECT_TRUE(writeNpy(at(name + "/x.npy"), x).ok());
    return std::move(*DatasetInputs::open(
        plan, std::move(*openDataset(plan, at(name))), {}));
  };
  RunOptions options;
  options.data = "t";
  auto training = open("t", 1), bytes = open("bytes", 255);
  Expected<DataReport> report =
      checkData(options, plan, *training, bytes.get());
  EXPECT_HAS(report->lines.back(), "--eval-data: input 'x': a sample has the "
                                   "mean 5");
  EXPECT_HAS(report->lines.back(), ", but in --data=t ");
  std::vector<std::string> texts =
      trainedTexts(options, plan, *checkData(options, plan, *bytes, nullptr),
                   report->profile.text(), "w.safetensors");
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_HAS(texts.front(),
             ", but in the data that trained w.safetensors (--data=t) ");
  EXPECT_HAS(
      trainedTexts(options, plan, *report, "[]", "w.safetensors").front(),
      ": the data is not compared with that of training");
}

} // namespace
} // namespace dpc::rt
