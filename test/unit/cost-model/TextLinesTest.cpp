#include "cost-model/report/TextLines.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

using Words = std::vector<std::string>;

TEST(TextLines, BreakAtTheEndOfAPhrase) {
  EXPECT_EQ(wrapText("", 20, 2), Words{""});
  EXPECT_EQ(wrapText("short", 20, 2), Words{"short"});
  EXPECT_EQ(wrapText("one phrase, another of 5 GiB", 24, 2),
            (Words{"one phrase,", "  another of 5 GiB"}));
  EXPECT_EQ(wrapText("words without a single phrase", 21, 2),
            (Words{"words without a", "  single phrase"}));
  EXPECT_EQ(wrapText("aligned  in columns of text", 21, 0),
            (Words{"aligned  in columns", "of text"}));
}

TEST(TextLines, BreakLongWordsAtCommas) {
  EXPECT_EQ(wrapText("dp=16,tp=4,schedule=interleaved", 24, 0),
            (Words{"dp=16,tp=4,", "schedule=interleaved"}));
  EXPECT_EQ(wrapText(std::string(50, 'x'), 20, 0),
            (Words{std::string(20, 'x'), std::string(20, 'x'),
                   std::string(10, 'x')}));
  // A line has room for 20 characters even if the limit is smaller.
  EXPECT_EQ(wrapText(std::string(30, 'x'), 1, 4),
            (Words{std::string(20, 'x'), "    " + std::string(10, 'x')}));
}

TEST(TextLines, BlocksCountHiddenItems) {
  TextForm form;
  Block block{wrapLines("title", form), {}, " more"};
  EXPECT_EQ(block.lines(), 0U);
  EXPECT_TRUE(block.fit(9).empty());
  for (const char *text : {"a", "b", "c"})
    block.items.push_back(wrapLines(text, form));
  EXPECT_EQ(block.lines(), 4U);
  EXPECT_EQ(joinLines(block.fit(4), form), "title\na\nb\nc\n");
  EXPECT_EQ(joinLines(block.fit(3), form), "title\na\n    and 2 more\n");
  EXPECT_EQ(joinLines(block.fit(2), form), "    and 3 more\n");
  EXPECT_TRUE(block.fit(0).empty());
  block.more.clear();
  EXPECT_TRUE(block.fit(2).empty());
}

TEST(TextLines, ColorsAreOptional) {
  Lines lines = {{"a", LineStyle::strong}, {"b", LineStyle::plain}};
  EXPECT_EQ(joinLines(lines, {100, false}), "a\nb\n");
  EXPECT_EQ(joinLines(lines, {100, true}), "\x1b[1ma\x1b[0m\nb\n");
}
