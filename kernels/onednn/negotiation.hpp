#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kernels/onednn/primitive.hpp"

// How an op settles the formats of its operands: it asks for several and keeps the best answer.
namespace trainbench::onednn {

// Describes the primitives for each wish in turn, until an answer costs nothing, and returns the
// cheapest. `describe(wish)` throws dnnl::error for a wish that cannot be had; so does this when
// that is so for all.
template <class Answer, class Wish, class Describe, class Cost>
Answer negotiate(const std::vector<Wish>& wishes, const Describe& describe, const Cost& cost) {
  std::optional<Answer> best;
  std::optional<dnnl::error> failure;
  int lowest = 0;
  for (const Wish& wish : wishes) {
    try {
      Answer answer = describe(wish);
      const int price = cost(answer);
      if (best && price >= lowest) continue;
      best = std::move(answer);
      lowest = price;
      if (lowest == 0) break;
    } catch (const dnnl::error& error) {
      if (!failure) failure = error;
    }
  }
  if (!best) throw *failure;
  return *std::move(best);
}

// What makes an answer dear: plain loops most, then a reorder in every step.
inline constexpr int kRankCost = 100, kReorderCost = 1;

}  // namespace trainbench::onednn
