#include "harness/report/result_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <set>
#include <system_error>

#include "harness/report/output.hpp"
#include "harness/run/text.hpp"

namespace trainbench {
namespace {

using Json = nlohmann::ordered_json;

bool is_aggregate(const BenchmarkRun& run) { return run.run_type == BenchmarkRun::RT_Aggregate; }

// A coefficient of variation has no unit and is not scaled.
bool is_percentage(const BenchmarkRun& run) {
  return is_aggregate(run) && run.aggregate_unit == benchmark::kPercentage;
}

double real_time(const BenchmarkRun& run) {
  return is_percentage(run) ? run.real_accumulated_time : run.GetAdjustedRealTime();
}

double cpu_time(const BenchmarkRun& run) {
  return is_percentage(run) ? run.cpu_accumulated_time : run.GetAdjustedCPUTime();
}

// Keys and their order are those of Google Benchmark 1.7.1.
Json fields_of(const BenchmarkRun& run) {
  Json fields;
  fields["name"] = run.benchmark_name();
  fields["family_index"] = run.family_index;
  fields["per_family_instance_index"] = run.per_family_instance_index;
  fields["run_name"] = run.run_name.str();
  fields["run_type"] = is_aggregate(run) ? "aggregate" : "iteration";
  fields["repetitions"] = run.repetitions;
  if (!is_aggregate(run)) fields["repetition_index"] = run.repetition_index;
  fields["threads"] = run.threads;
  if (is_aggregate(run)) {
    fields["aggregate_name"] = run.aggregate_name;
    fields["aggregate_unit"] = is_percentage(run) ? "percentage" : "time";
  }
  if (run.error_occurred) {
    fields["error_occurred"] = true;
    fields["error_message"] = run.error_message;
  }
  fields["iterations"] = run.iterations;
  fields["real_time"] = real_time(run);
  fields["cpu_time"] = cpu_time(run);
  fields["time_unit"] = benchmark::GetTimeUnitString(run.time_unit);
  return fields;
}

// As JSON. Labels and messages may quote anything; what is no UTF-8 is replaced.
std::string dump(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

// Indents all lines but the first. Line breaks inside of JSON strings are escaped.
std::string indented(const std::string& text, const std::string& indent) {
  return join(split(text, '\n'), "\n" + indent);
}

std::string csv_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : Json::parse(dump(text)).get<std::string>())
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string csv_field(const Json& fields, const std::string& key) {
  const auto it = fields.find(key);
  if (it == fields.end()) return "";
  return it->is_string() ? csv_quoted(it->get<std::string>()) : it->dump();
}

// Every process has its own idea of what this names, or it cannot be renamed over.
bool is_direct(const std::filesystem::path& path) {
  const std::string text = path.string();
  for (const char* prefix : {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"}) {
    if (text.starts_with(prefix)) return true;
  }
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

// Owns a file descriptor.
class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : name_(path.string()), descriptor_(open(name_.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail("cannot write " + name_, errno);
  }
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(std::string_view text) const { write_all(descriptor_, text, name_); }
  void sync() const {
    if (fsync(descriptor_) != 0) fail("cannot write " + name_, errno);
  }
  // Some file systems tell only here that the disk is full.
  void close() {
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) fail("cannot write " + name_, errno);
  }

 private:
  std::string name_;
  int descriptor_;
};

}  // namespace

std::optional<BenchmarkRun> without_non_finite(BenchmarkRun run) {
  if (!std::isfinite(real_time(run)) || !std::isfinite(cpu_time(run))) {
    if (is_aggregate(run)) return std::nullopt;
    run.error_occurred = true;
    run.error_message = "the measured time is not a finite number";
    run.real_accumulated_time = run.cpu_accumulated_time = 0;
    run.counters.clear();
    return run;
  }
  std::vector<std::string> left_out;
  for (auto it = run.counters.begin(); it != run.counters.end();) {
    const bool finite = std::isfinite(it->second.value);
    if (!finite) left_out.push_back(it->first);
    it = finite ? std::next(it) : run.counters.erase(it);
  }
  if (!left_out.empty() && !is_aggregate(run))
    add_warning(run, "not finite, left out: " + join(left_out, ","));
  return run;
}

void add_warning(BenchmarkRun& run, const std::string& text) {
  if (!run.report_label.empty()) run.report_label += ';';
  run.report_label += "warning=" + text;
}

void ResultDocument::add(const BenchmarkRun& run) {
  Entry entry;
  entry.fields = fields_of(run);
  Json all = entry.fields;
  for (const auto& [name, counter] : run.counters) {
    entry.counters[name] = counter.value;
    all[name] = counter.value;
  }
  if (!run.report_label.empty()) all["label"] = entry.fields["label"] = run.report_label;
  entry.json = indented(dump(all), "    ");
  entries_.push_back(std::move(entry));
}

std::string ResultDocument::json() const {
  std::string text = "{\n  \"context\": " + indented(dump(context_), "  ");
  text += ",\n  \"benchmarks\": [";
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + entries_[i].json;
  }
  return text + "\n  ]\n}\n";
}

std::string ResultDocument::csv() const {
  const std::vector<std::string> fixed = {"iterations", "real_time", "cpu_time", "time_unit"};
  const std::vector<std::string> rates = {"bytes_per_second", "items_per_second"};
  const std::vector<std::string> texts = {"label", "error_occurred", "error_message"};
  std::set<std::string> columns;
  for (const Entry& entry : entries_) {
    for (const auto& [name, value] : entry.counters) columns.insert(name);
  }
  for (const std::string& rate : rates) columns.erase(rate);
  std::string text = "name," + join(fixed, ",") + "," + join(rates, ",") + "," + join(texts, ",");
  for (const std::string& column : columns) text += "," + csv_quoted(column);
  text += "\n";
  for (const Entry& entry : entries_) {
    const auto counter = [&entry](const std::string& name) {
      const auto it = entry.counters.find(name);
      return it == entry.counters.end() ? std::string() : Json(it->second).dump();
    };
    text += csv_field(entry.fields, "name");
    for (const std::string& key : fixed) text += "," + csv_field(entry.fields, key);
    for (const std::string& key : rates) text += "," + counter(key);
    for (const std::string& key : texts) text += "," + csv_field(entry.fields, key);
    for (const std::string& column : columns) text += "," + counter(column);
    text += "\n";
  }
  return text;
}

ResultFile::ResultFile(const std::string& path) : path_(path), direct_(is_direct(path)) {
  if (direct_) {
    if (access(path.c_str(), W_OK) != 0) fail("cannot write " + path, errno);
    return;
  }
  if (std::filesystem::is_directory(path_)) fail("cannot write " + path, EISDIR);
  path_ = std::filesystem::weakly_canonical(
      std::filesystem::absolute(path_));  // A link keeps pointing where it does.
  partial_ = path_.string() + ".partial";
  fresh_ = partial_.string() + ".new";
  File(fresh_, O_WRONLY | O_CREAT | O_TRUNC).close();
  unlink(fresh_.c_str());
}

void ResultFile::write_partial(std::string_view text, bool sync) const {
  File file(fresh_, O_WRONLY | O_CREAT | O_TRUNC);
  try {
    file.write(text);
    if (sync) file.sync();
    file.close();
    std::filesystem::rename(fresh_, partial_);
  } catch (...) {
    unlink(fresh_.c_str());
    throw;
  }
}

void ResultFile::save(std::string_view text) const {
  if (!direct_) write_partial(text, false);
}

void ResultFile::finish(std::string_view text) const {
  if (direct_) {
    File file(path_, O_WRONLY | O_APPEND);
    file.write(text);
    file.close();
    return;
  }
  write_partial(text, true);
  std::filesystem::rename(partial_, path_);
  File(path_.parent_path(), O_RDONLY | O_DIRECTORY).sync();
}

}  // namespace trainbench
