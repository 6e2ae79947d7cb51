#include "harness/report/context.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/revision.hpp"
#include "harness/run/text.hpp"
#include "kernels/core/cgroup.hpp"
#include "kernels/core/thread_team.hpp"

namespace trainbench {
namespace {

using Json = nlohmann::ordered_json;

// The value behind "key<tab>: value" in /proc/cpuinfo, of the first CPU.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string first_line(const std::string& path, const std::string& otherwise) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : otherwise;
}

// The vector and matrix extensions among the CPU's flags.
std::string cpu_isa(const std::string& flags) {
  std::vector<std::string> found;
  for (const std::string& flag : split(flags, ' ')) {
    if (flag == "fma" || flag == "f16c" || flag == "sse4_2" || flag.starts_with("avx") ||
        flag.starts_with("amx")) {
      found.push_back(flag);
    }
  }
  return found.empty() ? "unknown" : join(found, " ");
}

// "0-3,8".
std::string cpu_list(const std::vector<int>& cpus) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    ranges.push_back(std::to_string(cpus[i]) +
                     (last > i ? "-" + std::to_string(cpus[last]) : std::string()));
    i = last + 1;
  }
  return join(ranges, ",");
}

std::string quota() {
  const double cpus = cgroup_cpu_quota();
  if (!std::isfinite(cpus)) return "none";
  std::ostringstream text;
  text << cpus << " CPUs";
  return text.str();
}

std::string boost() {
  const std::string no_turbo = first_line("/sys/devices/system/cpu/intel_pstate/no_turbo", "");
  if (!no_turbo.empty()) return no_turbo == "0" ? "on" : "off";
  const std::string value = first_line("/sys/devices/system/cpu/cpufreq/boost", "");
  if (value.empty()) return "not readable";
  return value == "1" ? "on" : "off";
}

std::string kernel() {
  utsname names{};
  return uname(&names) == 0 ? std::string(names.sysname) + " " + names.release : "unknown";
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%FT%T%z", &local);
  std::string result = text.data();
  return result.insert(result.size() - 2, ":");  // RFC 3339: +01:00.
}

Json caches(const benchmark::CPUInfo& cpu) {
  Json list = Json::array();
  for (const auto& cache : cpu.caches) {
    list.push_back({{"type", cache.type},
                    {"level", cache.level},
                    {"size", cache.size},
                    {"num_sharing", cache.num_sharing}});
  }
  return list;
}

}  // namespace

std::string build_type() {
  std::string type = TRAINBENCH_BUILD_TYPE;
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type;
}

std::map<std::string, std::string> machine_context(const Options& options) {
  const std::string flags = cpuinfo("flags");
  const std::vector<std::string> all_flags = split(flags, ' ');
  const bool virtual_machine = std::ranges::find(all_flags, "hypervisor") != all_flags.end();
  std::map<std::string, std::string> facts = {
      {"trainbench_version", TRAINBENCH_VERSION},
      {"git_revision", kGitRevision},
      {"build_type", build_type()},
      {"compiler", TRAINBENCH_COMPILER},
      {"sanitizers", *TRAINBENCH_SANITIZERS == '\0' ? "none" : TRAINBENCH_SANITIZERS},
      {"google_benchmark_version", TRAINBENCH_GOOGLE_BENCHMARK_VERSION},
      {"kernel", kernel()},
      {"cpu_model", cpuinfo("model name")},
      {"cpu_isa", cpu_isa(flags)},
      {"cpu_governor",
       first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "not readable")},
      {"cpu_boost", boost()},
      {"virtual_machine", virtual_machine ? "yes" : "no"},
      {"threads", std::to_string(options.threads)},
      {"affinity", cpu_list(allowed_cpus())},
      {"cgroup_cpu_quota", quota()},
      {"data_dir", options.data_dir.empty() ? "none" : options.data_dir},
  };
  return facts;
}

bool library_has_checks(const benchmark::BenchmarkReporter::Context& context) {
  std::ostringstream text;
  benchmark::BenchmarkReporter::PrintBasicContext(&text, context);
  return text.str().find("built as DEBUG") != std::string::npos;
}

Json benchmark_context(const benchmark::BenchmarkReporter::Context& context) {
  const benchmark::CPUInfo& cpu = context.cpu_info;
  Json result;
  result["date"] = local_time();
  result["host_name"] = context.sys_info.name;
  if (context.executable_name != nullptr) result["executable"] = context.executable_name;
  result["num_cpus"] = cpu.num_cpus;
  result["mhz_per_cpu"] = std::lround(cpu.cycles_per_second / 1e6);
  if (cpu.scaling != benchmark::CPUInfo::UNKNOWN) {
    result["cpu_scaling_enabled"] = cpu.scaling == benchmark::CPUInfo::ENABLED;
  }
  result["caches"] = caches(cpu);
  result["load_avg"] = cpu.load_avg;
  result["library_build_type"] = library_has_checks(context) ? "debug" : "release";
  if (const auto* custom = benchmark::internal::GetGlobalContext()) {
    for (const auto& [key, value] : *custom) result[key] = value;
  }
  return result;
}

}  // namespace trainbench
