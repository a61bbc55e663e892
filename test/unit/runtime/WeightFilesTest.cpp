#include "runtime/io/WeightFiles.h"

#include "test/unit/runtime/ScratchFolder.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace dpc::rt {
namespace {

namespace fs = std::filesystem;

class WeightFilesTest : public test::ScratchFolder {
protected:
  /// Writes tensors t0, t1, ... of the given sizes. All elements of ti are i.
  void writeOut(const std::vector<int64_t> &sizes, int64_t fileBytes) {
    std::vector<SafetensorsWriter::Entry> entries;
    entries.reserve(sizes.size());
    for (int64_t size : sizes)
      entries.push_back(
          {"t" + std::to_string(entries.size()), DType::F32, {size}});
    WeightFolderWriter writer;
    ASSERT_TRUE(writer.start(at("out"), entries, fileBytes).ok());
    for (size_t i = 0; i < sizes.size(); ++i) {
      HostTensor value = HostTensor::zeros(DType::F32, {sizes[i]});
      for (int64_t j = 0; j < sizes[i]; ++j)
        value.set(j, static_cast<double>(i));
      ASSERT_TRUE(writer.append(value).ok());
    }
    Status status = writer.finish();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::vector<std::string> written() const {
    std::vector<std::string> names;
    for (const fs::directory_entry &entry : fs::directory_iterator(at("out")))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  void expectAll(const std::string &from, const std::vector<int64_t> &sizes) {
    Expected<WeightFiles> files = WeightFiles::open(from);
    ASSERT_TRUE(files.ok()) << files.status().message();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const WeightFiles::Weight *weight = files->find("t" + std::to_string(i));
      ASSERT_NE(weight, nullptr);
      ASSERT_EQ(weight->entry.shape, std::vector<int64_t>{sizes[i]});
      std::vector<float> values(sizes[i]);
      std::memcpy(values.data(), weight->data(), weight->entry.bytes);
      EXPECT_EQ(values, std::vector<float>(sizes[i], static_cast<float>(i)));
    }
    EXPECT_EQ(files->find("t" + std::to_string(sizes.size())), nullptr);
  }

  void expectRefused(const std::string &index, const std::string &why) {
    std::ofstream(at("model.safetensors.index.json")) << index;
    Expected<WeightFiles> files = WeightFiles::open(at(""));
    ASSERT_FALSE(files.ok()) << index;
    EXPECT_HAS(files.status().message(), why);
  }
};

TEST_F(WeightFilesTest, OneFileNeedsNoIndex) {
  writeOut({3, 4}, 28);
  EXPECT_EQ(written(), std::vector<std::string>{"model.safetensors"});
  expectAll(at("out"), {3, 4});
  auto file = openSafetensors(at("out/model.safetensors"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->metadata["format"], "pt");
}

/// A tensor larger than the limit of a file has a separate file.
TEST_F(WeightFilesTest, OtherFilesOfWeightsAreNamed) {
  writeOut({3, 4}, 28);
  for (const char *name :
       {"pytorch_model.bin", "adapter_model.safetensors", "optimizer.pt",
        "training_args.bin", "model-00001-of-00002.safetensors"})
    write(std::string("out/") + name, "");
  EXPECT_EQ(WeightFiles::open(at("out"))->unreadFiles(),
            (std::vector<std::string>{"adapter_model.safetensors",
                                      "pytorch_model.bin"}));
  EXPECT_TRUE(
      WeightFiles::open(at("out/model.safetensors"))->unreadFiles().empty());
}

TEST_F(WeightFilesTest, SeveralFilesHaveAnIndex) {
  std::vector<int64_t> sizes = {2, 2, 9, 1, 3};
  writeOut(sizes, 16);
  EXPECT_EQ(written(),
            (std::vector<std::string>{"model-00001-of-00003.safetensors",
                                      "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors",
                                      "model.safetensors.index.json"}));
  expectAll(at("out"), sizes);
  expectAll(at("out/model.safetensors.index.json"), sizes);
  std::ifstream text(at("out/model.safetensors.index.json"));
  nlohmann::json index = nlohmann::json::parse(text);
  EXPECT_EQ(index["metadata"]["total_size"], 17 * 4);
  EXPECT_EQ(index["weight_map"]["t2"], "model-00002-of-00003.safetensors");
}

/// Readers would prefer the old model.safetensors to the new index.
TEST_F(WeightFilesTest, AnEarlierModelIsNotReadInstead) {
  writeOut({3, 4}, 1 << 20);
  writeOut({5, 6}, 8);
  expectAll(at("out"), {5, 6});
  writeOut({1, 1}, 1 << 20);
  expectAll(at("out"), {1, 1});
  EXPECT_FALSE(fs::exists(at("out/model.safetensors.index.json")));
}

/// Some readers prefer the file, others the index.
TEST_F(WeightFilesTest, AFileAndAnIndexMustAgree) {
  writeOut({3, 4}, 1 << 20);
  fs::copy(at("out/model.safetensors"), at("out/other.safetensors"));
  std::ofstream(at("out/model.safetensors.index.json"))
      << R"({"weight_map": {"t0": "other.safetensors",
                            "t1": "other.safetensors"}})";
  expectAll(at("out"), {3, 4});
  auto errorOf = [&] {
    Expected<WeightFiles> files = WeightFiles::open(at("out"));
    return files ? "" : files.status().message();
  };
  const std::string both = at("out/model.safetensors") + " and " +
                           at("out/model.safetensors.index.json") +
                           " disagree: ";
  std::fstream other(at("out/other.safetensors"),
                     std::ios::in | std::ios::out | std::ios::binary);
  other.seekp(-1, std::ios::end);
  other.put('\x40');
  other.close();
  EXPECT_EQ(errorOf(), both + "they have different values for 't1'; name one "
                              "of the two");
  std::ofstream(at("out/model.safetensors.index.json"))
      << R"({"weight_map": {"t0": "other.safetensors"}})";
  EXPECT_HAS(errorOf(), both + "only one of them has 't1'");
  fs::remove(at("out/other.safetensors"));
  EXPECT_HAS(errorOf(), both + at("out/other.safetensors"));
  expectAll(at("out/model.safetensors"), {3, 4});
}

TEST_F(WeightFilesTest, AnIndexMayOnlyNameFilesInItsFolder) {
  writeOut({3}, 1 << 20);
  fs::create_directory(at("sub"));
  fs::copy(at("out/model.safetensors"), at("beside.safetensors"));
  const std::string map = R"({"weight_map": {"t0": )";
  for (const char *file :
       {R"("../beside.safetensors")", R"("out/model.safetensors")",
        R"("/etc/x.safetensors")", R"("..")", R"("")", R"(".safetensors")",
        R"("passwd")", R"("sub\\beside.safetensors")", "7", "null",
        R"("a\u0000.safetensors")"})
    expectRefused(map + file + "}}",
                  "is not a .safetensors file in the folder of the index");
  expectRefused(map + R"("gone.safetensors"}})", "gone.safetensors");
  expectRefused(R"({"weight_map": {"t9": "beside.safetensors"}})",
                "tensor 't9' is not in beside.safetensors");
  for (const char *text : {"", "[]", "{}", R"({"weight_map": []})", "{\"weigh"})
    expectRefused(text, "is not an index of weights");
  std::ofstream(at("model.safetensors.index.json"))
      << map + R"("beside.safetensors"}})";
  expectAll(at(""), {3});
}

TEST(ParseSize, UnitsAreDecimalAndBinary) {
  EXPECT_EQ(parseSize("5GB"), 5'000'000'000);
  EXPECT_EQ(parseSize("200MiB"), 200 << 20);
  EXPECT_EQ(parseSize("1000"), 1000);
  EXPECT_EQ(parseSize("3KB"), 3000);
  for (const char *text : {"", "GB", "0", "-1", "5 GB", "5gb", "5TBs", "1.5GB",
                           "99999999999GiB", "9999999999999999999"})
    EXPECT_EQ(parseSize(text), std::nullopt) << text;
}

} // namespace
} // namespace dpc::rt
