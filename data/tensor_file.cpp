#include "data/tensor_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/file_bytes.hpp"

namespace trainbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;  // Of the header, little-endian.
constexpr std::size_t kDataAlignment = 8;
constexpr std::string_view kMetadata = "__metadata__";

// 0: no such type.
std::size_t element_bytes(std::string_view type) {
  struct Type {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr std::array<Type, 5> kTypes = {
      {{"F32", 4}, {"F64", 8}, {"U8", 1}, {"I32", 4}, {"U32", 4}}};
  const auto* it = std::ranges::find(kTypes, type, &Type::name);
  return it == kTypes.end() ? 0 : it->bytes;
}

std::uint64_t read_length(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::uint64_t{bytes[i]} << (8 * i);
  return length;
}

// Bytes of an array; throws std::runtime_error when it is none.
std::uint64_t size_of(const NamedTensor& tensor) {
  std::uint64_t size = element_bytes(tensor.type);
  if (size == 0) throw std::runtime_error("elements of type " + tensor.type + " are not read here");
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 ||
        (extent > 0 && size > (std::uint64_t{1} << 40) / static_cast<std::uint64_t>(extent))) {
      throw std::runtime_error("its shape is no array's");
    }
    size *= static_cast<std::uint64_t>(extent);
  }
  return size;
}

NamedTensor read_tensor(const std::string& name, const Json& entry,
                        std::span<const std::uint8_t> data) {
  NamedTensor tensor{.name = name,
                     .type = entry.at("dtype").get<std::string>(),
                     .shape = entry.at("shape").get<std::vector<std::int64_t>>(),
                     .bytes = {}};
  const auto place = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
  const std::uint64_t size = size_of(tensor);
  if (place[0] > place[1] || place[1] > data.size()) {
    throw std::runtime_error("it ends behind the end of the file: cut short");
  }
  if (place[1] - place[0] != size) {
    throw std::runtime_error(tensor.describe() + " has " + std::to_string(size) + " bytes, not " +
                             std::to_string(place[1] - place[0]));
  }
  const auto bytes = std::as_bytes(data.subspan(place[0], size));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

std::string header_of(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[std::string(kMetadata)] = file.metadata;
  std::uint64_t begin = 0;
  for (const NamedTensor& tensor : file.tensors) {
    const std::uint64_t end = begin + tensor.bytes.size();
    if (tensor.name == kMetadata || header.contains(tensor.name) ||
        size_of(tensor) != end - begin) {
      throw std::logic_error("no tensor for a file: " + tensor.name + " " + tensor.describe());
    }
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", std::array<std::uint64_t, 2>{begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  return text;
}

}  // namespace

std::int64_t NamedTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string NamedTensor::describe() const {
  std::string text = type + " (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + ")";
}

void NamedTensor::throw_not(std::string_view wanted) const {
  throw std::runtime_error("the tensor " + name + " is " + describe() + ", not of type " +
                           std::string(wanted));
}

const NamedTensor* TensorFile::find(std::string_view name) const {
  const auto it = std::ranges::find(tensors, name, &NamedTensor::name);
  return it == tensors.end() ? nullptr : &*it;
}

const NamedTensor& TensorFile::at(std::string_view name) const {
  if (const NamedTensor* tensor = find(name)) return *tensor;
  std::string known;
  for (const NamedTensor& tensor : tensors) known += (known.empty() ? "" : ", ") + tensor.name;
  throw std::runtime_error("no tensor " + std::string(name) + " among " +
                           (known.empty() ? "none" : known));
}

TensorFile read_tensor_file(const std::string& path) {
  const FileBytes file = read_file_bytes(path);
  if (file.bytes.size() < kLengthBytes) file.reject("is no safetensors file: too short");
  const std::uint64_t length = read_length(file.bytes);
  const auto all = std::span(file.bytes).subspan(kLengthBytes);
  if (length > all.size()) file.reject("is no safetensors file, or cut short within its header");
  const auto header = all.first(length);
  TensorFile result;
  std::string part = "header";
  try {
    const Json json = Json::parse(header.begin(), header.end());
    for (const auto& [name, entry] : json.items()) {
      part = name;
      if (name == kMetadata) {
        result.metadata = entry.get<std::map<std::string, std::string>>();
      } else {
        result.tensors.push_back(read_tensor(name, entry, all.subspan(length)));
      }
    }
  } catch (const Json::exception& error) {
    file.reject("is no safetensors file: " + part + ": " + error.what());
  } catch (const std::runtime_error& error) {
    file.reject(part + ": " + error.what());
  }
  return result;
}

std::string tensor_file_bytes(const TensorFile& file) {
  const std::string header = header_of(file);
  std::string bytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xFF);
  }
  bytes += header;
  for (const NamedTensor& tensor : file.tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return bytes;
}

}  // namespace trainbench
