#include "runtime/io/SourceFiles.h"

#include "runtime/plan/PlanJson.h"
#include "test/unit/runtime/ScratchFolder.h"

namespace dpc::rt {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

class SourceFiles : public test::ScratchFolder {
protected:
  MappedFile open(const std::string &name) const {
    Expected<MappedFile> file = MappedFile::open(at(name));
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file ? *file : MappedFile();
  }
  SourceFile describe(const std::string &name) const {
    return describeSourceFile(name, open(name));
  }

  /// Makes a sparse file of zeros.
  void writeZeros(const std::string &name, int64_t bytes) const {
    write(name, "");
    std::filesystem::resize_file(dir / name, bytes);
  }
  void setByte(const std::string &name, int64_t offset, char value) const {
    std::fstream file(dir / name,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset).put(value);
  }
  /// Returns the hash of the file with another byte at `offset`.
  std::string hashWith(const std::string &name, int64_t offset) const {
    setByte(name, offset, 1);
    std::string hash = describe(name).hash;
    setByte(name, offset, 0);
    return hash;
  }

  static Plan planOf(const std::vector<std::string> &files) {
    Plan plan;
    for (const std::string &file : files)
      plan.tensors.emplace_back().source = TensorSource{file, 0, 4, DType::F32};
    plan.tensors.emplace_back();
    return plan;
  }
};

TEST_F(SourceFiles, SmallFilesAreHashedWhole) {
  write("a", "four");
  SourceFile entry = describe("a");
  EXPECT_EQ(entry.file, "a");
  EXPECT_EQ(entry.bytes, 4);
  EXPECT_EQ(entry.hash, hashText("four"));
  EXPECT_TRUE(isHash(entry.hash));
  write("empty", "");
  EXPECT_EQ(describe("empty").hash, hashText(""));
  writeZeros("b", 64 * kMebibyte);
  std::string zeros = describe("b").hash;
  for (int64_t offset : {int64_t(0), 100 * int64_t(1000), 64 * kMebibyte - 1})
    EXPECT_NE(hashWith("b", offset), zeros) << offset;
  EXPECT_EQ(describe("b").hash, zeros);
}

TEST_F(SourceFiles, LargeFilesAreSampled) {
  const int64_t bytes = 200 * kMebibyte + 123, block = 64 << 10;
  const int64_t distance = (bytes - block) / 1023;
  writeZeros("a", bytes);
  std::string zeros = describe("a").hash;
  for (int64_t offset : {int64_t(0), block - 1, distance + 1, bytes - block,
                         bytes - 1, (bytes - block) * 512 / 1023})
    EXPECT_NE(hashWith("a", offset), zeros) << offset;
  EXPECT_EQ(hashWith("a", block), zeros) << "between the first two blocks";
  writeZeros("b", bytes + 1);
  EXPECT_NE(describe("b").hash, zeros) << "the size is hashed";
}

TEST_F(SourceFiles, EachFileOfAPlanIsFoundOnce) {
  write("a", "first");
  write("b", "second");
  auto found = findSourceFiles(planOf({"b", at("a"), "b"}), dir);
  ASSERT_TRUE(found.ok()) << found.message();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].file, at("a"));
  EXPECT_EQ((*found)[0].hash, hashText("first"));
  EXPECT_EQ((*found)[1].file, "b");
  EXPECT_EQ((*found)[1].bytes, 6);
  EXPECT_TRUE(findSourceFiles(planOf({}), dir)->empty());

  SourceFile before{"b", 7, hashText("earlier")};
  found = findSourceFiles(planOf({"b"}), dir, {{"c", 1, ""}, before});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].hash, before.hash) << "known files are not read again";
  EXPECT_HAS(findSourceFiles(planOf({"c"}), dir).message(), at("c"));
}

TEST_F(SourceFiles, OtherContentsAreRefused) {
  write("a", "four");
  SourceFile entry = describe("a");
  EXPECT_EQ(checkSourceFile(entry, open("a"), "plan").message(), "");
  write("a", "five");
  EXPECT_EQ(checkSourceFile(entry, open("a"), "plan").message(),
            at("a") +
                ": changed since the plan 'plan' was compiled (4 bytes, hash " +
                hashText("four") + "; now 4 bytes, hash " + hashText("five") +
                "); compile again with dpc-opt or restore the file");
  write("a", "three");
  EXPECT_EQ(checkSourceFile(entry, open("a"), "plan").message(),
            at("a") + ": changed since the plan 'plan' was compiled (4 bytes; "
                      "now 5 bytes); compile again with dpc-opt or restore the "
                      "file");
}

TEST_F(SourceFiles, ChangesOfFilesThatMayHoldAProgramAreSaid) {
  Plan plan;
  for (const char *name : {"same", "model", "weights.safetensors", "gone"}) {
    write(name, "four");
    plan.sourceFiles.push_back(describe(name));
  }
  EXPECT_TRUE(changedSources(plan, dir).empty());
  write("model", "three");
  write("weights.safetensors", "three");
  std::filesystem::remove(dir / "gone");
  EXPECT_EQ(changedSources(plan, dir),
            std::vector<std::string>{
                at("model") + ": changed since the plan '" + dir.string() +
                "' was compiled (4 bytes; now 5 bytes)"});
}

} // namespace
} // namespace dpc::rt
