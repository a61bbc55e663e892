//===- TokenDataset.cpp - samples from one long sequence of tokens --------===//
#include "runtime/data/Dataset.h"

#include "runtime/base/OneLine.h"
#include "runtime/base/ReadFile.h"
#include "runtime/facts/IndexCheck.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dpc::rt {

namespace {

/// A header of llm.c has 256 int32; the first three are magic, version and
/// number of tokens.
struct HeaderKind {
  int32_t magic, version;
  int64_t width; ///< bytes of a token
};
constexpr HeaderKind kHeaders[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr int64_t kHeaderBytes = 1024;

/// How files of other formats begin.
constexpr std::pair<std::string_view, const char *> kOtherFormats[] = {
    {"\x1f\x8b\x08", "compressed by gzip"},
    {"\x28\xb5\x2f\xfd", "compressed by zstd"},
    {"\xfd"
     "7zXZ",
     "compressed by xz"},
    {"BZh", "compressed by bzip2"},
    {"PAR1", "a Parquet file"},
    {"ARROW1", "an Arrow file"},
    {"PK\x03\x04", "a zip archive (as .npz and .pt files)"},
    {"\x93NUMPY", "a NumPy array"},
    {"MMIDIDX", "the index of a Megatron-LM dataset"},
    {"\xff\xfe", "text in UTF-16"},
    {"\xfe\xff", "text in UTF-16"},
};

/// Whether at least 64 bytes are UTF-8 without control characters. The last
/// character may be cut.
bool isText(std::string_view bytes) {
  constexpr size_t kLeast = 64;
  int following = 0; // bytes of the present character
  for (unsigned char c : bytes) {
    bool isFollowing = (c & 0xC0) == 0x80;
    bool isPlain = (c >= ' ' && c < 0x7F) || (c >= '\t' && c <= '\r');
    if (isFollowing != (following > 0) ||
        (!isFollowing && !isPlain && (c < 0xC2 || c > 0xF4)))
      return false;
    following = isFollowing ? following - 1
                : c < 0x80  ? 0
                : c < 0xE0  ? 1
                : c < 0xF0  ? 2
                            : 3;
  }
  return bytes.size() >= kLeast;
}

class TokenDataset : public Dataset {
public:
  Status open(const Plan &plan, const std::string &path) {
    DPC_TRY(takePorts(plan, path));
    DPC_ASSIGN(file, InputFile::open(path));
    DPC_TRY(readHeader(ports[idsAt].limit));
    const std::vector<int64_t> &shape = ports.front().globalShape;
    length = numElements(shape) / shape.front();
    if (samples() < 1)
      return Status::invalid(path, ": has ", tokens, " tokens, a sample takes ",
                             length + isShifted());
    return Status::success();
  }

  int64_t samples() const override { return (tokens - isShifted()) / length; }

  Status read(int64_t sample, int64_t count,
              const std::vector<std::byte *> &to) const override {
    int64_t first = sample * length, taken = count * length;
    std::vector<char> bytes((taken + isShifted()) * width);
    DPC_TRY(file.read(begin + first * width, static_cast<int64_t>(bytes.size()),
                      bytes.data()));
    for (size_t p = 0; p < ports.size(); ++p)
      for (int64_t i = 0; i < taken; ++i) {
        int64_t inBytes = i + (p == idsAt ? 0 : isShifted());
        int64_t at = first + inBytes;
        uint32_t token = 0;
        std::memcpy(&token, bytes.data() + inBytes * width, width);
        if (!acceptsIndex(ports[p], token))
          return Status::invalid(file.path(), ": token ", at, " of input '",
                                 ports[p].name, "' is ", token, ", expected ",
                                 expectedIndexes(ports[p]), byteText(token));
        storeFromDouble(to[p], ports[p].dtype, i, token);
      }
    return Status::success();
  }

  std::string mapping() const override {
    std::string text = file.path() + ": ";
    text += oneLine(ports[idsAt].name) + " = tokens";
    if (ports.size() == 2)
      text += ", " + oneLine(ports[1 - idsAt].name) +
              (isShifted() ? " = next tokens"
                           : " = the same tokens, which the loss shifts");
    return text;
  }

private:
  /// What to do if `token` may be two tokens of one byte each.
  std::string byteText(uint32_t token) const {
    constexpr int64_t kBytes = 512; ///< and some tokens that are no bytes
    const bool mayBeTwo = width == 2 && ports[idsAt].limit <= kBytes &&
                          token / 256 < ports[idsAt].limit &&
                          token % 256 < ports[idsAt].limit;
    return mayBeTwo ? "; if the tokens are uint8, write them as uint16" : "";
  }

  /// 1 if the labels are the next tokens: the last token is then only a label.
  int64_t isShifted() const {
    return ports.size() == 2 && ports[1 - idsAt].use != InputUse::ShiftedLabels;
  }

  /// Whether the loss reads the input as classes. The name decides for indices
  /// whose use the compiler does not know.
  static bool isLabels(const Port &port) {
    static const std::set<std::string> names = {"label", "labels", "target",
                                                "targets"};
    return port.use == InputUse::Labels ||
           port.use == InputUse::ShiftedLabels ||
           (port.use == InputUse::Data && names.count(port.name));
  }

  /// Finds the ids of two inputs. Returns false if it is not clear which input
  /// has the labels.
  bool findIds() {
    if (ports.size() != 2)
      return ports.front().use != InputUse::Unread;
    idsAt = isLabels(ports[0]) ? 1 : 0;
    return ports[idsAt].use == InputUse::Ids && isLabels(ports[1 - idsAt]) &&
           isIndex(ports[0]) && isIndex(ports[1]);
  }

  Status takePorts(const Plan &plan, const std::string &path) {
    ports = plan.inputs;
    bool fits = ports.size() == 1 || ports.size() == 2;
    for (const Port &port : ports)
      fits = fits && isInteger(port.dtype) &&
             port.globalShape == ports.front().globalShape;
    if (fits && findIds())
      return Status::success();
    std::string inputs;
    for (const Port &port : ports)
      inputs += (inputs.empty() ? "" : ", ") + port.name + " " +
                describe(port.dtype, port.globalShape) + " (" +
                std::string(nameOf(port.use)) + ")";
    return Status::invalid(
        path,
        ": token files are for plans with one integer input, or two of the "
        "same shape (ids of an embedding, and labels); this plan has ",
        inputs, "; give a folder with NAME.npy, or a .safetensors file");
  }

  Status refuse(const std::string &why) const {
    return Status::invalid(file.path(), ": ", why);
  }

  Expected<std::string> beginning(int64_t most) const {
    std::string bytes(std::min(most, file.size()), '\0');
    DPC_TRY(file.read(0, static_cast<int64_t>(bytes.size()), bytes.data()));
    return bytes;
  }

  /// Refuses files of another format, which would be read as tokens.
  Status checkFormat() const {
    DPC_ASSIGN(std::string bytes, beginning(1 << 16));
    for (const auto &[magic, name] : kOtherFormats)
      if (bytes.starts_with(magic))
        return refuse(concat("is ", name, ", expected token ids"));
    return isText(bytes) ? refuse("is text, expected token ids (uint16 or "
                                  "uint32)")
                         : Status::success();
  }

  /// Refuses wider integers: after each word that has a value, one or three
  /// words are 0 all along.
  Status checkWidth(int64_t vocabulary) const {
    DPC_ASSIGN(std::string bytes, beginning(4 << 20));
    for (int64_t wide : {8, 4}) {
      int64_t count = static_cast<int64_t>(bytes.size()) / wide;
      bool isWide = wide > width && file.size() % wide == 0 && count > 1;
      bool hasValues = false;
      for (int64_t at = 0; isWide && at < count * wide; ++at) {
        bool isUpper = at % wide >= width;
        isWide = !isUpper || bytes[at] == 0;
        hasValues |= !isUpper && bytes[at] != 0;
      }
      if (isWide && hasValues)
        return refuse(concat("these look like ", wide == 8 ? "int64" : "uint32",
                             " tokens, but with a vocabulary of ", vocabulary,
                             " they are read as uint", 8 * width));
    }
    return Status::success();
  }

  Status readHeader(int64_t vocabulary) {
    struct {
      int32_t magic, version, count;
    } header = {};
    if (file.size() >= static_cast<int64_t>(sizeof header))
      DPC_TRY(file.read(0, sizeof header, &header));
    for (const HeaderKind &kind : kHeaders)
      if (header.magic == kind.magic) {
        width = kind.width;
        return checkHeader(kind, header.version, header.count);
      }
    DPC_TRY(checkFormat());
    width = vocabulary > 65536 ? 4 : 2;
    tokens = file.size() / width;
    if (file.size() % width != 0)
      return refuse("has " + std::to_string(file.size()) +
                    " bytes, which is not a multiple of uint" +
                    std::to_string(8 * width) + ": it is truncated");
    return checkWidth(vocabulary);
  }

  Status checkHeader(const HeaderKind &kind, int32_t version, int32_t count) {
    if (version != kind.version)
      return refuse("its header has magic " + std::to_string(kind.magic) +
                    " and version " + std::to_string(version) +
                    ", expected version " + std::to_string(kind.version));
    begin = kHeaderBytes;
    tokens = count;
    if (count < 0 || file.size() != begin + tokens * width)
      return refuse("its header counts " + std::to_string(count) +
                    " tokens, of uint" + std::to_string(8 * width) +
                    "; the file has " + std::to_string(file.size()) +
                    " bytes, expected " + std::to_string(begin) +
                    " and the bytes of the tokens");
    return Status::success();
  }

  InputFile file;
  std::vector<Port> ports;
  size_t idsAt = 0; ///< the input of ports that has the ids
  int64_t begin = 0, width = 2, tokens = 0, length = 0;
};

} // namespace

Expected<std::unique_ptr<Dataset>> openTokenDataset(const Plan &plan,
                                                    const std::string &path) {
  auto dataset = std::make_unique<TokenDataset>();
  DPC_TRY(dataset->open(plan, path));
  return std::unique_ptr<Dataset>(std::move(dataset));
}

} // namespace dpc::rt
