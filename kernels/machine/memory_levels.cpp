#include "kernels/machine/memory_levels.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "kernels/core/host_device.hpp"

namespace trainbench {
namespace {

std::string first_word(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

// "48K" or "32M" in bytes; 0 for anything else.
double parse_size(const std::string& text) {
  double size = 0;
  char unit = ' ';
  for (const char digit : text) {
    if (digit >= '0' && digit <= '9') {
      size = size * 10 + (digit - '0');
    } else {
      unit = digit;
    }
  }
  if (unit == 'K') return size * 0x1p10;
  if (unit == 'M') return size * 0x1p20;
  return unit == ' ' ? size : 0;
}

// Level to capacity; a cache that several CPUs share counts once.
std::map<int, double> caches_in_sysfs(std::span<const int> cpus) {
  std::map<int, double> capacity;
  std::set<std::pair<int, std::string>> seen;
  for (const int cpu : cpus) {
    for (int index = 0;; ++index) {
      const std::filesystem::path folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                           "/cache/index" + std::to_string(index);
      const std::string type = first_word(folder / "type");
      if (type.empty()) break;
      const auto level = static_cast<int>(parse_size(first_word(folder / "level")));
      const double size = parse_size(first_word(folder / "size"));
      if (type == "Instruction" || level == 0 || size == 0) continue;
      if (seen.emplace(level, first_word(folder / "shared_cpu_list")).second) {
        capacity[level] += size;
      }
    }
  }
  return capacity;
}

std::map<int, double> caches_in_sysconf(std::size_t cpus) {
  std::map<int, double> capacity;
  const auto per_cpu = static_cast<double>(cpus);
  const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE),
             l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (l1 > 0) capacity[1] = per_cpu * static_cast<double>(l1);
  if (l2 > 0) capacity[2] = per_cpu * static_cast<double>(l2);
  if (l3 > 0) capacity[3] = static_cast<double>(l3);
  return capacity;
}

}  // namespace

std::vector<MemoryLevel> memory_levels(std::span<const int> cpus) {
  std::map<int, double> caches = caches_in_sysfs(cpus);
  if (caches.empty()) caches = caches_in_sysconf(cpus.size());
  std::vector<MemoryLevel> levels;
  double below = 0, largest = 0;
  for (const auto& [level, capacity] : caches) {
    // Half of a cache leaves room for what else is in it, but must not fit into the level below.
    const double bytes = std::min(capacity, std::max(capacity / 2, 2 * below));
    levels.push_back({"l" + std::to_string(level), capacity, static_cast<std::size_t>(bytes)});
    below = capacity;
    largest = std::max(largest, capacity);
  }
  constexpr double kLeast = 0x1p26;  // For machines whose caches are unknown.
  // Caches do not simply drop what is oldest: of arrays four times their size, swept again and
  // again, enough stays to add a tenth to the bandwidth and more.
  double bytes = std::max(kLeast, 16 * largest);
  if (const std::size_t available = available_memory(); available != 0) {
    bytes = std::min(bytes, static_cast<double>(available) / 4);
  }
  levels.push_back(
      {"memory", std::numeric_limits<double>::infinity(), static_cast<std::size_t>(bytes)});
  return levels;
}

}  // namespace trainbench
