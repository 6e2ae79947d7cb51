#include <algorithm>
#include <cmath>

#include "kernels/core/dataset_view.hpp"
#include "kernels/core/op.hpp"
#include "kernels/core/op_table.hpp"
#include "kernels/core/tensor.hpp"

namespace trainbench {

std::string to_string(const Shape& shape) {
  std::string text;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += 'x';
    text += std::to_string(shape[i]);
  }
  return text;
}

DatasetView DatasetView::slice(std::int64_t first, std::int64_t length) const {
  if (first < 0 || length < 0 || first > count || length > count - first) {
    throw std::out_of_range(name + " has " + std::to_string(count) + " pictures, not " +
                            std::to_string(first) + " + " + std::to_string(length));
  }
  DatasetView part = *this;
  part.count = length;
  part.images += first * sample.elements();
  part.labels += first;
  return part;
}

double relative_tolerance(Precision precision, std::int64_t reduction_length, double error_factor) {
  const double k = static_cast<double>(std::max<std::int64_t>(reduction_length, 1));
  return error_factor * (4 * input_epsilon(precision) + (4 + std::sqrt(k)) * 0x1p-24);
}

void OpTable::borrow(std::string_view owner, const OpTable& from,
                     std::initializer_list<std::string_view> ops) {
  for (const std::string_view op : ops) {
    const auto named = [op](const auto& item) { return item.second.op == op; };
    const auto it = std::ranges::find_if(from.entries_, named);
    if (it == from.entries_.end() || !it->second.borrowed_from.empty()) {
      throw std::logic_error(std::string(owner) + " has no " + std::string(op) + " of its own");
    }
    if (!entries_.emplace(it->first, it->second).second) {
      throw std::logic_error("borrows " + std::string(op) + " but has it already");
    }
    entries_.at(it->first).borrowed_from = owner;
  }
}

std::vector<std::string> OpTable::own_ops() const {
  std::vector<std::string> names;
  for (const auto& [type, entry] : entries_) {
    if (entry.borrowed_from.empty()) names.push_back(entry.op);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> OpTable::borrowed_ops() const {
  std::vector<std::string> names;
  for (const auto& [type, entry] : entries_) {
    if (!entry.borrowed_from.empty()) names.push_back(entry.borrowed_from + ":" + entry.op);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace trainbench
