#include "kernels/onednn/weights.hpp"

#include <algorithm>
#include <array>

namespace trainbench::onednn {

std::size_t Weights::add(const Desc& form) {
  if (same_memory(form, kept_)) return 0;
  const auto known = std::ranges::find(copies_, form, &Copy::desc);
  if (known != copies_.end()) return static_cast<std::size_t>(known - copies_.begin()) + 1;
  Copy copy{.desc = form, .reorder = make_reorder(*device_, kept_, form), .offset = state_bytes_};
  state_bytes_ += aligned(form.get_size());
  scratch_bytes_ = std::max(scratch_bytes_, copy.reorder.scratch_bytes());
  copies_.push_back(std::move(copy));
  return copies_.size();
}

std::string Weights::describe_copy(std::size_t form) const {
  return form == 0 ? "" : "+reorder(w):" + copies_[form - 1].reorder.implementation();
}

void* Weights::get(std::size_t form, void* weights, void* state, void* scratch) {
  if (form == 0) return weights;
  Copy& copy = copies_[form - 1];
  void* place = static_cast<std::byte*>(state) + copy.offset;
  if (!copy.current) copy.reorder.run(std::array{weights, place}, scratch);
  copy.current = true;
  return place;
}

void Weights::changed() {
  for (Copy& copy : copies_) copy.current = false;
}

}  // namespace trainbench::onednn
