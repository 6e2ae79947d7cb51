#pragma once

#include <string>
#include <vector>

#include "kernels/onednn/primitive.hpp"

namespace trainbench::onednn {

// A layer's weights in the form in which training keeps them, 32-bit floats, and copies for
// primitives that want another form. A copy is made when it is first asked for after the weights
// changed.
class Weights {
 public:
  Weights() = default;
  Weights(OnednnDevice& device, const Desc& kept) : device_(&device), kept_(kept) {}

  const Desc& kept() const { return kept_; }
  // The number to ask for weights of this form with.
  std::size_t add(const Desc& form);
  // "+reorder(w):jit:blk" where a form takes a copy, else empty: for labels.
  std::string describe_copy(std::size_t form) const;
  // Where the weights in a form are: `weights` themselves, or a copy of them within `state`.
  void* get(std::size_t form, void* weights, void* state, void* scratch);
  void changed();

  std::size_t state_bytes() const { return state_bytes_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  struct Copy {
    Desc desc;
    Primitive reorder;
    std::size_t offset = 0;
    bool current = false;
  };
  OnednnDevice* device_ = nullptr;
  Desc kept_;
  std::vector<Copy> copies_;
  std::size_t state_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace trainbench::onednn
