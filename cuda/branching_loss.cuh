// branching_loss: one warp's share of branching C51: logits of a row, softmax, cross-entropy and its gradient.
//     logits_k(a) = v + a_k(a) - (1 / n_k) sum_a' a_k(a');  CE_k = - sum_j m_j log p_kj
//     d loss / d logits_k = scale (p_k - m);  every head row gets its share of it: v the sum over the branches,
//     a_k(a) the share 1(a = taken) - 1 / n_k
// paper        Bellemare, Dabney & Munos 2017, algorithm 1; Tavakoli, Pardo & Kormushev 2018, eq. 1. Branch after
//              branch, because the target is known before: a row's logits are read once and never stored
// launch       device functions for a whole warp; lane l owns atoms 64 p + 2 l and 64 p + 2 l + 1
// compile      NUM_ATOMS  Z >= 2;  ACTIONS  n5n3n3 for 5, 3 and 3 actions, each 1 to 256 (a comma
//              would part an option)
// in / out     head      f32 [1 + A, Zp]  a row's head output without bias: value first, then branch 0's actions,
//                        ..; Zp = Z rounded up to 8; columns from Z on are ignored in, 0 out
//              bias      f32 [1 + A, Zp]
//              action    u8  [K]
//              target    Atoms  m, the row's shared target
//              gradient  T   [1 + A, Zp]  d loss / d head, out
// determinism  bitwise: butterfly sums
// capture      safe: no allocation, no host read
// reference    trainer/reference/c51_loss.py, dueling_logits.py, c51_project.py (scatter form)
//              test  tests/kernels/test_c51_iql_step.py
#pragma once

#include "activation.cuh"
#include "reduce.cuh"

namespace foxtune {

constexpr int kAtoms = NUM_ATOMS;
constexpr int kAtomPitch = (NUM_ATOMS + 7) / 8 * 8;
constexpr int kAtomSlots = 2 * ((kAtomPitch + 63) / 64);  // atoms per lane
constexpr float kSmallestNormal = 1.17549435e-38f;
constexpr float kLowest = -3.402823466e38f;  // NVRTC knows no INFINITY

#define FOXTUNE_TEXT_OF(x) #x
#define FOXTUNE_TEXT(x) FOXTUNE_TEXT_OF(x)

// The number behind the place'th letter n of a text such as n5n3n3; 0 behind the last.
__host__ __device__ constexpr int listed(const char* text, int place) {
  for (int seen = -1; *text != '\0'; ++text) {
    if (*text == 'n' && ++seen == place) break;
  }
  if (*text == '\0') return 0;
  int number = 0;
  for (++text; *text >= '0' && *text <= '9'; ++text) number = 10 * number + (*text - '0');
  return number;
}

__host__ __device__ constexpr int actions_of(int branch) { return listed(FOXTUNE_TEXT(ACTIONS), branch); }

constexpr int branches() {
  int count = 0;
  while (actions_of(count) > 0) ++count;
  return count;
}

// The head row of a branch's first action; row 0 is the value.
__host__ __device__ constexpr int first_row_of(int branch) {
  int row = 1;
  for (int before = 0; before < branch; ++before) row += actions_of(before);
  return row;
}

constexpr int kBranches = branches();
constexpr int kLogitWidth = first_row_of(kBranches) * kAtomPitch;

// One branch, its sizes compile-time constants.
template <int k>
struct Branch {
  static constexpr int kNumber = k;
  static constexpr int kActions = actions_of(k);
  static constexpr int kFirstRow = first_row_of(k);
};

// Calls body(Branch<0>()), body(Branch<1>()), ...
template <int k = 0, typename Body>
__device__ __forceinline__ void each_branch(const Body& body) {
  if constexpr (k < kBranches) {
    body(Branch<k>());
    each_branch<k + 1>(body);
  }
}

using Atoms = float[kAtomSlots];

__device__ __forceinline__ int atom_of(int slot, int lane) { return 64 * (slot / 2) + 2 * lane + slot % 2; }

// Row `row` of the head output, bias included; 0 behind the padded row.
__device__ __forceinline__ void load_row(const float* head, const float* bias, int row, int lane, Atoms& out) {
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; slot += 2) {
    const int atom = atom_of(slot, lane);
    float2 sum = make_float2(0.0f, 0.0f);
    if (atom < kAtomPitch) {
      const float2 product = *reinterpret_cast<const float2*>(head + row * kAtomPitch + atom);
      const float2 shift = __ldg(reinterpret_cast<const float2*>(bias + row * kAtomPitch + atom));
      sum = make_float2(product.x + shift.x, product.y + shift.y);
    }
    out[slot] = sum.x;
    out[slot + 1] = sum.y;
  }
}

// Adds the branch's rows into `total` and keeps the row of the taken action.
__device__ __forceinline__ void sum_of_branch(const float* head, const float* bias, int first_row, int actions,
                                              int taken, int lane, Atoms& total, Atoms& chosen) {
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) total[slot] = chosen[slot] = 0.0f;
#pragma unroll 4
  for (int action = 0; action < actions; ++action) {
    Atoms row;
    load_row(head, bias, first_row + action, lane, row);
#pragma unroll
    for (int slot = 0; slot < kAtomSlots; ++slot) {
      total[slot] += row[slot];
      chosen[slot] = action == taken ? row[slot] : chosen[slot];
    }
  }
}

// Logits of the taken action of a branch, dueling form.
__device__ __forceinline__ void chosen_logits(const float* head, const float* bias, const Atoms& value, int first_row,
                                              int actions, int taken, int lane, Atoms& logits) {
  Atoms total;
  sum_of_branch(head, bias, first_row, actions, taken, lane, total, logits);
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    logits[slot] = logits[slot] - total[slot] * (1.0f / actions) + value[slot];
  }
}

// Turns logits into exp(logit - maximum), 0 outside the support; `shifted` keeps logit - maximum.
// Returns the sum over the warp.
__device__ __forceinline__ float exponentials(Atoms& logits, Atoms& shifted, int lane) {
  float highest = kLowest;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    if (atom_of(slot, lane) < kAtoms) highest = fmaxf(highest, logits[slot]);
  }
  highest = warp_max(highest);
  float sum = 0.0f;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    const bool inside = atom_of(slot, lane) < kAtoms;
    shifted[slot] = inside ? logits[slot] - highest : 0.0f;
    logits[slot] = inside ? expf(shifted[slot]) : 0.0f;
    sum += logits[slot];
  }
  return warp_sum(sum);
}

// sum_j x_j z_j of a lane, with z_j = v_min + j spacing.
__device__ __forceinline__ float lane_expectation(const Atoms& probs, float v_min, float spacing, int lane) {
  float sum = 0.0f;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    sum += probs[slot] * (v_min + static_cast<float>(atom_of(slot, lane)) * spacing);
  }
  return sum;
}

// Place of x on the axis of atom numbers, clipped to [0, Z - 1]; NaN stays NaN.
__device__ __forceinline__ float atom_position(float x, float v_min, float v_max, float spacing) {
  if (isnan(x)) return x;
  const float inside = fminf(fmaxf(x, v_min), v_max);
  return fminf(fmaxf((inside - v_min) / spacing, 0.0f), static_cast<float>(kAtoms - 1));
}

// max(0, 1 - |position - atom|); NaN stays NaN.
__device__ __forceinline__ float hat(float position, int atom) {
  const float height = 1.0f - fabsf(position - static_cast<float>(atom));
  return height < 0.0f ? 0.0f : height;
}

// sum_j m_j log m_j over the warp, with 0 log 0 = 0.
__device__ __forceinline__ float negative_entropy(const Atoms& target) {
  float sum = 0.0f;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    const float mass = target[slot];
    // not fmaxf, which would lose NaN
    sum += mass * logf(mass < kSmallestNormal ? kSmallestNormal : mass);
  }
  return warp_sum(sum);
}

__device__ __forceinline__ void store_pair(float* place, float first, float second) {
  *reinterpret_cast<float2*>(place) = make_float2(first, second);
}

__device__ __forceinline__ void store_pair(Bf16* place, float first, float second) {
  *reinterpret_cast<unsigned int*>(place) = bf16_word(first, second);
}

template <typename T>
__device__ __forceinline__ void store_row(T* gradient, int row, int lane, const Atoms& slope, float share) {
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; slot += 2) {
    const int atom = atom_of(slot, lane);
    if (atom < kAtomPitch) {
      store_pair(gradient + row * kAtomPitch + atom, slope[slot] * share, slope[slot + 1] * share);
    }
  }
}

struct BranchingLoss {
  float cross_entropy;  // mean over the branches, nats
  float quantity;  // mean over the branches of E[Q_k(s, a_k)]
};

// Cross-entropy of all branches against the target; writes d loss / d head for a row whose loss counts
// `scale` x sum over the branches. All lanes return the same.
template <typename T>
__device__ __forceinline__ BranchingLoss branching_loss(const float* head, const float* bias,
                                                        const unsigned char* action, const Atoms& target, float scale,
                                                        float v_min, float spacing, int lane, T* gradient) {
  Atoms value, value_slope;
  load_row(head, bias, 0, lane, value);
  float mass = 0.0f;
#pragma unroll
  for (int slot = 0; slot < kAtomSlots; ++slot) {
    value_slope[slot] = 0.0f;
    mass += target[slot];
  }
  mass = warp_sum(mass);
  BranchingLoss result{0.0f, 0.0f};
  each_branch([&](auto branch) {
    constexpr int actions = decltype(branch)::kActions;
    constexpr int first_row = decltype(branch)::kFirstRow;
    const int taken = action[decltype(branch)::kNumber];
    Atoms probs, shifted, slope;
    chosen_logits(head, bias, value, first_row, actions, taken, lane, probs);
    const float total = exponentials(probs, shifted, lane);
    float hit = 0.0f;
#pragma unroll
    for (int slot = 0; slot < kAtomSlots; ++slot) {
      hit += target[slot] * shifted[slot];
      probs[slot] /= total;
      slope[slot] = (probs[slot] - target[slot]) * scale;
      value_slope[slot] += slope[slot];
    }
    result.cross_entropy += logf(total) * mass - warp_sum(hit);
    result.quantity += warp_sum(lane_expectation(probs, v_min, spacing, lane));
    for (int a = 0; a < actions; ++a) {
      store_row(gradient, first_row + a, lane, slope, (a == taken ? 1.0f : 0.0f) - 1.0f / actions);
    }
  });
  store_row(gradient, 0, lane, value_slope, 1.0f);
  result.cross_entropy *= 1.0f / kBranches;
  result.quantity *= 1.0f / kBranches;
  return result;
}

// The importance weight of a row: raw weights are divided by the largest of the batch; -1 stands for 1.
__device__ __forceinline__ float row_weight(float raw, int largest_bits) {
  return raw < 0.0f ? 1.0f : raw / __int_as_float(largest_bits);
}

}  // namespace foxtune
