//===- TokenDataset.cpp - samples out of one long text of tokens ----------===//
#include "runtime/data/DatasetKinds.h"

#include "runtime/exec/MappedFile.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

namespace {

class TokenDataset : public Dataset {
public:
  Status open(const Plan &plan, const std::string &path) {
    DPC_TRY(takePorts(plan, path));
    Expected<MappedFile> opened = MappedFile::open(path);
    if (!opened)
      return opened.status();
    file = *opened;
    DPC_TRY(readHeader(ports.front().limit));
    const std::vector<int64_t> &shape = ports.front().globalShape;
    length = numElements(shape) / shape.front();
    tokens = (file.size() - begin) / width;
    if (samples() < 1)
      return Status::invalid(path + ": has " + std::to_string(tokens) +
                             " tokens, a sample takes " +
                             std::to_string(length + labels()));
    return Status::success();
  }

  int64_t samples() const override { return (tokens - labels()) / length; }

  Status read(int64_t index,
              const std::vector<std::byte *> &to) const override {
    for (size_t p = 0; p < ports.size(); ++p)
      for (int64_t i = 0; i < length; ++i) {
        int64_t at = index * length + i + static_cast<int64_t>(p);
        uint32_t token = 0;
        std::memcpy(&token, file.data() + begin + at * width, width);
        if (ports[p].limit > 0 && token >= ports[p].limit)
          return Status::invalid(file.path() + ": token " + std::to_string(at) +
                                 " is " + std::to_string(token) +
                                 ", expected less than " +
                                 std::to_string(ports[p].limit));
        storeFromDouble(to[p], ports[p].dtype, i, token);
      }
    return Status::success();
  }

private:
  /// Tokens behind a sample's that are labels alone.
  int64_t labels() const { return static_cast<int64_t>(ports.size()) - 1; }

  Status takePorts(const Plan &plan, const std::string &path) {
    ports = plan.inputs;
    bool fits = ports.size() == 1 || ports.size() == 2;
    for (const Port &port : ports)
      fits = fits && isInteger(port.dtype) &&
             port.globalShape == ports.front().globalShape;
    // What indexes nothing is a mask, say, and no labels.
    if (ports.size() == 2)
      fits = fits && ports[0].limit > 0 && ports[1].limit > 0;
    if (fits)
      return Status::success();
    std::string inputs;
    for (const Port &port : ports)
      inputs += (inputs.empty() ? "" : ", ") + port.name + " " +
                describe(port.dtype, port.globalShape);
    return Status::invalid(
        path +
        ": tokens fit a model with one integer input, or "
        "two of one shape that index (tokens, labels); this one takes " +
        inputs + ": give a folder with NAME.npy, or a .safetensors file");
  }

  /// Whether the tokens are uint32 with nothing in their upper halves, as far
  /// as one looks.
  bool looksWide() const {
    constexpr int64_t kLooked = 1 << 20;
    int64_t pairs = std::min<int64_t>(kLooked, file.size() / 4);
    bool isZero = true;
    for (int64_t i = 0; i < pairs; ++i) {
      uint16_t halves[2];
      std::memcpy(halves, file.data() + i * 4, 4);
      if (halves[1] != 0)
        return false;
      isZero &= halves[0] == 0;
    }
    return file.size() % 4 == 0 && pairs > 1 && !isZero;
  }

  Status readHeader(int64_t vocabulary) {
    struct {
      int32_t magic, version, count;
    } header = {};
    if (file.size() >= 1024)
      std::memcpy(&header, file.data(), sizeof header);
    bool isGpt2 = header.magic == 20240520, isLlama = header.magic == 20240801;
    width = isLlama || (!isGpt2 && vocabulary > 65536) ? 4 : 2;
    begin = isGpt2 || isLlama ? 1024 : 0;
    if (width == 2 && begin == 0 && looksWide())
      return Status::invalid(
          file.path() +
          ": every second uint16 is 0: these look like uint32 tokens, but a "
          "vocabulary of " +
          std::to_string(vocabulary) + " is read as uint16");
    return Status::success();
  }

  MappedFile file;
  std::vector<Port> ports;
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
