#include "data/file_bytes.hpp"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace trainbench {

namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 31;
// Pictures pack to no less than this. The trailer of a file that was cut short says anything.
constexpr std::uint64_t kUsualRatio = 16;
constexpr std::size_t kGzipTrailer = 8;

bool is_gzip(const std::vector<std::uint8_t>& bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// What the gzip trailer says of the unpacked size, as far as that is usual.
std::size_t unpacked_size_hint(const std::vector<std::uint8_t>& packed) {
  if (packed.size() < kGzipTrailer) return 0;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    size |= std::uint64_t{packed[packed.size() - 4 + i]} << (8 * i);
  }
  return std::min({size, kUsualRatio * packed.size(), kMaxBytes});
}

// Unpacks one gzip file of one or several members.
class Gunzip {
 public:
  explicit Gunzip(std::vector<std::uint8_t> packed) : packed_(std::move(packed)) {
    if (inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
    stream_.next_in = packed_.data();
    stream_.avail_in = static_cast<uInt>(packed_.size());
  }
  ~Gunzip() { inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  void unpack(FileBytes& file) {
    std::size_t filled = 0;
    file.bytes.resize(unpacked_size_hint(packed_) + 1);  // One more, to meet the end at once.
    while (file.damage.empty()) {
      if (filled == file.bytes.size()) grow(file);
      stream_.next_out = file.bytes.data() + filled;
      stream_.avail_out = static_cast<uInt>(file.bytes.size() - filled);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      filled = static_cast<std::size_t>(stream_.next_out - file.bytes.data());
      if (status == Z_STREAM_END && stream_.avail_in == 0) break;
      file.damage = next(status);
    }
    file.bytes.resize(filled);
  }

 private:
  static void grow(FileBytes& file) {
    if (file.bytes.size() >= kMaxBytes) file.reject("unpacks to more than 2 GiB");
    file.bytes.resize(std::min<std::size_t>(2 * file.bytes.size() + 65536, kMaxBytes));
  }

  // Goes on after a call of inflate that met no good end; returns what is wrong, if anything is.
  std::string next(int status) {
    if (status == Z_STREAM_END) {
      if (stream_.avail_in >= 2 && stream_.next_in[0] == 0x1f && stream_.next_in[1] == 0x8b) {
        inflateReset(&stream_);
        return "";
      }
      return std::to_string(stream_.avail_in) + " bytes follow the end of the gzip data";
    }
    if (status == Z_OK) return "";
    if (status == Z_BUF_ERROR && stream_.avail_in == 0) {
      return "the gzip data stops early, after " + std::to_string(packed_.size()) + " bytes";
    }
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    return "the gzip data is broken (" +
           std::string(stream_.msg != nullptr ? stream_.msg : zError(status)) + ")";
  }

  std::vector<std::uint8_t> packed_;
  z_stream stream_{};
};

// Whether the content starts like a page that a web server sent instead of the file.
bool is_web_page(const std::vector<std::uint8_t>& bytes) {
  constexpr std::size_t kStart = 64;
  std::string start(bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(std::min(kStart, bytes.size())));
  std::ranges::transform(start, start.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // Byte order mark and white space may come first.
  std::string_view text = start;
  text.remove_prefix(std::min(text.find_first_not_of("\xef\xbb\xbf \t\r\n"), text.size()));
  for (const std::string_view tag : {"<!doctype", "<html", "<head", "<?xml", "<error", "<!--"}) {
    if (text.starts_with(tag)) return true;
  }
  return false;
}

}  // namespace

void FileBytes::reject(const std::string& what) const {
  throw std::runtime_error(path + ": " + what);
}

void FileBytes::check_size(std::uint64_t expected, const std::string& header) const {
  if (damage.empty() && bytes.size() == expected) return;
  std::string what = "expected " + std::to_string(expected) + " bytes (" + header + "), found " +
                     std::to_string(bytes.size());
  if (!damage.empty()) {
    what += "; " + damage;
  } else if (bytes.size() > expected) {
    what += ": " + std::to_string(bytes.size() - expected) + " bytes too many";
  } else {
    what += ": cut short";
  }
  reject(what + "; fetch it again, for example with tools/fetch_data");
}

FileBytes read_file_bytes(const std::string& path) {
  FileBytes file{.path = path, .bytes = {}, .damage = {}};
  if (!std::filesystem::exists(path)) file.reject("there is no such file");
  if (!std::filesystem::is_regular_file(path)) file.reject("is no regular file");
  const std::uint64_t size = std::filesystem::file_size(path);
  if (size > kMaxBytes) file.reject("is larger than 2 GiB: no data set of this kind is");
  file.bytes.resize(size);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) file.reject(std::string("cannot be opened: ") + std::strerror(errno));
  stream.read(reinterpret_cast<char*>(file.bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<std::uint64_t>(stream.gcount()) != size) {
    file.reject("cannot be read to its end: " + std::to_string(stream.gcount()) + " of " +
                std::to_string(size) + " bytes");
  }
  if (is_gzip(file.bytes)) Gunzip(std::move(file.bytes)).unpack(file);
  if (is_web_page(file.bytes)) {
    file.reject(
        "looks like an HTML page: download failed? Fetch it again, for example with "
        "tools/fetch_data");
  }
  return file;
}

}  // namespace trainbench
