//===- CheckpointTest.cpp - manifests, shard files, folders ---------------===//
#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/checkpoint/ShardFile.h"
#include "runtime/plan/PlanJson.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <numeric>
#include <thread>

namespace dpc::rt {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public test::ScratchFolder {
protected:
  static std::string readFile(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void writeFile(const std::string &path, const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
  }
};

Manifest sample() {
  Manifest manifest;
  manifest.model = "toy";
  manifest.step = 7;
  manifest.globalBatch = 8;
  manifest.data = {2, 5, 9, "shuffled by seed 3", "0123456789abcdef", "mask"};
  manifest.settings = {{"optimizer", "adamw"}, {"lr", "0.1"}};
  manifest.mesh = {{{"dp", 2}, {"tp", 3}}, 1};
  manifest.tensors = {
      {"w",
       TensorRole::Parameter,
       "",
       "",
       DType::F32,
       {4, 9},
       {{{{4, {"dp"}}}, {{3, {"tp"}}, {3, {}}}}},
       0},
      {"w.exp_avg", TensorRole::State, "w", "exp_avg", DType::F32, {}, {}, 0}};
  manifest.files.resize(6);
  manifest.files[0] = {1234, "00112233aabbccdd"};
  return manifest;
}

TEST_F(Checkpoint, ManifestsRoundTrip) {
  Manifest manifest = sample();
  auto read = parseManifest(manifestText(manifest), "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->model, "toy");
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->globalBatch, 8);
  EXPECT_EQ(read->data.epoch, 2);
  EXPECT_EQ(read->data.position, 5);
  EXPECT_EQ(read->data.hash, "0123456789abcdef");
  EXPECT_EQ(read->settings, manifest.settings);
  EXPECT_EQ(read->data.samples, 9);
  EXPECT_EQ(read->data.order, "shuffled by seed 3");
  EXPECT_EQ(read->data.lastBatch, "mask");
  EXPECT_EQ(read->mesh, manifest.mesh);
  ASSERT_EQ(read->tensors.size(), 2u);
  EXPECT_EQ(read->tensors[0].layout, manifest.tensors[0].layout);
  EXPECT_EQ(read->tensors[1].of, "w");
  EXPECT_EQ(read->tensors[1].slot, "exp_avg");
  EXPECT_EQ(read->files[0].bytes, 1234);
  EXPECT_EQ(read->files[0].headerHash, "00112233aabbccdd");
}

TEST_F(Checkpoint, DamagedManifestsAreRefused) {
  std::string text = manifestText(sample());
  for (size_t length = 0; length + 2 < text.size(); length += 7)
    EXPECT_FALSE(parseManifest(text.substr(0, length), "m").ok()) << length;
  size_t body = text.find("\"manifest\"") + 12;
  for (size_t at = body; at + 2 < text.size(); ++at) {
    std::string changed = text;
    changed[at] = changed[at] == '1' ? '2' : '1';
    EXPECT_FALSE(parseManifest(changed, "m").ok()) << at;
  }
}

/// Returns a manifest with `from` replaced by `to` and a correct checksum.
std::string forged(const std::string &from, const std::string &to) {
  std::string text = manifestText(sample());
  size_t begin = text.find("\"manifest\": ") + 12;
  std::string body = text.substr(begin, text.size() - begin - 2);
  size_t at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  body.replace(at, from.size(), to);
  return "{\"checksum\": \"" + hashText(body) + "\",\n\"manifest\": " + body +
         "}\n";
}

TEST_F(Checkpoint, NothingInAManifestIsTrusted) {
  struct Case {
    const char *from, *to, *message;
  };
  for (const Case &c : std::initializer_list<Case>{
           {"\"version\":1", "\"version\":9", "version 9; this build reads 1"},
           {"\"step\":7", "\"step\":-1", "'step' is missing or not a size"},
           {"[\"dp\",2]", "[\"dp\",0]", "mesh axis"},
           {"[\"dp\",2]", "[\"tp\",2]", "mesh axis"},
           {"[\"dp\",2]", "[\"dp\",99999999]", "mesh axis"},
           {"\"shape\":[4,9]", "\"shape\":[4,8]", "multiply to 9, not 8"},
           {"\"shape\":[4,9]", "\"shape\":[4,9.5]", "is not a size"},
           {"\"shape\":[4,9]", "\"shape\":[4,4611686018427387904]",
            "is not a size"},
           {"[\"dp\"]", "[\"pp\"]", "axis 'pp'"},
           {"[\"dp\"]", "[3]", "axis 3"},
           {"\"parameter\"", "\"weights\"", "role 'weights'"},
           {"\"f32\"", "\"f31\"", "dtype 'f31'"},
           {"\"stage\":0", "\"stage\":1", "'stage' is missing or not a size"},
           {"\"step\":7", "\"step\":9223372036854775807",
            "'step' is missing or not a size"},
           {"\"epoch\":2", "\"epoch\":-2", "'epoch' is missing or not a size"},
           {"\"position\":5", "\"position\":9", "'position' is missing or"},
           {"\"samples\":9", "\"samples\":9223372036854775807",
            "'samples' is missing or not a size"},
           {"[\"lr\",\"0.1\"]", "[\"lr\",0.1]", "setting [\"lr\",0.1]"},
           {"[1234,", "[-1,", "file [-1"},
           {",[0,\"\"]]", "]", "there are 5 files of 6 ranks"}}) {
    auto read = parseManifest(forged(c.from, c.to), "m");
    ASSERT_FALSE(read.ok()) << c.to;
    EXPECT_HAS(read.status().message(), c.message)
        << c.to << ": " << read.status().message();
  }
}

TEST_F(Checkpoint, ShardFilesNoticeEveryChangedByte) {
  std::vector<float> large(100000), small = {1, 2, 3};
  std::iota(large.begin(), large.end(), 0.f);
  std::string path = at(shardFileName(0));
  ASSERT_TRUE(
      writeShardFile(path, {{"a", DType::F32, {1000, 100}, large.data()},
                            {"b", DType::F32, {3}, small.data()}})
          .ok());
  auto described = describeShardFile(path);
  ASSERT_TRUE(described.ok());
  auto part = [&](int64_t offset, int64_t count) -> Status {
    auto file = ShardFile::open(path, *described);
    if (!file)
      return file.status();
    auto data = (*file)->read("a", 400000, offset, count);
    if (!data)
      return data.status();
    EXPECT_EQ(std::memcmp(*data,
                          reinterpret_cast<char *>(large.data()) + offset,
                          count),
              0);
    return Status::success();
  };
  EXPECT_TRUE(part(0, 400000).ok());
  EXPECT_TRUE(part(399996, 4).ok());
  auto whole = ShardFile::open(path, *described);
  EXPECT_FALSE((*whole)->read("c", 4, 0, 4).ok());
  EXPECT_FALSE((*whole)->read("b", 16, 0, 4).ok());

  std::string good = readFile(path);
  size_t data = good.size() - 400012;
  for (size_t at : {size_t(0), size_t(9), data / 2, data - 1}) {
    std::string bad = good;
    bad[at] ^= 4;
    writeFile(path, bad);
    EXPECT_FALSE(ShardFile::open(path, *described).ok()) << at;
  }
  std::string bad = good;
  bad[data + 300000] ^= 4; // in the second block
  writeFile(path, bad);
  EXPECT_TRUE(part(0, 100).ok()) << "what is not read is not checked";
  Status status = part(262144, 100);
  ASSERT_FALSE(status.ok());
  EXPECT_HAS(status.message(), "tensor 'a'");
  writeFile(path, good.substr(0, good.size() - 1));
  EXPECT_FALSE(ShardFile::open(path, *described).ok());
}

TEST_F(Checkpoint, OnlyCompleteFoldersAreCheckpoints) {
  CheckpointFolder folder(at("runs"));
  ASSERT_TRUE(folder.prepare().ok());
  for (int64_t step : {3, 20, 100}) {
    Manifest manifest = sample();
    manifest.step = step;
    fs::create_directories(folder.unfinished(step, "x"));
    ASSERT_TRUE(folder.publish(manifest, "x").ok());
  }
  fs::create_directories(folder.unfinished(200, "y"));
  writeFile(folder.unfinished(200, "y") + "/manifest.json", "{}");
  fs::create_directories(folder.unfinished(3, "old") + "/x"); // an interrupted
                                                              // removal
  fs::create_directories(folder.checkpoint(300));             // without a
                                                              // manifest
  for (const char *name : {"step-07", "step-", "step--1", "step-5x", "other"})
    fs::create_directories(folder.path() + "/" + name);
  for (const char *name : {"step-07", "step-5x"})
    writeFile(folder.path() + "/" + name + "/manifest.json", "{}");
  // from a process that died in prepare()
  writeFile(folder.path() + "/.probe-123", "");
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{3, 20, 100}));
  ASSERT_TRUE(folder.removeUnfinished().ok());
  EXPECT_FALSE(fs::exists(folder.path() + "/.probe-123"));
  EXPECT_FALSE(fs::exists(folder.unfinished(200, "y")));
  EXPECT_TRUE(fs::exists(folder.path() + "/other"));
  ASSERT_TRUE(folder.prune(2).ok());
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{20, 100}));
  EXPECT_FALSE(fs::exists(folder.checkpoint(3)));
  auto manifest = readManifest(folder.checkpoint(100));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->step, 100);
}

/// A checkpoint of sample(), and a plan whose only weight is its 'w'.
class CheckpointOfOther : public Checkpoint {
protected:
  CheckpointOfOther() {
    weight.name = "w";
    weight.role = TensorRole::Parameter;
    weight.globalShape = {4, 9};
  }
  void SetUp() override {
    Checkpoint::SetUp();
    fs::create_directories(at("step-7"));
    writeFile(at("step-7/manifest.json"), manifestText(sample()));
    auto opened = CheckpointReader::open(at("step-7"));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    reader = std::move(*opened);
  }

  std::unique_ptr<CheckpointReader> reader;
  Plan plan;
  Tensor &weight = plan.tensors.emplace_back();
};

/// The plan would drop one of the two values.
TEST_F(CheckpointOfOther, UntiedWeightsDoNotFillTiedOnes) {
  weight.aliases = {"head"};
  EXPECT_TRUE(reader->check(plan).ok());
  weight.aliases = {"head", "w.exp_avg"};
  EXPECT_EQ(reader->check(plan).message(),
            at("step-7") + ": has 'w' and 'w.exp_avg' separately, but the plan "
                           "ties them");
}

TEST_F(CheckpointOfOther, AWeightThatIsFrozenNowIsNamed) {
  weight.role = TensorRole::Buffer;
  EXPECT_EQ(reader->check(plan).message(),
            at("step-7") + ": 'w' was trained there and is frozen here; a plan "
                           "that trains the same weights resumes");
  weight.name = "other";
  EXPECT_HAS(reader->check(plan).message(), ": has no buffer 'other'; ");
}

TEST_F(Checkpoint, APublishedStepReplacesTheOldOne) {
  CheckpointFolder folder(dir.string());
  for (const char *tag : {"a", "b"}) {
    Manifest manifest = sample();
    manifest.model = tag;
    fs::create_directories(folder.unfinished(7, tag));
    ASSERT_TRUE(folder.publish(manifest, tag).ok());
    EXPECT_EQ(readManifest(folder.checkpoint(7))->model, tag);
    auto names = std::distance(fs::directory_iterator(dir), {});
    EXPECT_EQ(names, 1) << "the old one lies about";
  }
}

TEST_F(Checkpoint, AStepIsCompleteWhileItIsReplaced) {
  for (const char *name : {"x", "y"})
    fs::create_directories(at(name));
  if (renameat2(AT_FDCWD, at("x").c_str(), AT_FDCWD, at("y").c_str(),
                RENAME_EXCHANGE) != 0)
    GTEST_SKIP() << "this file system cannot exchange folders";
  CheckpointFolder folder(at("steps"));
  fs::create_directories(folder.unfinished(7, "first"));
  ASSERT_TRUE(folder.publish(sample(), "first").ok());
  std::atomic<bool> isOver{false};
  std::thread writer([&] {
    for (int i = 0; i < 30; ++i) {
      fs::create_directories(folder.unfinished(7, "next"));
      EXPECT_TRUE(folder.publish(sample(), "next").ok());
    }
    isOver = true;
  });
  int64_t looks = 0, absent = 0;
  for (; !isOver; ++looks)
    absent += fs::exists(folder.checkpoint(7) + "/manifest.json") ? 0 : 1;
  writer.join();
  EXPECT_GT(looks, 0);
  EXPECT_EQ(absent, 0);
}

} // namespace
} // namespace dpc::rt
