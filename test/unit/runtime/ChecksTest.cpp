//===- ChecksTest.cpp - checks that see each sample -----------------------===//
#include "runtime/facts/Checks.h"
#include "runtime/facts/NearSamples.h"
#include "test/unit/runtime/SampleValues.h"

#include <cmath>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

constexpr int64_t kLength = 12;
int64_t lengthOf(int64_t sample) { return 4 + sample % 7; }
/// A text that `padding` pads at its end.
Value paddedBy(int64_t padding) {
  return [=](int64_t sample, int64_t k) {
    return double(k < lengthOf(sample) ? drawn(sample, k) : padding);
  };
}
Port idsPort() {
  Port port = portOf("ids", DType::I64, {4, kLength});
  port.use = InputUse::Ids;
  port.limit = 64;
  return port;
}

TEST(Checks, PaddingAtTheLastPositionIsSaid) {
  Port ids = idsPort();
  EXPECT_EQ(textsOf({ids}, {paddedBy(0)}), Strings());
  ids.dependence.readsLast = true;
  EXPECT_EQ(textsOf({ids}, {paddedBy(0)}),
            Strings{"input 'ids': the loss reads the scores of the last "
                    "position only, but 64 of 64 samples end with a run of 0: "
                    "if it is padding, expected padding at the begin, or a "
                    "model that reads the last position before it"});
  auto atBegin = [](int64_t sample, int64_t k) {
    return paddedBy(0)(sample, kLength - 1 - k);
  };
  EXPECT_EQ(textsOf({ids}, {atBegin}), Strings());
  auto full = [](int64_t sample, int64_t k) {
    return double(drawn(sample, k));
  };
  EXPECT_EQ(textsOf({ids}, {full}), Strings());
}

TEST(Checks, AnotherIdOfPaddingIsSaid) {
  Port ids = idsPort();
  ids.dependence.padding = 1;
  EXPECT_EQ(textsOf({ids}, {paddedBy(1)}), Strings());
  EXPECT_EQ(textsOf({ids}, {paddedBy(0)}),
            Strings{"input 'ids': the model looks for the id 1, which does not "
                    "occur, but 64 of 64 samples end with a run of 0: is 1 "
                    "the padding of the model?"});
  // The id may mark something else.
  auto marked = [](int64_t sample, int64_t k) {
    return k == 0 && sample % 3 == 0 ? 1 : paddedBy(0)(sample, k);
  };
  EXPECT_EQ(textsOf({ids}, {marked}), Strings());
}

TEST(Checks, TextsThatNoLabelEndsAreSaid) {
  Port ids = idsPort(), labels = idsPort();
  labels.name = "labels";
  labels.use = InputUse::ShiftedLabels;
  labels.ignored = -100;
  /// The labels of a text, `counted` of whose padding count.
  auto labelsOf = [](int64_t padding, int64_t counted) -> Value {
    return [=](int64_t sample, int64_t k) {
      return k < lengthOf(sample) + counted ? paddedBy(padding)(sample, k)
                                            : -100.0;
    };
  };
  const Strings said = {
      "in 64 of 64 samples, input 'ids' ends with a run of 63, and different "
      "ids stand before it, but no label in input 'labels' is 63: nothing "
      "trains "
      "the model to predict it"};
  EXPECT_EQ(textsOf({ids, labels}, {paddedBy(63), labelsOf(63, 0)}), said);
  EXPECT_EQ(textsOf({ids, labels}, {paddedBy(63), labelsOf(63, 1)}), Strings());
  // Another id ends each text.
  auto ended = [](Value value) -> Value {
    return [=](int64_t sample, int64_t k) {
      return k == lengthOf(sample) - 1 ? 1 : value(sample, k);
    };
  };
  EXPECT_EQ(
      textsOf({ids, labels}, {ended(paddedBy(63)), ended(labelsOf(63, 0))}),
      Strings());
  // Labels one position earlier.
  labels.use = InputUse::Labels;
  auto before = [&](int64_t counted) -> Value {
    return [=](int64_t sample, int64_t k) {
      return k + 1 < kLength ? labelsOf(63, counted)(sample, k + 1) : -100.0;
    };
  };
  EXPECT_EQ(textsOf({ids, labels}, {paddedBy(63), before(0)}), said);
  EXPECT_EQ(textsOf({ids, labels}, {paddedBy(63), before(1)}), Strings());
  // Masked tokens are no next ones.
  auto masked = [&](int64_t sample, int64_t k) {
    return (sample + k) % 5 == 0 ? labelsOf(63, 0)(sample, k) : -100.0;
  };
  EXPECT_EQ(textsOf({ids, labels}, {paddedBy(63), masked}), Strings());
}

TEST(Checks, RowsThatAreNoProbabilitiesAreSaid) {
  Port target = portOf("y", DType::F32, {4, 5});
  target.dependence.classDim = 1;
  auto hot = [](int64_t sample, int64_t k) {
    return k == sample % 5 ? 1.0 : 0.0;
  };
  EXPECT_EQ(textsOf({target}, {hot}), Strings());
  auto none = [&](int64_t sample, int64_t k) {
    return sample % 4 == 0 ? 0.0 : hot(sample, k);
  };
  EXPECT_EQ(textsOf({target}, {none}), Strings());
  auto several = [](int64_t sample, int64_t k) {
    return k <= sample % 4 ? 1.0 : 0.0;
  };
  EXPECT_EQ(textsOf({target}, {several}),
            Strings{"input 'y': the loss multiplies its rows of 5 classes by "
                    "the logarithms of a softmax; 75 % of them do not sum to "
                    "1, but to 2 to 4"});
  auto scores = [](int64_t sample, int64_t k) {
    return k == 0 ? -double(sample + 1) : 0.0;
  };
  EXPECT_EQ(textsOf({target}, {scores}),
            Strings{"input 'y': the loss multiplies its rows of 5 classes by "
                    "the logarithms of a softmax; 100 % of them do not sum to "
                    "1, but to -64 to -1, and some numbers are negative: are "
                    "they scores before a softmax?"});
  // A row that is no number, of a run with --on-nan=go-on.
  auto broken = [&](int64_t sample, int64_t k) {
    return sample == 0 ? std::nan("") : several(sample, k);
  };
  EXPECT_EQ(textsOf({target}, {broken}).size(), 1U);
  EXPECT_EQ(textsOf({target}, {broken}).front().find("nan"), std::string::npos);
  // Classes before positions.
  target.globalShape = {4, 2, 3};
  auto columns = [](int64_t /*sample*/, int64_t k) {
    return k / 3 == 0 ? 0.25 : 0.75;
  };
  EXPECT_EQ(textsOf({target}, {columns}), Strings());
  target.dependence.classDim = 2;
  EXPECT_EQ(textsOf({target}, {columns}).size(), 1U);
  for (int64_t dim : {-1, 0, 3}) { // of a plan by hand
    target.dependence.classDim = dim;
    EXPECT_EQ(textsOf({target}, {columns}), Strings());
  }
  target.globalShape = {4, 0};
  target.dependence.classDim = 1;
  EXPECT_EQ(textsOf({target}, {columns}), Strings());
}

TEST(Checks, AClassWithoutWeightIsSaid) {
  Port weight = portOf("weight", DType::F32, {4});
  Port label = portOf("label", DType::I64, {4});
  weight.dependence.weighsLoss = true;
  label.use = InputUse::Labels;
  label.limit = 4;
  auto classOf = [](int64_t sample, int64_t) { return double(sample % 4); };
  auto some = [](int64_t sample, int64_t) { return double(sample % 3); };
  EXPECT_EQ(textsOf({weight, label}, {some, classOf}), Strings());
  auto lost = [&](int64_t sample, int64_t k) {
    return sample % 4 == 2 ? 0 : 1 + some(sample, k);
  };
  EXPECT_EQ(textsOf({weight, label}, {lost, classOf}),
            Strings{"input 'weight' is 0 in all 16 samples where input 'label' "
                    "is 2"});
  EXPECT_EQ(textsOf({weight, label}, {lost, classOf}, 24), Strings());
}

TEST(Checks, ATargetOfTwoColumnsIsSaid) {
  Port x = portOf("x", DType::F32, {4, 6}), y = portOf("y", DType::F32, {4, 1});
  y.dependence.isTarget = true;
  auto textsFor = [&](const Value &target) {
    return textsOf({x, y}, {normal, target});
  };
  const std::string end = ": is the target computed from the inputs?";
  EXPECT_EQ(textsFor([](int64_t sample, int64_t) {
              return normal(sample, 1) + normal(sample, 4);
            }),
            Strings{"input 'y': in all 64 samples it is element 1 of input 'x' "
                    "plus element 4 of input 'x'" +
                    end});
  EXPECT_EQ(textsFor([](int64_t sample, int64_t) {
              return 3 * normal(sample, 5) / normal(sample, 0);
            }),
            Strings{"input 'y': in all 64 samples it is element 5 of input 'x' "
                    "over element 0 of input 'x', times 3" +
                    end});
  // In the last sample, it is something else.
  EXPECT_EQ(textsFor([](int64_t sample, int64_t) {
              return normal(sample, 1) * normal(sample, 4) +
                     (sample == 63 ? 1 : 0);
            }),
            Strings());
  EXPECT_EQ(textsFor([](int64_t sample, int64_t) {
              return normal(sample, 1) + normal(sample, 4) +
                     0.01 * normal(sample, 9);
            }),
            Strings());
  // LabelLeak says that a single element is the target.
  EXPECT_EQ(
      textsFor([](int64_t sample, int64_t) { return 2 * normal(sample, 1); }),
      Strings());
}

TEST(Checks, RoundingGivesNoFactor) {
  Port x = portOf("x", DType::F32, {4, 6}), y = portOf("y", DType::F32, {4});
  y.dependence.isTarget = true;
  // The mean of each sample is 0, up to the rounding to f32.
  auto centred = [](int64_t sample, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < 6; ++i)
      sum += normal(sample, i);
    return normal(sample, k) - sum / 6;
  };
  auto other = [](int64_t sample, int64_t) { return normal(sample, 9); };
  EXPECT_EQ(textsOf({x, y}, {centred, other}), Strings());
  auto twice = [](int64_t sample, int64_t k) {
    return k == 1 ? normal(sample, 0) * 1.0000002 : normal(sample, k);
  };
  EXPECT_EQ(textsOf({x, y}, {twice, other}), Strings());
  // A small difference of large elements is the target.
  auto large = [](int64_t sample, int64_t k) {
    return k < 2 ? 100 + normal(sample, k) : normal(sample, k);
  };
  auto difference = [&](int64_t sample, int64_t) {
    return 0.5 * (float(large(sample, 0)) - float(large(sample, 1)));
  };
  EXPECT_EQ(textsOf({x, y}, {large, difference}),
            Strings{"input 'y': in all 64 samples it is element 0 of input 'x' "
                    "minus element 1 of input 'x', times 0.5: is the target "
                    "computed from the inputs?"});
}

TEST(Checks, ATargetOfSuccessiveElementsIsSaid) {
  Port x = portOf("x", DType::F32, {4, 6}), y = portOf("y", DType::F32, {4});
  y.dependence.isTarget = true;
  auto meanFrom = [](int64_t first) -> Value {
    return [=](int64_t sample, int64_t) {
      double sum = 0;
      for (int64_t k = first; k < 6; ++k)
        sum += normal(sample, k);
      return sum / double(6 - first);
    };
  };
  EXPECT_EQ(textsOf({x, y}, {normal, meanFrom(3)}),
            Strings{"input 'y': in all 64 samples it is the sum of elements 3 "
                    "to 5 of input 'x', times 0.3333: is the target computed "
                    "from the inputs?"});
  // One that the sample does not have.
  EXPECT_EQ(textsOf({x, y}, {normal,
                             [](int64_t sample, int64_t) {
                               return normal(sample, 4) + normal(sample, 5) +
                                      normal(sample, 6);
                             }}),
            Strings());
}

TEST(Checks, ALabelThatComparesTwoElementsIsSaid) {
  constexpr int64_t kSamples = 256;
  Port x = portOf("x", DType::F32, {4, 6}), y = portOf("y", DType::I64, {4});
  y.use = InputUse::Labels;
  y.limit = 2;
  auto larger = [](int64_t sample, int64_t) {
    return normal(sample, 5) > normal(sample, 4) ? 1.0 : 0.0;
  };
  const bool isFirst = larger(0, 0) == 1;
  EXPECT_EQ(textsOf({x, y}, {normal, larger}, kSamples),
            Strings{"input 'y' is " + std::string(isFirst ? "1" : "0") +
                    " exactly where element " + (isFirst ? "5" : "4") +
                    " of input 'x' is larger than element " +
                    (isFirst ? "4" : "5") +
                    " of input 'x', in all 256 samples: is the label computed "
                    "from the inputs?"});
  EXPECT_EQ(textsOf({x, y},
                    {normal,
                     [&](int64_t sample, int64_t k) {
                       return sample == 40 ? 1 - larger(sample, k)
                                           : larger(sample, k);
                     }},
                    kSamples),
            Strings());
  // Classes with a gap between them.
  auto apart = [](int64_t sample, int64_t k) {
    return 0.5 * normal(sample, k) + (k == 5 ? 8 * double(sample % 2) - 4 : 0);
  };
  auto classOf = [](int64_t sample, int64_t) { return double(sample % 2); };
  EXPECT_EQ(textsOf({x, y}, {apart, classOf}, kSamples), Strings());
  // Too few of one label.
  EXPECT_EQ(textsOf({x, y}, {normal, larger}, 48), Strings());
}

TEST(Checks, AnElementThatIsTheNextTargetIsSaid) {
  Port x = portOf("x", DType::F32, {4, 6}), y = portOf("y", DType::F32, {4});
  y.dependence.isTarget = true;
  auto shifted = [](int64_t by) -> Value {
    return [=](int64_t sample, int64_t) { return normal(sample + by, 3); };
  };
  EXPECT_EQ(textsOf({x, y}, {normal, shifted(-1)}),
            Strings{"element 3 of input 'x' is input 'y' of the next sample, "
                    "in all 64 samples: does it look ahead?"});
  EXPECT_EQ(textsOf({x, y}, {normal, shifted(1)}), Strings());
}

TEST(Checks, EqualElementsAreSaid) {
  Port x = portOf("x", DType::F32, {4, 6});
  auto copied = [](int64_t sample, int64_t k) {
    return normal(sample, k == 5 ? 2 : k);
  };
  EXPECT_EQ(textsOf({x}, {copied}),
            Strings{"element 2 of input 'x' equals element 5 of input 'x' in "
                    "all 64 samples"});
  EXPECT_EQ(textsOf({x}, {[&](int64_t sample, int64_t k) {
                      return copied(sample, sample == 60 ? 5 - k : k);
                    }}),
            Strings());
  auto constant = [](int64_t sample, int64_t k) {
    return k > 3 ? 1.0 : normal(sample, k);
  };
  EXPECT_EQ(textsOf({x}, {constant}), Strings());
}

/// A series without trend.
double seriesAt(int64_t time, int64_t channel) {
  return normal(time, channel) + normal(time + 1, channel);
}

TEST(Checks, TargetsThatBeginAtTheLastStepAreSaid) {
  constexpr int64_t kSteps = 6;
  Port x = portOf("x", DType::F32, {4, kSteps, 2});
  Port y = portOf("y", DType::F32, {4, 3});
  y.dependence.isTarget = true;
  auto window = [](int64_t sample, int64_t k) {
    return seriesAt(sample + k / 2, k % 2);
  };
  auto from = [](int64_t step) -> Value {
    return [=](int64_t sample, int64_t k) {
      return seriesAt(sample + step + k, 0);
    };
  };
  EXPECT_EQ(textsOf({x, y}, {window, from(kSteps - 1)}),
            Strings{"element 0 of input 'y', of its first step, equals element "
                    "10 of input 'x', of its last step, in all 64 samples: do "
                    "the targets begin one step early?"});
  EXPECT_EQ(textsOf({x, y}, {window, from(kSteps)}), Strings());
  // Steps along the last dimension.
  Port channels = portOf("x", DType::F32, {4, 2, kSteps});
  auto rows = [](int64_t sample, int64_t k) {
    return seriesAt(sample + k % kSteps, k / kSteps);
  };
  EXPECT_EQ(textsOf({channels, y}, {rows, from(kSteps - 1)}).size(), 1u);
  EXPECT_EQ(textsOf({channels, y}, {rows, from(kSteps)}), Strings());
  // A model that reverses a part of its input.
  auto reversed = [](int64_t sample, int64_t k) {
    return seriesAt(sample + kSteps - 1 - k, 0);
  };
  EXPECT_EQ(textsOf({x, y}, {window, reversed}), Strings());
  // A series that does not change.
  auto constant = [](int64_t, int64_t) { return 1.0; };
  EXPECT_EQ(textsOf({x, y}, {constant, constant}), Strings());
}

TEST(Checks, WindowsOfAnotherOrderAreSaid) {
  constexpr int64_t kSteps = 6;
  const Port x = portOf("x", DType::F32, {4, kSteps, kSteps});
  Port y = portOf("y", DType::F32, {4, kSteps}),
       one = portOf("y", DType::F32, {4});
  y.dependence.isTarget = one.dependence.isTarget = true;
  auto window = [](int64_t sample, int64_t k) {
    return seriesAt(sample + k / kSteps, k % kSteps);
  };
  auto transposed = [=](int64_t sample, int64_t k) {
    return window(sample, k % kSteps * kSteps + k / kSteps);
  };
  auto backwards = [=](int64_t sample, int64_t k) {
    return window(sample, (kSteps - 1 - k / kSteps) * kSteps + k % kSteps);
  };
  auto after = [](int64_t steps, int64_t column = 0) -> Value {
    return [=](int64_t sample, int64_t k) {
      return seriesAt(sample + kSteps - 1 + steps, column + k);
    };
  };
  const Strings isTransposed = {
      "input 'y' is the step after the last one of input 'x' along dimension "
      "2, as other samples show, and not along dimension 1: are the two "
      "transposed?"};
  const Strings isBackwards = {
      "input 'y' is the step before the first one of input 'x' along dimension "
      "1, as other samples show: does the series go backwards, with its newest "
      "step first?"};
  EXPECT_EQ(textsOf({x, y}, {transposed, after(1)}), isTransposed);
  EXPECT_EQ(textsOf({x, y}, {backwards, after(1)}), isBackwards);
  EXPECT_EQ(textsOf({x, one}, {transposed, after(1, 2)}), isTransposed);
  EXPECT_EQ(textsOf({x, one}, {backwards, after(1, 2)}), isBackwards);
  // Windows that overlap in part, of which some are held out.
  auto spaced = [](const Value &value) -> Value {
    return [=](int64_t sample, int64_t k) {
      return value(2 * sample + sample / 5, k);
    };
  };
  EXPECT_EQ(textsOf({x, y}, {spaced(backwards), spaced(after(1))}),
            isBackwards);
  // Correct windows, targets farther ahead, and windows that do not overlap.
  auto apart = [](const Value &value) -> Value {
    return [=](int64_t sample, int64_t k) { return value(9 * sample, k); };
  };
  for (const Port &target : {y, one}) {
    EXPECT_EQ(textsOf({x, target}, {window, after(1)}), Strings());
    EXPECT_EQ(textsOf({x, target}, {spaced(window), spaced(after(1))}),
              Strings());
    for (int64_t steps : {2, 5})
      EXPECT_EQ(textsOf({x, target}, {window, after(steps)}), Strings());
    EXPECT_EQ(textsOf({x, target}, {apart(window), apart(after(1))}),
              Strings());
  }
  // A season of as many steps as the window, or of one more.
  for (int64_t period : {kSteps, kSteps + 1}) {
    auto seasonal = [=](int64_t sample, int64_t k) {
      return seriesAt((sample + k / kSteps) % period, k % kSteps);
    };
    auto next = [=](int64_t sample, int64_t k) {
      return seriesAt((sample + kSteps) % period, k);
    };
    EXPECT_EQ(textsOf({x, y}, {seasonal, next}, 40), Strings());
  }
  // Channels may come first, unless there are as many as steps.
  const Port channels = portOf("x", DType::F32, {4, 3, kSteps});
  Port three = portOf("y", DType::F32, {4, 3});
  three.dependence.isTarget = true;
  auto rows = [](int64_t sample, int64_t k) {
    return seriesAt(sample + k % kSteps, k / kSteps);
  };
  EXPECT_EQ(textsOf({channels, three}, {rows, after(1)}), Strings());
  EXPECT_EQ(textsOf({channels, one}, {rows, after(1)}), Strings());
}

TEST(Checks, IdsThatTellTheClassAreSaid) {
  constexpr int64_t kSamples = 192;
  Port ids = idsPort(), y = portOf("y", DType::I64, {4});
  y.use = InputUse::Labels;
  y.limit = 3;
  auto classOf = [](int64_t sample, int64_t) { return double(sample % 3); };
  /// Of `classes` classes, all but a few texts have the id of the class.
  auto with = [](int64_t classes, int64_t missing) -> Value {
    return [=](int64_t sample, int64_t k) {
      const bool isMarked =
          sample % 3 < classes && (missing == 0 || sample % missing > 0);
      return double(isMarked && k == drawn(sample, 99) % kLength
                        ? sample % 3
                        : 4 + drawn(sample, k) % 60);
    };
  };
  EXPECT_EQ(textsOf({ids, y}, {with(3, 0), classOf}, kSamples),
            Strings{"input 'ids': id 0 is in 64 of 64 samples with label 0 of "
                    "input 'y' and in 0 of 128 others, and 3 of 3 classes have "
                    "such an id: does the text hold the label?"});
  // The texts of the last class have no id, and some texts lost theirs.
  EXPECT_EQ(textsOf({ids, y}, {with(2, 50), classOf}, kSamples).size(), 1u);
  // The id is a frequent word of the topic, or one of a single class.
  EXPECT_EQ(textsOf({ids, y}, {with(3, 4), classOf}, kSamples), Strings());
  EXPECT_EQ(textsOf({ids, y}, {with(1, 0), classOf}, kSamples), Strings());
  // Texts of different languages share no word.
  auto languages = [](int64_t sample, int64_t k) {
    return double(sample % 3 * 10 + drawn(sample, k) % 4);
  };
  EXPECT_EQ(textsOf({ids, y}, {languages, classOf}, kSamples), Strings());
}

TEST(Checks, InterleavedChannelsAreSaid) {
  constexpr int64_t kSize = 16;
  Port x = portOf("x", DType::F32, {4, 3, kSize, kSize});
  // A smooth picture, whose channels differ.
  auto pixel = [](int64_t sample, int64_t channel, int64_t i, int64_t j) {
    return std::sin(0.2 * double(i) + double(sample)) +
           std::cos(0.3 * double(j) - double(sample % 7)) + double(channel);
  };
  auto planes = [&](int64_t sample, int64_t k) {
    return pixel(sample, k / (kSize * kSize), k / kSize % kSize, k % kSize);
  };
  auto interleaved = [&](int64_t sample, int64_t k) {
    return pixel(sample, k % 3, k / 3 / kSize, k / 3 % kSize);
  };
  EXPECT_EQ(textsOf({x}, {planes}), Strings());
  EXPECT_EQ(textsOf({x}, {normal}), Strings());
  EXPECT_EQ(textsOf({x}, {interleaved}),
            Strings{"input 'x': along its last dimension, a number resembles "
                    "the one 3 places on more than the next one: were images "
                    "of shape [height, width, channels] reshaped to [channels, "
                    "height, width] without a transpose?"});
}

TEST(NearSamples, NoisyCopiesAreSaid) {
  const Port x = portOf("x", DType::F32, {4, 8});
  auto near = [&](const Value &value, int64_t samples) {
    NearSamples result(shapeOf({x}));
    visitSamples({x}, {value}, samples,
                 [&](const SampleArrays &sample) { result.add(sample); });
    return result;
  };
  const NearSamples training = near(normal, 300);
  auto textOn = [&](const Value &value) {
    return NearSamples::text(training, "--data=t", near(value, 100));
  };
  auto other = [](int64_t sample, int64_t k) {
    return normal(sample + 300, k);
  };
  EXPECT_EQ(textOn(other), "");
  EXPECT_EQ(textOn([&](int64_t sample, int64_t k) {
              return sample % 2 == 0
                         ? other(sample, k)
                         : normal(sample, k) + 0.002 * normal(sample, k + 500);
            }),
            "50 % of the samples of --eval-data are nearly equal to samples of "
            "--data=t: were augmented or noisy copies split?");
  // Equal samples are counted elsewhere; the training data may have neighbors.
  EXPECT_EQ(textOn(normal), "");
  auto twins = [](int64_t sample, int64_t k) {
    return normal(sample / 2, k) + 0.002 * normal(sample, k + 500);
  };
  EXPECT_EQ(
      NearSamples::text(near(twins, 300), "--data=t",
                        near([&](int64_t sample,
                                 int64_t k) { return twins(sample + 300, k); },
                             100)),
      "");
}

} // namespace
} // namespace dpc::rt
