#include "kernels/core/cgroup.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace trainbench {
namespace {

const std::filesystem::path kMount = "/sys/fs/cgroup";

template <class Value>
std::optional<Value> read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  Value value{};
  if (stream >> value) return value;
  return std::nullopt;  // Not there, or "max".
}

// The path of this process's group: the line "0::/path" of v2.
std::filesystem::path own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

// Calls visit(folder) for this process's group and those above it, up to the mount.
void for_groups(const std::function<void(const std::filesystem::path&)>& visit) {
  std::filesystem::path folder = (kMount / own_group()).lexically_normal();
  while (folder.native().size() > kMount.native().size()) {
    visit(folder);
    folder = folder.parent_path();
  }
  visit(kMount);
}

// Bytes of a group's file cache that the kernel gives up when asked.
std::size_t reclaimable(const std::filesystem::path& group) {
  std::ifstream file(group / "memory.stat");
  std::string key;
  std::size_t value = 0;
  while (file >> key >> value) {
    if (key == "inactive_file") return value;
  }
  return 0;
}

}  // namespace

double cgroup_cpu_quota() {
  double least = std::numeric_limits<double>::infinity();
  for_groups([&](const std::filesystem::path& group) {
    std::ifstream file(group / "cpu.max");
    double quota = 0, period = 0;
    if (file >> quota >> period && quota > 0 && period > 0) least = std::min(least, quota / period);
  });
  const auto quota = read<double>(kMount / "cpu/cpu.cfs_quota_us");
  const auto period = read<double>(kMount / "cpu/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) least = std::min(least, *quota / *period);
  return least;
}

std::size_t cgroup_memory_left() {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  const auto limit = [&least](const std::filesystem::path& most, const std::filesystem::path& used,
                              std::size_t spare) {
    const auto maximum = read<std::size_t>(most), current = read<std::size_t>(used);
    if (!maximum || !current) return;
    const std::size_t needed = *current - std::min(*current, spare);
    least = std::min(least, *maximum - std::min(*maximum, needed));
  };
  for_groups([&](const std::filesystem::path& group) {
    limit(group / "memory.max", group / "memory.current", reclaimable(group));
  });
  limit(kMount / "memory/memory.limit_in_bytes", kMount / "memory/memory.usage_in_bytes", 0);
  return least;
}

}  // namespace trainbench
