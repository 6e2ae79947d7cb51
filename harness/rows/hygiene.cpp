#include "harness/rows/hygiene.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

namespace trainbench {
namespace {

// From these on a row carries a warning: they change times by more than good repetitions differ.
constexpr double kOtherCpuPercent = 5, kStealPercent = 2, kClockDrop = 0.9;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

int cpus() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

double ticks_per_second() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

// The clock of the CPU this thread is on: from cpufreq, else from /proc/cpuinfo, whose entries are
// numbered in order.
double current_mhz() {
  const int cpu = std::max(sched_getcpu(), 0);
  double khz = 0;
  std::ifstream cpufreq("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                        "/cpufreq/scaling_cur_freq");
  if (cpufreq >> khz) return khz / 1000;
  std::ifstream cpuinfo("/proc/cpuinfo");
  int current = -1;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("processor")) ++current;
    if (current == cpu && line.starts_with("cpu MHz")) {
      return std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    }
  }
  return 0;
}

// A percentage with as many digits as it can carry.
std::string percent(double value) { return std::to_string(std::lround(value)) + " %"; }

double value_or_zero(const std::map<std::string, double>& counters, const std::string& name) {
  const auto it = counters.find(name);
  return it == counters.end() ? 0 : it->second;
}

}  // namespace

HygieneWatch::Sample HygieneWatch::read() {
  Sample sample;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  sample.wall = std::chrono::duration<double>(now).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  sample.own = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  sample.involuntary_switches = static_cast<double>(usage.ru_nivcsw);
  // Fields of man proc(5); guests' time is part of user time already.
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  std::ifstream stat("/proc/stat");
  if (stat >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal) {
    sample.busy = (user + nice + system + irq + softirq) / ticks_per_second();
    sample.steal = steal / ticks_per_second();
  }
  sample.mhz = current_mhz();
  return sample;
}

std::map<std::string, double> HygieneWatch::counters() const {
  const Sample end = read();
  const double available = std::max((end.wall - start_.wall) * cpus(), 1e-9);
  const double rounding = cpus() / ticks_per_second();
  const auto share = [&](double used) {
    return std::clamp(100 * (used - rounding) / available, 0.0, 100.0);
  };
  std::map<std::string, double> counters = {
      {"involuntary_switches", end.involuntary_switches - start_.involuntary_switches},
      {"other_cpu_percent", share(end.busy - start_.busy - (end.own - start_.own))},
      {"steal_percent", share(end.steal - start_.steal)},
  };
  if (start_.mhz > 0 && end.mhz > 0) {
    counters["mhz_start"] = start_.mhz;
    counters["mhz_end"] = end.mhz;
  }
  return counters;
}

bool is_hygiene_counter(const std::string& name) {
  return name == "involuntary_switches" || name == "other_cpu_percent" || name == "steal_percent" ||
         name == "mhz_start" || name == "mhz_end";
}

std::vector<std::string> hygiene_warnings(const std::map<std::string, double>& counters) {
  std::vector<std::string> warnings;
  const double other = value_or_zero(counters, "other_cpu_percent");
  const double steal = value_or_zero(counters, "steal_percent");
  const double before = value_or_zero(counters, "mhz_start");
  const double after = value_or_zero(counters, "mhz_end");
  if (other > kOtherCpuPercent) {
    warnings.push_back("other processes used " + percent(other) + " of the CPUs");
  }
  if (steal > kStealPercent) {
    warnings.push_back("the host took " + percent(steal) + " of the CPUs");
  }
  if (after < before * kClockDrop) {
    warnings.push_back("the clock fell by " + percent(100 * (1 - after / before)));
  }
  return warnings;
}

}  // namespace trainbench
